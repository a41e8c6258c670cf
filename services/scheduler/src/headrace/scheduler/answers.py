"""What other services ask: schedules are made, listed and deleted."""

from dataclasses import dataclass
from datetime import timedelta

from headrace.common.db import Database
from headrace.common.errors import Conflict
from headrace.contracts.hooks import Deleted
from headrace.contracts.schedules import CreateSchedule, DeleteSchedule, ListSchedules, Schedule, Schedules
from headrace.scheduler import repository


@dataclass(frozen=True, slots=True)
class ScheduleDesk:
    """Answers the questions about schedules."""

    db: Database

    async def create(self, question: CreateSchedule) -> Schedule:
        """Begin a schedule, one interval from now. Asked again with the same id it tells the one that there is.

        Raises:
            Conflict: Another account's schedule has the id.
        """
        now = self.db.clock.now()
        first = now + timedelta(seconds=question.every_seconds)
        async with self.db.transaction() as tx:
            await repository.add_schedule(tx.connection, question, next_fire_at=first, now=now)
            schedule = await repository.find_schedule(
                tx.connection, question.account_id, question.schedule_id
            )
        if schedule is None:
            raise Conflict(f"the schedule id {question.schedule_id} is taken")
        return schedule

    async def list(self, question: ListSchedules) -> Schedules:
        """Tell an account's schedules."""
        async with self.db.transaction() as tx:
            found = await repository.list_schedules(tx.connection, question.account_id)
        return Schedules(items=tuple(found))

    async def delete(self, question: DeleteSchedule) -> Deleted:
        """Stop firing. Runs that were fired go on."""
        async with self.db.transaction() as tx:
            existed = await repository.remove_schedule(
                tx.connection, question.account_id, question.schedule_id
            )
        return Deleted(existed=existed)
