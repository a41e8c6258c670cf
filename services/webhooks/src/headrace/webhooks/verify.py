"""Standard Webhooks signatures, over the body exactly as it came. The time is an input."""

import hmac
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from standardwebhooks import Webhook

from headrace.webhooks.errors import BadSignature

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
_UNIX_SECONDS = re.compile(r"[0-9]{1,15}")
_ID_WITH_TIMESTAMP = re.compile(r"\.[0-9]{9,}(\.|$)")
"""What is signed is `id.timestamp.body`, so a timestamp within an id could be taken for the timestamp."""


def verify(text: str, headers: Mapping[str, str], *, secret: str, now: datetime, tolerance: timedelta) -> str:
    """See that an event was signed with a secret, and lately; answers the event's id.

    Args:
        text: The body as it came. UTF-8 is the same bytes again when it is encoded.
        headers: The request's, by lower-case name.
        secret: `whsec_...`.
        now: The current instant.
        tolerance: How far the event's timestamp may be from `now`, either way.

    Raises:
        BadSignature: A header is missing or malformed, the timestamp is out of tolerance, or no signature fits.
    """
    missing = [name for name in (ID, TIMESTAMP, SIGNATURE) if not headers.get(name)]
    if missing:
        raise BadSignature(f"the request is not signed: it has no {' and no '.join(missing)} header")
    if _ID_WITH_TIMESTAMP.search(headers[ID]):
        raise BadSignature(
            "webhook-id holds a timestamp after a full stop, so what was signed can be read in two ways"
        )
    sent_at = _sent_at(headers[TIMESTAMP], now=now, tolerance=tolerance)
    expected = Webhook(secret).sign(headers[ID], sent_at, text).encode()
    given = headers[SIGNATURE].encode().split(b" ")
    if not any(hmac.compare_digest(each, expected) for each in given):
        raise BadSignature(
            "no signature in webhook-signature fits this body, webhook-id and webhook-timestamp"
        )
    return headers[ID]


def _sent_at(timestamp: str, *, now: datetime, tolerance: timedelta) -> datetime:
    if not _UNIX_SECONDS.fullmatch(timestamp):
        raise BadSignature("webhook-timestamp must be a whole number of Unix seconds")
    distance = int(timestamp) - now.timestamp()
    allowed = tolerance.total_seconds()
    if abs(distance) > allowed:
        direction = "behind" if distance < 0 else "ahead of"
        raise BadSignature(
            f"webhook-timestamp is {abs(distance):.0f} s {direction} this server's clock; {allowed:.0f} s are allowed"
        )
    return datetime.fromtimestamp(int(timestamp), UTC)
