"""What the runner does with messages, and with runs whose runner fell silent."""

import asyncio
import logging
from datetime import timedelta

from headrace.common.app import Infra
from headrace.common.consumer import AnyHandler, Handler, LongHandler
from headrace.common.db import Transaction
from headrace.common.errors import NotFound, Unavailable
from headrace.contracts.run_questions import FindRun, RunReport
from headrace.contracts.runs import (
    EVENTS_PER_ATTEMPT,
    LAST_EVENT,
    Lane,
    RunAdmitted,
    RunControl,
    RunEvent,
    RunFinished,
    RunRequested,
)
from headrace.contracts.streams import RUNNER_BACKGROUND, RUNNER_CONTROL, RUNNER_INTERACTIVE, RUNNER_RECORDER
from headrace.runner import repository
from headrace.runner.attempt import Attempts
from headrace.runner.repository import Lease
from headrace.runner.settings import RunnerSettings

log = logging.getLogger(__name__)

RECOVERY_SECONDS = 0.5
RECORDER_PAUSE_SECONDS = 0.1
"""Most runs are admitted within this, and then their first token need not wait for their record."""
_CONSUMERS = {Lane.INTERACTIVE: RUNNER_INTERACTIVE, Lane.BACKGROUND: RUNNER_BACKGROUND}


class Runs:
    """Takes runs, from messages or from the table, and ends them."""

    def __init__(self, infra: Infra, attempts: Attempts, *, lease: timedelta, recovered_at_once: int) -> None:
        self._db, self._inbox, self._clock = infra.db, infra.inbox, infra.clock
        self._attempts, self._lease = attempts, lease
        self._recovered_at_once = recovered_at_once

    async def record(self, request: RunRequested, tx: Transaction) -> None:
        """Store a run before it is let in."""
        await repository.record(tx.connection, request)

    async def dispatch(self, admitted: RunAdmitted) -> None:
        """Make an attempt, unless the run is finished or in hand.

        The message is settled with the lease: from then on the row says what is to be done, and `recover` sees to it.
        """
        async with self._db.transaction() as tx:
            now = self._clock.now()
            consumer = _CONSUMERS[admitted.lane].name
            await self._inbox.first_time(tx.connection, consumer, admitted.message_id, now=now)
            lease = await repository.take(tx.connection, admitted.request, now=now, lease=self._lease)
        if lease is not None:
            await self._attempts.make(lease)

    async def recover(self) -> None:
        """Take runs whose lease ran out, for ever, as many at once as there are places."""
        free = asyncio.Semaphore(self._recovered_at_once)
        async with asyncio.TaskGroup() as group:
            while True:
                await free.acquire()
                lease = await self._abandoned()
                if lease is None:
                    free.release()
                    await asyncio.sleep(RECOVERY_SECONDS)
                else:
                    group.create_task(self._recovered(lease)).add_done_callback(lambda _: free.release())

    async def _abandoned(self) -> Lease | None:
        try:
            async with self._db.transaction() as tx:
                now = self._clock.now()
                request = await repository.find_abandoned(tx.connection, now=now)
                if request is None:
                    return None
                return await repository.take(tx.connection, request, now=now, lease=self._lease)
        except Unavailable as error:
            log.info("run.recovery_postponed", extra={"error": str(error)})
            return None

    async def _recovered(self, lease: Lease) -> None:
        try:
            await self._attempts.make(lease)
        except (
            Exception
        ):  # it would cancel the other runs; this one is taken again when its lease has run out
            log.exception("run.unended", extra={"run_id": lease.run_id})

    async def control(self, command: RunControl, tx: Transaction) -> None:
        """End a run from outside; whoever holds it finds that it no longer does."""
        end = RunFinished(state="cancelled", error_code="cancelled", error="the run was cancelled")
        if command.verb == "refuse":
            end = RunFinished(state="refused", error_code=command.code, error=command.reason)
        await self._end(command.run_id, command.account_id, end, tx)

    async def give_up(self, admitted: RunAdmitted, _reason: str, tx: Transaction) -> None:
        """A run that could not even be taken failed, so that nobody waits for it for ever."""
        end = RunFinished(
            state="failed",
            error_code="not_dispatched",
            error="the run was given up; an operator was told why",
        )
        await repository.record(tx.connection, admitted.request)
        await self._end(admitted.run_id, admitted.request.account_id, end, tx)

    async def _end(self, run_id: str, account_id: str, end: RunFinished, tx: Transaction) -> None:
        now = self._clock.now()
        epoch = await repository.end_from_outside(tx.connection, run_id, account_id, end, now=now)
        if epoch is not None:
            seq = epoch * EVENTS_PER_ATTEMPT + LAST_EVENT
            await tx.send(RunEvent(run_id=run_id, account_id=account_id, seq=seq, at=now, news=end))

    async def find(self, question: FindRun) -> RunReport:
        """Where a run stands."""
        async with self._db.transaction() as tx:
            try:
                return await repository.report(tx.connection, question.account_id, question.run_id)
            except NotFound as error:
                raise NotFound(f"there is no run {question.run_id}, or it was only just asked for") from error


def handlers(runs: Runs, settings: RunnerSettings) -> tuple[AnyHandler, ...]:
    """The consumers of the runner."""
    return (
        Handler(consumer=RUNNER_RECORDER, act=runs.record, concurrency=64, pause=RECORDER_PAUSE_SECONDS),
        LongHandler(
            consumer=RUNNER_INTERACTIVE,
            act=runs.dispatch,
            buried=runs.give_up,
            concurrency=settings.interactive_runs,
        ),
        LongHandler(
            consumer=RUNNER_BACKGROUND,
            act=runs.dispatch,
            buried=runs.give_up,
            concurrency=settings.background_runs,
        ),
        Handler(consumer=RUNNER_CONTROL, act=runs.control, concurrency=4),
    )
