"""The consumer shape on real servers: once per message, delayed, bounded, and never silently gone."""

import asyncio
import base64
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest_asyncio

from headrace.common.db import Transaction
from headrace.common.errors import Terminal, Unavailable
from headrace.contracts.usage import UsageRecorded
from headrace.usage import repository
from tests.support.eventually import eventually
from tests.support.ledger_service import POLICY, Bench, bench, used
from tests.support.servers import NatsEndpoint, PostgresEndpoint, RedisEndpoint


@pytest_asyncio.fixture
async def ledger(
    nats_server: NatsEndpoint, postgres_server: PostgresEndpoint, redis_server: RedisEndpoint
) -> AsyncIterator[Bench]:
    database = await postgres_server.create_database()
    urls = {user: nats_server.url(user) for user in ("usage", "runner", "operator")}
    database_url = postgres_server.url("usage", database).replace("postgresql://", "postgresql+asyncpg://", 1)
    async with bench(urls, database_url, redis_server.url) as ready:
        yield ready
        for stream in ("USAGE", "DEAD"):
            await ready.operator.jetstream().delete_stream(stream)


class Handling:
    """Counts executions by message, and fails as it is told."""

    def __init__(self, *errors: Exception, seconds: float = 0) -> None:
        self.executions: Counter[str] = Counter()
        self._errors, self._seconds = list(errors), seconds

    async def __call__(self, message: UsageRecorded, tx: Transaction) -> None:
        self.executions[message.run_id] += 1
        await repository.record_model_call(tx.connection, message)
        await asyncio.sleep(self._seconds)
        if self._errors and message.run_id.startswith("bad"):
            raise self._errors.pop(0)


async def settled(ledger: Bench) -> None:
    async def check() -> None:
        assert await ledger.waiting() == 0

    await eventually(check, timeout=20)


async def test_message_that_comes_twice_is_acted_on_once(ledger: Bench) -> None:
    act = Handling()
    async with ledger.running(act):
        await ledger.send(used("one"))
        await ledger.send_copy(used("one"))
        await settled(ledger)

    assert act.executions == {"one": 1}


async def test_failing_handler_is_tried_again_and_then_succeeds(ledger: Bench) -> None:
    act = Handling(ValueError("first"), ValueError("second"))
    async with ledger.running(act):
        await ledger.send(used("bad"))
        await settled(ledger)

    assert act.executions == {"bad": 3}


async def test_poison_message_is_buried_with_its_error_and_payload_and_the_service_goes_on(
    ledger: Bench,
) -> None:
    act = Handling(*(ValueError("always") for _ in range(99)))
    async with ledger.running(act):
        await ledger.send(used("bad"))
        await ledger.send(used("good"))
        await settled(ledger)
        await eventually(ledger.dead_letter, timeout=20)
        letter = await ledger.dead_letter()

    assert act.executions == {"bad": POLICY.attempts, "good": 1}
    assert letter.original_id == used("bad").message_id
    assert "always" in letter.reason
    assert UsageRecorded.model_validate_json(base64.b64decode(letter.body_base64)) == used("bad")


async def test_terminal_error_is_buried_at_once(ledger: Bench) -> None:
    act = Handling(Terminal("never"))
    async with ledger.running(act):
        await ledger.send(used("bad"))
        await eventually(ledger.dead_letter, timeout=20)

    assert act.executions == {"bad": 1}


async def test_unknown_version_is_buried_unread(ledger: Bench) -> None:
    act = Handling()
    async with ledger.running(act):
        await ledger.send(used("new"), headers={"ce-type": "headrace.usage.recorded.v9"})
        await eventually(ledger.dead_letter, timeout=20)
        letter = await ledger.dead_letter()

    assert act.executions == {}
    assert "v9" in letter.reason


async def test_malformed_body_is_buried_unread(ledger: Bench) -> None:
    act = Handling()
    async with ledger.running(act):
        await ledger.send(used("torn"), body=b'{"account_id": ')
        await eventually(ledger.dead_letter, timeout=20)
        await settled(ledger)

    assert act.executions == {}


async def test_waiting_for_a_server_is_not_an_attempt(ledger: Bench) -> None:
    act = Handling(*(Unavailable("away", after=0.02) for _ in range(2 * POLICY.attempts)))
    async with ledger.running(act):
        await ledger.send(used("bad"))
        await settled(ledger)

    assert act.executions == {"bad": 2 * POLICY.attempts + 1}


async def test_slow_handler_keeps_its_message(ledger: Bench) -> None:
    await ledger.hurry(ack_wait=timedelta(seconds=4))
    act = Handling(seconds=6)
    async with ledger.running(act):
        await ledger.send(used("slow"))
        await settled(ledger)

    assert act.executions == {"slow": 1}


async def test_what_the_broker_gives_up_first_is_buried_by_its_advisory(ledger: Bench) -> None:
    await ledger.hurry(ack_wait=timedelta(seconds=1), max_deliver=2)
    act = Handling(*(ValueError("always") for _ in range(99)))
    async with ledger.running(act):
        await ledger.send(used("bad"))
        await eventually(ledger.dead_letter, timeout=30)
        letter = await ledger.dead_letter()

    assert act.executions == {"bad": 2}
    assert "never settled" in letter.reason


async def test_message_that_kills_its_process_is_buried_and_the_next_is_handled(ledger: Bench) -> None:
    await ledger.hurry(ack_wait=timedelta(seconds=1))
    await ledger.send(used("fatal"))
    deaths = 0
    while True:
        process = await ledger.running_apart("tests.fakes.fatal_service")
        letter_or_death = asyncio.create_task(process.wait())
        letter = asyncio.create_task(eventually(ledger.dead_letter, timeout=60))
        await asyncio.wait({letter_or_death, letter}, return_when=asyncio.FIRST_COMPLETED)
        if letter.done():
            process.terminate()
            await process.wait()
            break
        letter.cancel()
        deaths += 1

    assert deaths == POLICY.attempts
    assert "came to an end" in (await ledger.dead_letter()).reason
