"""Standard Webhooks headers, made from the specification and without its library."""

import base64
import hashlib
import hmac
from datetime import datetime


def signed(body: bytes, *, secret: str, at: datetime, event_id: str = "evt_1") -> dict[str, str]:
    """The headers that a sender adds to an event.

    Args:
        body: What is sent, as it is sent.
        secret: `whsec_...`.
        at: When it is sent.
        event_id: Its identity, the same at every retry.
    """
    timestamp = str(int(at.timestamp()))
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.digest(key, f"{event_id}.{timestamp}.".encode() + body, hashlib.sha256)
    signature = f"v1,{base64.b64encode(digest).decode()}"
    return {"webhook-id": event_id, "webhook-timestamp": timestamp, "webhook-signature": signature}
