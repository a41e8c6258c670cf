"""Tick: due schedules fire. Any number of replicas tick at once; the name of a fire makes it one, so there is no leader."""

import asyncio
import logging
from dataclasses import dataclass

from headrace.common.db import Database
from headrace.scheduler import repository
from headrace.scheduler.interval import next_fire

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticker:
    """Looks for due schedules again and again."""

    db: Database
    pause_seconds: float
    batch: int

    async def run(self) -> None:
        """Tick for ever; without a pause while there is more than one batch to fire."""
        while True:
            if await self.fire_due() < self.batch:
                await asyncio.sleep(self.pause_seconds)

    async def fire_due(self) -> int:
        """Fire one batch: the fires, their messages and the next instants in one transaction. Answers how many were due.

        Raises:
            Unavailable: Postgres does not answer.
        """
        now = self.db.clock.now()
        async with self.db.transaction() as tx:
            due = await repository.lock_due(tx.connection, now=now, limit=self.batch)
            if not due:
                return 0
            new = await repository.add_fires(tx.connection, due)
            await tx.send(*(fire.request(now=now) for fire in new))
            nexts = [(fire.schedule_id, next_fire(fire.fire_at, every=fire.every, now=now)) for fire in due]
            await repository.move_on(tx.connection, nexts)
        for fire in new:
            log.info("schedule.fired", extra={"schedule_id": fire.schedule_id, "run_id": fire.run_id})
        return len(due)
