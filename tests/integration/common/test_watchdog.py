"""The watchdog on a real broker: a consumer that stands still although everything is pending is made again."""

import asyncio
from collections import Counter
from datetime import UTC, datetime

import pytest
from nats.js import api

from headrace.common import topology
from headrace.common.db import Transaction
from headrace.common.watchdog import Watchdog
from headrace.contracts.usage import UsageRecorded
from tests.support.eventually import eventually
from tests.support.ledger_service import Bench, used
from tests.support.servers import NatsEndpoint


async def test_js_6_consumer_that_the_broker_no_longer_serves_is_freed_by_the_watchdog(
    ledger: Bench, nats_server: NatsEndpoint
) -> None:
    jetstream = ledger.operator.jetstream()
    narrow = (await jetstream.consumer_info("USAGE", "usage-ledger")).config
    narrow.max_ack_pending, narrow.ack_wait = 1, 3_600
    await jetstream.add_consumer("USAGE", narrow)
    names = ("one", "two", "three")
    for name in names:
        await ledger.send(used(name))
    lost = await jetstream.pull_subscribe_bind("usage-ledger", "USAGE")
    await lost.fetch(1)
    executions: Counter[str] = Counter()

    async def act(message: UsageRecorded, _: Transaction) -> None:
        executions[message.run_id] += 1

    async def all_are_done() -> None:
        assert executions == dict.fromkeys(names, 1)
        assert await ledger.waiting() == 0

    async with ledger.running(act):
        keeper = asyncio.create_task(
            topology.keep(nats_server.url("operator"), Watchdog(patience=0.5), watch=0.1)
        )
        try:
            await eventually(all_are_done, timeout=30)
        finally:
            keeper.cancel()


def seen(*, pending: int, place: int, waiting: int = 1) -> api.ConsumerInfo:
    return api.ConsumerInfo(
        name="c",
        stream_name="S",
        created=datetime(2030, 1, 1, tzinfo=UTC),
        config=api.ConsumerConfig(max_ack_pending=2),
        delivered=api.SequenceInfo(consumer_seq=place, stream_seq=place),
        ack_floor=api.SequenceInfo(consumer_seq=0, stream_seq=0),
        num_ack_pending=pending,
        num_waiting=waiting,
    )


@pytest.mark.parametrize(
    "between",
    [seen(pending=1, place=5), seen(pending=2, place=6), seen(pending=2, place=5, waiting=0)],
    ids=["has room", "moved on", "nobody asks"],
)
def test_consumer_that_gives_a_sign_of_life_is_left_alone(between: api.ConsumerInfo) -> None:
    dog, full = Watchdog(patience=10), seen(pending=2, place=5)

    told = [dog.is_stuck(info, now=now) for now, info in ((0, full), (8, between), (12, full), (19, full))]

    assert told == [False] * 4
    assert dog.is_stuck(full, now=30)
