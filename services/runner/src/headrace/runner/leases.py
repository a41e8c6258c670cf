"""Leases: the runs that this process holds, renewed together, and let go at once when one is lost.

A holder must not act after its lease ran out, even where it cannot ask: so it counts by its own monotonic clock from
before the renewal was sent, and stops by itself in time.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from headrace.common.db import Database, Transaction
from headrace.common.errors import Unavailable
from headrace.contracts.ids import new_id
from headrace.contracts.runs import RunRequested
from headrace.runner.repository import runs
from headrace.runner.repository.runs import Lease

log = logging.getLogger(__name__)

MARGIN = 0.1
"""The part of a lease that is not used, since two clocks never run at quite the same speed."""
LONGEST_BEAT = 1.0
"""Seconds between two renewals at most; within this a cancel reaches a run wherever it is."""


@dataclass(eq=False, slots=True)
class _Hold:
    lease: Lease
    task: asyncio.Task[object]
    deadline: float
    is_lost: bool = False


class Leases:
    """Holds runs.

    Args:
        db: The runner's schema.
        length: Silence after which somebody else may take a run.
        name: A name that no two live runners share, if there is one.
    """

    def __init__(self, db: Database, *, length: timedelta, name: str | None = None) -> None:
        self._db, self.length = db, length
        self._name = None if name is None else f"{name} "
        self._holder = f"{self._name or ''}{new_id()}"
        self._held: dict[str, _Hold] = {}

    async def take(self, tx: Transaction, request: RunRequested) -> Lease | None:
        """Take a run that nobody has; `None` when it has ended, waits or is in hand."""
        return await runs.take(tx.connection, request, lease=self.length, holder=self._holder)

    async def inherit(self) -> None:
        """Free the runs of the dead runner whose name this one has, rather than wait for its leases to run out."""
        if self._name is None:
            return
        async with self._db.transaction() as tx:
            left = await runs.free_left_behind(tx.connection, name=self._name, holder=self._holder)
        if left:
            log.info("run.inherited", extra={"runs": left})

    @asynccontextmanager
    async def held(self, lease: Lease, *, since: float) -> AsyncIterator[None]:
        """Hold a run for as long as the block lasts; the block is cancelled when the run is lost.

        Args:
            lease: What was taken.
            since: The loop's time before it was taken.

        Raises:
            LeaseLost: The run became somebody else's, or was ended from outside.
        """
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  (a coroutine runs in a task)
        hold = _Hold(lease, task, self._deadline(since))
        self._held[lease.run_id] = hold
        self._watch(hold)
        try:
            yield
        except asyncio.CancelledError:
            if hold.is_lost and task.uncancel() == 0:
                raise runs.lost(lease) from None
            raise
        finally:
            if self._held.get(lease.run_id) is hold:
                del self._held[lease.run_id]
        if hold.is_lost:
            task.uncancel()
            raise runs.lost(lease)

    def _watch(self, hold: _Hold) -> None:
        """Look again when the lease, as it is known now, will have run out."""
        if self._held.get(hold.lease.run_id) is not hold:
            return
        if self._now() > hold.deadline:
            self._lose(hold)
        else:
            asyncio.get_running_loop().call_at(hold.deadline, self._watch, hold)

    def request(self, run_id: str) -> RunRequested | None:
        """What a run that is held was asked for."""
        hold = self._held.get(run_id)
        return None if hold is None else hold.lease.request

    def check(self, lease: Lease) -> None:
        """See, before something is done, that the run is surely still held.

        Raises:
            LeaseLost: It may not be.
        """
        hold = self._held.get(lease.run_id)
        if hold is None or hold.lease.epoch != lease.epoch or hold.is_lost or self._now() > hold.deadline:
            raise runs.lost(lease)

    def drop(self, run_id: str) -> None:
        """Stop work on a run that was ended, if it is in this process."""
        if (hold := self._held.get(run_id)) is not None:
            self._lose(hold)

    async def keep(self) -> None:
        """Renew for ever; never returns."""
        beat = min(self.length.total_seconds() / 4, LONGEST_BEAT)
        while True:
            await asyncio.sleep(beat)
            if self._held:
                await self._renew()

    async def _renew(self) -> None:
        holds, before = list(self._held.values()), self._now()
        try:
            async with asyncio.timeout(self.length.total_seconds() / 2), self._db.transaction() as tx:
                kept = await runs.renew(tx.connection, [hold.lease for hold in holds], lease=self.length)
        except (Unavailable, TimeoutError) as error:
            log.warning("run.unheld", extra={"runs": len(holds), "error": str(error)})
            for hold in holds:
                if self._now() > hold.deadline:
                    self._lose(hold)
            return
        for hold in holds:
            if hold.lease.run_id in kept:
                hold.deadline = self._deadline(before)
            elif self._held.get(hold.lease.run_id) is hold:
                self._lose(hold)

    def _lose(self, hold: _Hold) -> None:
        if not hold.is_lost:
            log.info("run.lost", extra={"run_id": hold.lease.run_id, "epoch": hold.lease.epoch})
            hold.is_lost = True
            hold.task.cancel()

    def _deadline(self, since: float) -> float:
        return since + self.length.total_seconds() * (1 - MARGIN)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
