import asyncio
from datetime import timedelta

import pytest

from headrace.contracts.runs import Door, Lane, RunRequested
from headrace.contracts.schedules import CreateSchedule, ListSchedules, Schedule
from headrace.scheduler import repository
from headrace.scheduler.answers import ScheduleDesk
from headrace.scheduler.tick import Ticker
from tests.support.service_database import ServiceDatabase

HOURLY = CreateSchedule(
    schedule_id="sch_1",
    account_id="acc_1",
    agent_id="agent_1",
    name="look",
    every_seconds=3_600,
    prompt="Look.",
)
HOUR = timedelta(hours=1)


@pytest.fixture
def ticker(stored: ServiceDatabase) -> Ticker:
    return Ticker(db=stored.database, pause_seconds=0.01, batch=100)


async def created(stored: ServiceDatabase, question: CreateSchedule = HOURLY) -> Schedule:
    return await ScheduleDesk(stored.database).create(question)


async def listed(stored: ServiceDatabase) -> list[Schedule]:
    answer = await ScheduleDesk(stored.database).list(ListSchedules(account_id="acc_1"))
    return list(answer.items)


async def test_nothing_fires_before_its_time(stored: ServiceDatabase, ticker: Ticker) -> None:
    schedule = await created(stored)
    stored.clock.instant = schedule.next_fire_at - timedelta(microseconds=1)

    assert await ticker.fire_due() == 0
    assert await stored.outbox(RunRequested) == []


async def test_due_schedule_asks_for_a_background_run(stored: ServiceDatabase, ticker: Ticker) -> None:
    schedule = await created(stored)
    stored.clock.instant = schedule.next_fire_at

    await ticker.fire_due()

    [request] = await stored.outbox(RunRequested)
    [after] = await listed(stored)
    assert (request.door, request.lane, request.agent_id) == (Door.SCHEDULE, Lane.BACKGROUND, "agent_1")
    assert request.trigger == f"sch_1@{schedule.next_fire_at.isoformat()}"
    assert [message.content for message in request.input] == ["Look."]
    assert (after.last_run_id, after.next_fire_at) == (request.run_id, schedule.next_fire_at + HOUR)


async def test_ticks_at_once_fire_once(stored: ServiceDatabase, ticker: Ticker) -> None:
    for number in range(20):
        await created(stored, HOURLY.model_copy(update={"schedule_id": f"sch_{number}"}))
    stored.clock.instant += HOUR

    await asyncio.gather(*(ticker.fire_due() for _ in range(8)))

    requests = await stored.outbox(RunRequested)
    assert len(requests) == 20
    assert {request.trigger.partition("@")[0] for request in requests} == {f"sch_{n}" for n in range(20)}


async def test_instant_that_was_fired_before_is_not_asked_for_again(
    stored: ServiceDatabase, ticker: Ticker
) -> None:
    schedule = await created(stored)
    stored.clock.instant = schedule.next_fire_at
    await ticker.fire_due()
    async with stored.database.transaction() as tx:
        await repository.move_on(tx.connection, [("sch_1", schedule.next_fire_at)])

    assert await ticker.fire_due() == 1

    assert len(await stored.outbox(RunRequested)) == 1
    assert [each.next_fire_at for each in await listed(stored)] == [schedule.next_fire_at + HOUR]


async def test_gap_is_one_fire(stored: ServiceDatabase, ticker: Ticker) -> None:
    schedule = await created(stored)
    stored.clock.instant = schedule.next_fire_at + 5 * HOUR + timedelta(minutes=1)

    while await ticker.fire_due():
        pass

    assert len(await stored.outbox(RunRequested)) == 1
    assert [each.next_fire_at for each in await listed(stored)] == [schedule.next_fire_at + 6 * HOUR]


async def test_more_than_a_batch_fires_batch_after_batch(stored: ServiceDatabase) -> None:
    for number in range(5):
        await created(stored, HOURLY.model_copy(update={"schedule_id": f"sch_{number}"}))
    stored.clock.instant += HOUR
    ticker = Ticker(db=stored.database, pause_seconds=60, batch=2)

    assert [await ticker.fire_due() for _ in range(4)] == [2, 2, 1, 0]
    assert len(await stored.outbox(RunRequested)) == 5
