from datetime import timedelta

import pytest

from headrace.common.errors import Conflict
from headrace.contracts.hooks import Deleted
from headrace.contracts.schedules import CreateSchedule, DeleteSchedule, ListSchedules, Schedules
from headrace.scheduler.answers import ScheduleDesk
from headrace.scheduler.tick import Ticker
from tests.support.service_database import ServiceDatabase

QUESTION = CreateSchedule(
    schedule_id="sch_1", account_id="acc_1", agent_id="agent_1", name="look", every_seconds=60, prompt="Look."
)


@pytest.fixture
def desk(stored: ServiceDatabase) -> ScheduleDesk:
    return ScheduleDesk(stored.database)


async def test_schedule_begins_one_interval_from_now(stored: ServiceDatabase, desk: ScheduleDesk) -> None:
    schedule = await desk.create(QUESTION)

    assert schedule.next_fire_at == stored.clock.now() + timedelta(seconds=60)
    assert schedule.last_run_id is None


async def test_one_id_is_one_schedule(stored: ServiceDatabase, desk: ScheduleDesk) -> None:
    first = await desk.create(QUESTION)
    stored.clock.instant += timedelta(seconds=5)

    assert await desk.create(QUESTION) == first
    assert await desk.list(ListSchedules(account_id="acc_1")) == Schedules(items=(first,))


async def test_another_account_sees_and_changes_nothing(desk: ScheduleDesk) -> None:
    await desk.create(QUESTION)

    with pytest.raises(Conflict):
        await desk.create(QUESTION.model_copy(update={"account_id": "acc_2"}))
    assert await desk.list(ListSchedules(account_id="acc_2")) == Schedules(items=())
    assert await desk.delete(DeleteSchedule(account_id="acc_2", schedule_id="sch_1")) == Deleted(
        existed=False
    )
    assert len((await desk.list(ListSchedules(account_id="acc_1"))).items) == 1


async def test_deleted_schedule_does_not_fire(stored: ServiceDatabase, desk: ScheduleDesk) -> None:
    await desk.create(QUESTION)

    assert await desk.delete(DeleteSchedule(account_id="acc_1", schedule_id="sch_1")) == Deleted(existed=True)

    stored.clock.instant += timedelta(hours=1)
    assert await Ticker(db=stored.database, pause_seconds=1, batch=10).fire_due() == 0
    assert await desk.delete(DeleteSchedule(account_id="acc_1", schedule_id="sch_1")) == Deleted(
        existed=False
    )
