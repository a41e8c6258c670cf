"""The consumer shape on real servers: once per message, delayed, bounded, and never silently gone."""

import asyncio
import base64
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import httpx
import nats
import pytest

from headrace.common.db import Transaction
from headrace.common.envelope import headers_of
from headrace.common.errors import Terminal, Unavailable
from headrace.contracts.broker import inbox_prefix
from headrace.contracts.deliveries import DeadLetter
from headrace.contracts.usage import UsageRecorded
from headrace.local.loopback import free_port
from headrace.usage import repository
from tests.support.eventually import eventually
from tests.support.ledger_service import POLICY, Bench, used
from tests.support.runner_rig import request
from tests.support.servers import NatsEndpoint


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


async def dead_letters(ledger: Bench) -> list[DeadLetter]:
    jetstream = ledger.operator.jetstream()
    kept = (await jetstream.stream_info("DEAD")).state
    letters = [await jetstream.get_msg("DEAD", seq) for seq in range(1, kept.last_seq + 1)]
    return [DeadLetter.model_validate_json(letter.data or b"") for letter in letters]


async def test_js_4_every_tenth_message_that_is_never_settled_is_a_dead_letter_before_the_brokers_limit(
    ledger: Bench,
) -> None:
    limit = POLICY.attempts + 2
    await ledger.hurry(ack_wait=timedelta(seconds=30), max_deliver=limit)
    sent = [used(f"{'good' if number % 10 else 'bad'}-{number}") for number in range(40)]
    bad = [message for message in sent if message.run_id.startswith("bad")]
    act = Handling(*(ValueError("always") for _ in range(99)))
    async with ledger.running(act):
        for message in sent:
            await ledger.send(message)
        await settled(ledger)

        async def all_are_buried() -> None:
            assert len(await dead_letters(ledger)) == len(bad)

        await eventually(all_are_buried, timeout=20)
        letters = await dead_letters(ledger)

    assert act.executions == {m.run_id: POLICY.attempts if m in bad else 1 for m in sent}
    assert {letter.original_id for letter in letters} == {message.message_id for message in bad}
    assert {letter.deliveries for letter in letters} == {POLICY.attempts}
    assert POLICY.attempts < limit


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


class DownForASecond:
    """Needs something that is away for a second from when it is first asked for."""

    def __init__(self) -> None:
        self.executions = 0
        self._back_at: float | None = None

    async def __call__(self, _message: UsageRecorded, _tx: Transaction) -> None:
        self.executions += 1
        now = asyncio.get_running_loop().time()
        self._back_at = self._back_at or now + 1
        if now < self._back_at:
            raise Unavailable("away")


async def test_js_3_dependency_that_is_down_for_a_second_costs_a_few_delayed_deliveries_and_no_message(
    ledger: Bench,
) -> None:
    act = DownForASecond()
    async with ledger.running(act):
        await ledger.send(used("patient"))
        await settled(ledger)

    assert 2 <= act.executions <= 8  # 50, 100 and then 200 ms apart, at least
    assert await dead_letters(ledger) == []


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


async def test_js_6_consumer_whose_killed_holder_had_all_that_may_be_pending_goes_on(ledger: Bench) -> None:
    jetstream = ledger.operator.jetstream()
    narrow = (await jetstream.consumer_info("USAGE", "usage-ledger")).config
    narrow.max_ack_pending, narrow.ack_wait = 1, 1
    await jetstream.add_consumer("USAGE", narrow)
    names = ("fatal", "one", "two", "three")
    for name in names:
        await ledger.send(used(name))
    holder = await ledger.running_apart("tests.fakes.fatal_service")
    assert await holder.wait() == 9
    left = await jetstream.consumer_info("USAGE", "usage-ledger")

    act = Handling()
    async with ledger.running(act):
        await settled(ledger)

    assert (left.num_ack_pending, left.num_pending) == (1, 3)
    assert act.executions == dict.fromkeys(names, 1)


@asynccontextmanager
async def usage_service(ledger: Bench) -> AsyncIterator[None]:
    """The real service in a process of its own, and the streams that it uses gone afterwards."""
    process = await ledger.running_apart("headrace.usage")
    try:
        yield
    finally:
        process.terminate()
        await process.wait()
        for stream in ("RUNS", "DISPATCH"):
            await ledger.operator.jetstream().delete_stream(stream)


async def test_js_13_what_a_missing_consumer_has_not_seen_is_measured_without_the_broker(
    ledger: Bench, nats_server: NatsEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    monkeypatch.setenv("HEADRACE_USAGE_PORT", str(port))
    await ledger.operator.jetstream().delete_consumer("DISPATCH", "runner-interactive")

    async def shows(backlog: int) -> None:
        try:
            told = (await http.get("/metrics")).text
        except httpx.TransportError as error:
            raise AssertionError(str(error)) from error
        assert f'headrace_outbox_depth{{service="usage"}} {backlog:.1f}\n' in told

    gateway = await nats.connect(nats_server.url("gateway"), inbox_prefix=inbox_prefix("gateway"))
    async with usage_service(ledger), httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
        await eventually(lambda: shows(0), timeout=30)
        for number in range(3):
            asked = request(f"js-13-{number}")
            headers = headers_of(asked, source="gateway", now=asked.requested_at)
            await gateway.jetstream().publish(
                asked.subject, asked.model_dump_json().encode(), headers=headers
            )

        await eventually(lambda: shows(3), timeout=30)
    await gateway.close()


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
