"""What the runner does with messages: record a run, take one that was let in, obey decisions, give up."""

import asyncio

from headrace.common.app import Infra
from headrace.common.consumer import AnyHandler, Handler, LongHandler
from headrace.common.db import Transaction
from headrace.common.faults import point
from headrace.contracts.runs import Lane, RunAdmitted, RunFinished, RunRequested
from headrace.contracts.streams import RUNNER_BACKGROUND, RUNNER_CONTROL, RUNNER_INTERACTIVE, RUNNER_RECORDER
from headrace.runner.attempt import Attempts
from headrace.runner.control import Control
from headrace.runner.leases import Leases
from headrace.runner.repository import runs
from headrace.runner.settings import RunnerSettings

RECORDER_PAUSE_SECONDS = 0.1
"""Most runs are admitted within this, and then their first token need not wait for their record."""
_CONSUMERS = {Lane.INTERACTIVE: RUNNER_INTERACTIVE, Lane.BACKGROUND: RUNNER_BACKGROUND}


class Runs:
    """Takes runs from messages."""

    def __init__(self, infra: Infra, attempts: Attempts, control: Control, leases: Leases) -> None:
        self._db, self._inbox, self._clock = infra.db, infra.inbox, infra.clock
        self._attempts, self._control, self._leases = attempts, control, leases

    async def record(self, request: RunRequested, tx: Transaction) -> None:
        """Store a run before it is let in."""
        await runs.record(tx.connection, request)

    async def dispatch(self, admitted: RunAdmitted) -> None:
        """Make an attempt, unless the run has ended, waits, or is in hand.

        The message is settled with the lease: from then on the row says what is to be done, and the sweep sees to it.
        """
        since = asyncio.get_running_loop().time()
        point("runner.take.before")
        async with self._db.transaction() as tx:
            consumer = _CONSUMERS[admitted.lane].name
            await self._inbox.first_time(tx.connection, consumer, admitted.message_id, now=self._clock.now())
            lease = await self._leases.take(tx, admitted.request)
        point("runner.take.after")
        if lease is not None:
            await self._attempts.make(lease, since=since)

    async def give_up(self, admitted: RunAdmitted, _reason: str, tx: Transaction) -> None:
        """A run that could not even be taken failed, so that nobody waits for it for ever."""
        end = RunFinished(
            state="failed",
            error_code="not_dispatched",
            error="the run was given up; an operator was told why",
        )
        await runs.record(tx.connection, admitted.request)
        row = await runs.locked(tx.connection, admitted.request.account_id, admitted.run_id)
        await self._control.end(row, end, tx)


def handlers(taken: Runs, control: Control, settings: RunnerSettings) -> tuple[AnyHandler, ...]:
    """The consumers of the runner."""
    return (
        Handler(consumer=RUNNER_RECORDER, act=taken.record, concurrency=64, pause=RECORDER_PAUSE_SECONDS),
        LongHandler(
            consumer=RUNNER_INTERACTIVE,
            act=taken.dispatch,
            buried=taken.give_up,
            concurrency=settings.interactive_runs,
        ),
        LongHandler(
            consumer=RUNNER_BACKGROUND,
            act=taken.dispatch,
            buried=taken.give_up,
            concurrency=settings.background_runs,
        ),
        Handler(consumer=RUNNER_CONTROL, act=control.obey, concurrency=4),
    )
