import base64
import json
from datetime import UTC, datetime, timedelta

import pytest

from headrace.webhooks.answers import new_signing_secret
from headrace.webhooks.errors import BadSignature
from headrace.webhooks.verify import verify
from tests.support import standard_webhook

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
TOLERANCE = timedelta(seconds=300)
SECRET = new_signing_secret()
BODY = '{"kind": "ping"}'


def signed(body: str, *, secret: str = SECRET, at: datetime = NOW, event_id: str = "evt_1") -> dict[str, str]:
    return standard_webhook.signed(body.encode(), secret=secret, at=at, event_id=event_id)


def verified(body: str, headers: dict[str, str], *, secret: str = SECRET) -> str:
    return verify(body, headers, secret=secret, now=NOW, tolerance=TOLERANCE)


@pytest.mark.parametrize(
    "body", [BODY, "", "plain text", "Grüße, 世界 \N{ROCKET}", "\ufeff{}", "line\r\nline\n"]
)
def test_signed_event_tells_its_id(body: str) -> None:
    assert verified(body, signed(body)) == "evt_1"


def test_json_is_verified_as_it_was_spaced() -> None:
    odd = '{ "b" :1,\n\t"a":  2.50 , "b": 3 }\n'

    assert verified(odd, signed(odd)) == "evt_1"
    with pytest.raises(BadSignature, match="no signature"):
        verified(json.dumps(json.loads(odd)), signed(odd))


def test_one_fitting_signature_among_others_is_enough() -> None:
    fitting = signed(BODY)
    others = f"v1a,ZWQyNTUxOQ== v1,{base64.b64encode(bytes(32)).decode()} nonsense"

    assert (
        verified(BODY, fitting | {"webhook-signature": f"{others} {fitting['webhook-signature']}"}) == "evt_1"
    )


def test_another_secret_does_not_fit() -> None:
    with pytest.raises(BadSignature, match="no signature"):
        verified(BODY, signed(BODY, secret=new_signing_secret()))


@pytest.mark.parametrize(
    "changed",
    [
        {"webhook-id": "evt_2"},
        {"webhook-timestamp": str(int(NOW.timestamp()) + 1)},
        {"webhook-signature": "v1"},
    ],
)
def test_changed_header_does_not_fit(changed: dict[str, str]) -> None:
    with pytest.raises(BadSignature, match="no signature"):
        verified(BODY, signed(BODY) | changed)


@pytest.mark.parametrize(("seconds", "told"), [(-301, "301 s behind"), (301, "301 s ahead of")])
def test_timestamp_out_of_tolerance_is_refused(seconds: int, told: str) -> None:
    headers = signed(BODY, at=NOW + timedelta(seconds=seconds))

    with pytest.raises(BadSignature, match=told):
        verified(BODY, headers)


@pytest.mark.parametrize("seconds", [-300, 300])
def test_timestamp_at_the_edge_of_tolerance_is_accepted(seconds: int) -> None:
    assert verified(BODY, signed(BODY, at=NOW + timedelta(seconds=seconds))) == "evt_1"


@pytest.mark.parametrize("timestamp", ["soon", "-5", "1893499200.0", "nan", "9" * 40, "٣"])
def test_timestamp_that_is_no_number_of_seconds_is_refused(timestamp: str) -> None:
    with pytest.raises(BadSignature, match="whole number"):
        verified(BODY, signed(BODY) | {"webhook-timestamp": timestamp})


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_missing_header_is_named(name: str) -> None:
    headers = signed(BODY)
    del headers[name]

    with pytest.raises(BadSignature, match=f"no {name} header"):
        verified(BODY, headers)


def test_signature_does_not_serve_for_another_split_into_id_and_body() -> None:
    seconds = int(NOW.timestamp())
    genuine = signed(f"{seconds}.4 degrees")
    forged = genuine | {"webhook-id": f"evt_1.{seconds}"}

    assert verified(f"{seconds}.4 degrees", genuine) == "evt_1"
    with pytest.raises(BadSignature, match="two ways"):
        verified("4 degrees", forged)


def test_id_may_have_full_stops() -> None:
    assert verified(BODY, signed(BODY, event_id="order.paid.17")) == "order.paid.17"
