import re
from datetime import timedelta

import pytest
from cryptography.fernet import Fernet
from pydantic import SecretStr

from headrace.common.errors import Conflict, NotFound
from headrace.common.secret_box import SecretBox
from headrace.contracts.hooks import (
    CreateSubscription,
    Deleted,
    DeleteSubscription,
    HookReceived,
    ListSubscriptions,
    Subscriptions,
)
from headrace.contracts.runs import RunRequested
from headrace.webhooks.answers import SubscriptionDesk
from headrace.webhooks.handlers import request_run
from headrace.webhooks.receive import Receiver
from tests.support.service_database import ServiceDatabase
from tests.support.standard_webhook import signed

QUESTION = CreateSubscription(subscription_id="sub_1", account_id="acc_1", agent_id="agent_1", name="orders")
BOX = SecretBox(SecretStr(Fernet.generate_key().decode()))


@pytest.fixture
def desk(stored: ServiceDatabase) -> SubscriptionDesk:
    return SubscriptionDesk(db=stored.database, box=BOX, public_url="http://door/")


async def test_subscription_tells_its_address_and_secret(desk: SubscriptionDesk) -> None:
    made = await desk.create(QUESTION)

    assert made.url == "http://door/hooks/sub_1"
    assert re.fullmatch(r"whsec_[A-Za-z0-9+/]{32}", made.secret or "")


async def test_one_id_is_one_subscription(desk: SubscriptionDesk) -> None:
    made = await desk.create(QUESTION)

    assert await desk.create(QUESTION) == made


async def test_list_tells_no_secret(desk: SubscriptionDesk) -> None:
    made = await desk.create(QUESTION)

    told = await desk.list(ListSubscriptions(account_id="acc_1"))

    assert told == Subscriptions(items=(made.model_copy(update={"secret": None}),))


async def test_another_account_sees_and_changes_nothing(desk: SubscriptionDesk) -> None:
    await desk.create(QUESTION)

    with pytest.raises(Conflict):
        await desk.create(QUESTION.model_copy(update={"account_id": "acc_2"}))
    assert await desk.list(ListSubscriptions(account_id="acc_2")) == Subscriptions(items=())
    closing = DeleteSubscription(account_id="acc_2", subscription_id="sub_1")
    assert await desk.delete(closing) == Deleted(existed=False)


async def test_event_accepted_before_its_subscription_was_deleted_becomes_a_run(
    stored: ServiceDatabase, desk: SubscriptionDesk
) -> None:
    made = await desk.create(QUESTION)
    receiver = Receiver(db=stored.database, box=BOX, tolerance=timedelta(seconds=300), max_event_bytes=10_000)
    headers = signed(b"hi  there", secret=made.secret or "", at=stored.clock.now())
    receipt = await receiver.receive("sub_1", headers, b"hi  there")

    assert await desk.delete(DeleteSubscription(account_id="acc_1", subscription_id="sub_1")) == Deleted(
        existed=True
    )
    with pytest.raises(NotFound):
        await receiver.receive("sub_1", headers, b"hi  there")
    [wake_up] = await stored.outbox(HookReceived)
    async with stored.database.transaction() as tx:
        await request_run(wake_up, tx)

    [request] = await stored.outbox(RunRequested)
    assert (request.run_id, request.trigger, request.agent_id) == (receipt.run_id, "evt_1", "agent_1")
    assert [message.content for message in request.input] == [
        "Event evt_1 arrived through the webhook orders.\n\nhi  there"
    ]


async def test_wake_up_without_a_stored_event_is_hopeless(stored: ServiceDatabase) -> None:
    with pytest.raises(NotFound):
        async with stored.database.transaction() as tx:
            await request_run(
                HookReceived(provider="standard", subscription_id="sub_1", delivery_id="none"), tx
            )
