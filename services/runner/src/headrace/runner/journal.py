"""The journal of one run: what is finished is read from it, and everything else is written to it first and after."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence

from headrace.common.db import Database, Transaction
from headrace.common.errors import Unavailable
from headrace.common.faults import point
from headrace.contracts.journal import StepKind
from headrace.contracts.message import Message
from headrace.runner.errors import EffectBusy, JournalMismatch
from headrace.runner.leases import Leases
from headrace.runner.repository import journal as rows
from headrace.runner.repository.runs import Lease
from headrace.runner.steps import ROOT, Place, Step

log = logging.getLogger(__name__)

AGAIN_SECONDS = 0.25
"""Pause before something is written again to a database that is away: what was done must not be forgotten."""


class Recorded:
    """The steps of a run as they were written."""

    def __init__(self, steps: Iterable[Step] = ()) -> None:
        self._steps = {step.place: step for step in steps}

    def find(self, place: Place) -> Step | None:
        """What is known of a step."""
        return self._steps.get(place)

    def finished(self, place: Place, kind: StepKind, *, call_id: str | None = None) -> Step | None:
        """A step that need not be made again.

        Raises:
            JournalMismatch: Another step stands there than the loop asks for.
        """
        step = self._steps.get(place)
        if step is None:
            return None
        if step.kind != kind or step.call_id != call_id:
            raise JournalMismatch(
                f"step {place} of the journal is a {step.kind} call ({step.call_id or step.name}), and the agent "
                f"asks for a {kind} call ({call_id or 'any'}); replay the run instead"
            )
        return step if step.state == "done" else None

    def steps(self) -> list[Step]:
        """All that is known, in order."""
        return [self._steps[place] for place in sorted(self._steps)]

    @property
    def resumes_at(self) -> int:
        """The first step of the outermost frame that is not finished."""
        seq = 1
        while (step := self._steps.get(Place(ROOT, seq))) is not None and step.state == "done":
            seq += 1
        return seq


class Journal(Recorded):
    """Reads and writes the steps of a run that is held.

    Args:
        db: The runner's schema.
        leases: Knows whether the run is still held.
        lease: Its lease.
        steps: What was written before.
    """

    def __init__(self, db: Database, leases: Leases, lease: Lease, steps: Iterable[Step] = ()) -> None:
        super().__init__(steps)
        self._db, self._leases, self.lease = db, leases, lease
        self._carried: list[Step] = []
        self._messages: list[Message] = []

    def carry(self, *steps: Step, messages: Sequence[Message] = ()) -> None:
        """Keep what is to be written with the next write, which follows at once and saves a commit."""
        self._carried += steps
        self._messages += messages

    async def write(self, *steps: Step, also: Callable[[Transaction], Awaitable[None]] | None = None) -> None:
        """Store steps, and what was carried, in one transaction; a database that is away is waited for.

        Args:
            steps: What begins or ended.
            also: What else belongs into the transaction; it may be called more than once.

        Raises:
            LeaseLost: The run is somebody else's. Nothing was written.
        """
        while True:
            self._leases.check(self.lease)
            point("runner.journal.before")
            try:
                async with self._db.transaction() as tx:
                    written = await self._store(tx, steps)
                    if also is not None:
                        await also(tx)
                    point("runner.journal.commit")
            except EffectBusy:
                raise
            except Unavailable as error:
                log.warning("run.unwritten", extra={"run_id": self.lease.run_id, "error": str(error)})
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                self._forget(written)
                point("runner.journal.after")
                return

    def learn(self, steps: Iterable[Step]) -> None:
        """Take in what was written before."""
        self._steps |= {step.place: step for step in steps}

    def take_messages(self) -> list[Message]:
        """The messages that were carried and not sent; they are no longer carried."""
        taken, self._messages = self._messages, []
        return taken

    async def flush(self, tx: Transaction) -> None:
        """Store what was carried in a transaction of somebody else's. See `write` for errors."""
        await self._store(tx, ())

    async def _store(self, tx: Transaction, steps: Sequence[Step]) -> tuple[list[Step], list[Message]]:
        carried, messages = list(self._carried), list(self._messages)
        await rows.write(tx.connection, self.lease, [*carried, *steps])
        await tx.send(*messages)
        self._steps |= {step.place: step for step in (*carried, *steps)}
        return carried, messages

    def _forget(self, written: tuple[list[Step], list[Message]]) -> None:
        steps, messages = written
        self._carried = [step for step in self._carried if step not in steps]
        self._messages = [message for message in self._messages if message not in messages]
