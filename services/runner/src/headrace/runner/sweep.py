"""Runs that nobody works on: taken where a lease ran out, settled with a reason where nobody can go on."""

import asyncio
import logging
from typing import Any

from pydantic import ValidationError

from headrace.common.db import Database, Transaction
from headrace.common.errors import Unavailable
from headrace.contracts.runs import RunFinished
from headrace.runner.attempt import Attempts
from headrace.runner.control import Control
from headrace.runner.leases import Leases
from headrace.runner.repository import effects, runs
from headrace.runner.repository.runs import Lease

log = logging.getLogger(__name__)

RECOVERY_SECONDS = 0.5
UPKEEP_SECONDS = 30.0
FORGOTTEN_AT_ONCE = 1_000


class Sweep:
    """Looks for runs that need somebody.

    Args:
        db: The runner's schema.
        attempts: Goes on with a run.
        control: Ends one.
        leases: Takes one.
        at_once: Runs that are gone on with at the same time.
    """

    def __init__(
        self, db: Database, attempts: Attempts, control: Control, leases: Leases, *, at_once: int
    ) -> None:
        self._db, self._attempts, self._control = db, attempts, control
        self._leases, self._at_once = leases, at_once

    async def recover(self) -> None:
        """Take runs whose lease ran out, for ever, as many at once as there are places."""
        await self._leases.inherit()
        free = asyncio.Semaphore(self._at_once)
        async with asyncio.TaskGroup() as group:
            while True:
                await free.acquire()
                since = asyncio.get_running_loop().time()
                lease = await self._abandoned()
                if lease is None:
                    free.release()
                    await asyncio.sleep(RECOVERY_SECONDS)
                else:
                    made = group.create_task(self._recovered(lease, since=since))
                    made.add_done_callback(lambda _: free.release())

    async def _abandoned(self) -> Lease | None:
        try:
            async with self._db.transaction() as tx:
                row = await runs.find_abandoned(tx.connection)
                if row is None:
                    return None
                try:
                    request = runs.request_of(row)
                except ValidationError:
                    await self._settle_unreadable(row, tx)
                    return None
                return await self._leases.take(tx, request)
        except Unavailable as error:
            log.info("run.recovery_postponed", extra={"error": str(error)})
            return None

    async def _settle_unreadable(self, row: Any, tx: Transaction) -> None:
        """A row that no code of ours can read must not stand in the way of the others."""
        log.error("run.unreadable", extra={"run_id": row.run_id})
        end = RunFinished(
            state="failed", error_code="unreadable", error="the run's stored request is damaged"
        )
        await self._control.end(await runs.locked(tx.connection, row.account_id, row.run_id), end, tx)

    async def _recovered(self, lease: Lease, *, since: float) -> None:
        try:
            await self._attempts.make(lease, since=since)
        except Exception:  # it would cancel the other runs; this one is taken again when its lease ran out
            log.exception("run.unended", extra={"run_id": lease.run_id})

    async def upkeep(self) -> None:
        """End runs whose question for approval nobody answered in time, and forget expired intents, for ever."""
        while True:
            await asyncio.sleep(UPKEEP_SECONDS)
            await self.tidy()

    async def tidy(self) -> None:
        """One round of the upkeep."""
        async with self._db.transaction() as tx:
            for row in await runs.find_unanswered(tx.connection):
                end = RunFinished(
                    state="failed",
                    error_code="approval_expired",
                    error="nobody approved or rejected the run's calls in time; resume the run to be asked again",
                )
                await self._control.end(row, end, tx)
        async with self._db.transaction() as tx:
            await effects.forget_expired(tx.connection, limit=FORGOTTEN_AT_ONCE)
