import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import httpx
import pytest
import pytest_asyncio
from cryptography.fernet import Fernet
from fastapi import FastAPI
from pydantic import SecretStr
from sqlalchemy import func, select

from headrace.common import problems
from headrace.common.secret_box import SecretBox
from headrace.contracts.hooks import CreateSubscription, HookReceived, Subscription
from headrace.contracts.ids import trigger_id
from headrace.webhooks.answers import SubscriptionDesk, new_signing_secret
from headrace.webhooks.api import hooks
from headrace.webhooks.models import deliveries
from headrace.webhooks.receive import Receiver
from tests.support.service_database import ServiceDatabase
from tests.support.standard_webhook import signed

BODY = b'{ "total" :  3 }\n'
QUESTION = CreateSubscription(subscription_id="sub_1", account_id="acc_1", agent_id="agent_1", name="orders")


@pytest.fixture
def box() -> SecretBox:
    return SecretBox(SecretStr(Fernet.generate_key().decode()))


@pytest_asyncio.fixture
async def subscription(stored: ServiceDatabase, box: SecretBox) -> Subscription:
    return await SubscriptionDesk(db=stored.database, box=box, public_url="http://door").create(QUESTION)


def door(stored: ServiceDatabase, box: SecretBox) -> httpx.AsyncClient:
    app = FastAPI()
    problems.install(app)
    receiver = Receiver(db=stored.database, box=box, tolerance=timedelta(seconds=300), max_event_bytes=10_000)
    app.include_router(hooks(receiver))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app))


@pytest_asyncio.fixture
async def sender(stored: ServiceDatabase, box: SecretBox) -> AsyncIterator[httpx.AsyncClient]:
    async with door(stored, box) as client:
        yield client


async def stored_deliveries(stored: ServiceDatabase) -> int:
    async with stored.database.transaction() as tx:
        return int(await tx.connection.scalar(select(func.count()).select_from(deliveries)) or 0)


def headers_for(
    subscription: Subscription, stored: ServiceDatabase, body: bytes = BODY, event_id: str = "evt_1"
) -> dict[str, str]:
    return signed(body, secret=subscription.secret or "", at=stored.clock.now(), event_id=event_id)


async def test_same_event_is_the_same_run_and_one_message(
    stored: ServiceDatabase, subscription: Subscription, sender: httpx.AsyncClient
) -> None:
    first = await sender.post(subscription.url, content=BODY, headers=headers_for(subscription, stored))
    stored.clock.instant += timedelta(hours=1)
    again = await sender.post(subscription.url, content=BODY, headers=headers_for(subscription, stored))

    run_id = trigger_id("webhook", "sub_1", "evt_1")
    assert (first.status_code, first.json()) == (202, {"run_id": run_id, "duplicate": False})
    assert (again.status_code, again.json()) == (202, {"run_id": run_id, "duplicate": True})
    assert len(await stored.outbox(HookReceived)) == 1


async def test_copies_at_once_are_one_message(
    stored: ServiceDatabase, subscription: Subscription, sender: httpx.AsyncClient
) -> None:
    headers = headers_for(subscription, stored)

    answers = await asyncio.gather(
        *(sender.post(subscription.url, content=BODY, headers=headers) for _ in range(24))
    )

    told = [answer.json() for answer in answers]
    assert [answer.status_code for answer in answers] == [202] * 24
    assert {each["run_id"] for each in told} == {trigger_id("webhook", "sub_1", "evt_1")}
    assert sum(not each["duplicate"] for each in told) == 1
    assert len(await stored.outbox(HookReceived)) == 1


async def test_two_events_are_two_runs(
    stored: ServiceDatabase, subscription: Subscription, sender: httpx.AsyncClient
) -> None:
    for event_id in ("evt_1", "evt_2"):
        await sender.post(
            subscription.url, content=BODY, headers=headers_for(subscription, stored, event_id=event_id)
        )

    assert len({message.message_id for message in await stored.outbox(HookReceived)}) == 2


async def test_unknown_subscription_is_a_problem(stored: ServiceDatabase, sender: httpx.AsyncClient) -> None:
    headers = signed(BODY, secret=new_signing_secret(), at=stored.clock.now())

    answer = await sender.post("http://door/hooks/sub_9", content=BODY, headers=headers)

    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
    assert answer.json()["detail"] == "there is no webhook subscription sub_9"


async def test_event_signed_with_another_secret_leaves_nothing(
    stored: ServiceDatabase, subscription: Subscription, sender: httpx.AsyncClient
) -> None:
    headers = signed(BODY, secret=new_signing_secret(), at=stored.clock.now())

    answer = await sender.post(subscription.url, content=BODY, headers=headers)

    assert (answer.status_code, answer.json()["code"]) == (401, "bad_signature")
    assert await stored_deliveries(stored) == 0


async def test_old_copy_of_a_known_event_is_refused(
    stored: ServiceDatabase, subscription: Subscription, sender: httpx.AsyncClient
) -> None:
    headers = headers_for(subscription, stored)
    await sender.post(subscription.url, content=BODY, headers=headers)
    stored.clock.instant += timedelta(seconds=301)

    answer = await sender.post(subscription.url, content=BODY, headers=headers)

    assert answer.status_code == 401
    assert "301 s behind" in answer.json()["detail"]


@pytest.mark.parametrize(("body", "status"), [(b"\x89PNG\xff", 415), (b"a\0b", 415), (b"x" * 10_000, 413)])
async def test_body_that_cannot_be_an_input_is_refused(
    stored: ServiceDatabase, subscription: Subscription, sender: httpx.AsyncClient, body: bytes, status: int
) -> None:
    answer = await sender.post(
        subscription.url, content=body, headers=headers_for(subscription, stored, body)
    )

    assert answer.status_code == status
    assert await stored_deliveries(stored) == 0


async def test_secret_that_cannot_be_decrypted_asks_the_sender_to_come_again(
    stored: ServiceDatabase, subscription: Subscription
) -> None:
    other_key = SecretBox(SecretStr(Fernet.generate_key().decode()))

    async with door(stored, other_key) as sender:
        answer = await sender.post(subscription.url, content=BODY, headers=headers_for(subscription, stored))

    assert answer.status_code == 503
    assert "HEADRACE" not in answer.text
