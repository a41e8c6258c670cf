from datetime import UTC, datetime

from headrace.contracts.runs import ChatMessage, Door, Lane, RunRequested
from headrace.webhooks.delivery import Delivery

DELIVERY = Delivery(
    subscription_id="sub_1",
    subscription_name="orders",
    account_id="acc_1",
    agent_id="agent_1",
    event_id="evt.1 a",
    body=b'{"total":  3}',
    content_type="application/json",
    received_at=datetime(2030, 1, 1, tzinfo=UTC),
)


def test_event_becomes_a_background_run_with_its_whole_text() -> None:
    assert DELIVERY.request() == RunRequested(
        run_id=DELIVERY.run_id,
        door=Door.WEBHOOK,
        lane=Lane.BACKGROUND,
        account_id="acc_1",
        agent_id="agent_1",
        trigger="evt.1 a",
        input=(
            ChatMessage(
                role="user", content='Event evt.1 a arrived through the webhook orders.\n\n{"total":  3}'
            ),
        ),
        requested_at=DELIVERY.received_at,
    )


def test_wake_up_fits_a_subject_whatever_the_event_is_called() -> None:
    assert DELIVERY.wake_up().subject == "hook.received.standard.sub_1"
    assert DELIVERY.wake_up().message_id == f"{DELIVERY.delivery_id}.received"
