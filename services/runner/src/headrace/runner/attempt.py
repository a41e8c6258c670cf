"""One attempt of a run: held by a lease, and ended, parked or let go in one transaction."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from headrace.common.agents import Agents
from headrace.common.app import Infra
from headrace.common.db import Transaction
from headrace.common.delivery import DeliveryPolicy, Retry, plan_retry
from headrace.common.errors import HeadraceError, Unavailable
from headrace.common.faults import point
from headrace.contracts.agents import AgentRevision
from headrace.contracts.runs import RunEvent, RunFinished, RunStarted, RunWaiting
from headrace.runner import agent_loop, closing, history
from headrace.runner.agent_loop import Conversation
from headrace.runner.calls import ToolCalls
from headrace.runner.deeds import Deeds
from headrace.runner.errors import JournalMismatch, LeaseLost
from headrace.runner.journal import AGAIN_SECONDS, Journal
from headrace.runner.leases import Leases
from headrace.runner.ledger import Ledger
from headrace.runner.limits import RunLimits
from headrace.runner.live import LiveSteps
from headrace.runner.model import Model
from headrace.runner.parking import Parked
from headrace.runner.repository import journal as steps_of
from headrace.runner.repository import runs, sessions
from headrace.runner.repository.runs import JOURNAL_VERSION, Lease
from headrace.runner.teller import Teller
from headrace.tools import Tool

log = logging.getLogger(__name__)

OUR_FAULT = "something went wrong on our side; the runner's log says what"


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What every attempt is made with."""

    agents: Agents
    model: Model
    tools: Mapping[str, Tool]
    secrets: Mapping[str, str]
    limits: RunLimits
    policy: DeliveryPolicy
    """How often and how patiently a run is tried that makes no progress."""
    approval_time: timedelta
    admissible: Callable[[Lease, Transaction], Awaitable[None]]
    """Raises where a run that begins must not: a replay that is no longer allowed, a file that is gone."""


class Attempts:
    """Makes attempts.

    Args:
        infra: The service's infrastructure.
        leases: Where runs are held.
        means: What they are made with.
    """

    def __init__(self, infra: Infra, leases: Leases, means: Means) -> None:
        self._infra, self._db, self._leases, self._means = infra, infra.db, leases, means

    async def make(self, lease: Lease, *, since: float) -> None:
        """Run until the run ends, is parked, is to be tried later, or is somebody else's.

        Args:
            lease: What was taken.
            since: The event loop's time before it was taken.

        Raises:
            HeadraceError: The database or broker does not answer.
        """
        log.info("run.attempt", extra={"run_id": lease.run_id, "attempt": lease.attempt})
        attempt = _Attempt(self._infra, self._leases, self._means, lease)
        try:
            async with self._leases.held(lease, since=since):
                await attempt.to_its_end()
        except LeaseLost:
            await attempt.book_what_is_void()
        except asyncio.CancelledError:
            with contextlib.suppress(HeadraceError):  # somebody else's, or will be when the lease runs out
                await asyncio.shield(attempt.let_go(seconds=0, counted=lease.attempt - 1))
            raise


class _Attempt:
    """One attempt and what it gathers."""

    def __init__(self, infra: Infra, leases: Leases, means: Means, lease: Lease) -> None:
        self._db, self._clock = infra.db, infra.clock
        self._leases, self._means, self.lease = leases, means, lease
        self._journal = Journal(infra.db, leases, lease)
        self._teller = Teller(infra.bus, infra.clock, lease)
        self._conversation = Conversation("", [], [])

    async def to_its_end(self) -> None:
        """Run, and write whatever became of it."""
        try:
            await self._finish(await self._run())
        except LeaseLost:
            raise
        except Parked as parked:
            await self._park(parked)
        except Exception as error:  # noqa: BLE001  (every error is either tried again or the run's end)
            await self._failed(error)

    async def _run(self) -> RunFinished:
        lease, request = self.lease, self.lease.request
        if lease.attempt > self._means.policy.attempts:
            return self._failure(
                "attempts_exhausted",
                f"none of {lease.attempt - 1} attempts made progress; resume the run to try on",
            )
        if lease.journal_version != JOURNAL_VERSION:
            raise JournalMismatch(
                f"the run's journal has version {lease.journal_version}, and this runner writes version "
                f"{JOURNAL_VERSION}; replay the run instead"
            )
        agent = await self._means.agents.find(request.account_id, request.agent_id, lease.revision)
        earlier = await self._prepared(agent)
        await self._teller.tell(
            RunStarted(
                attempt=lease.attempt, agent_revision=agent.revision, resumes_at=self._journal.resumes_at
            )
        )
        self._conversation = Conversation(agent.instruction, earlier, closing.asked(request))
        deeds = Deeds(self._journal, Ledger(self._db, self._leases, lease))
        steps = LiveSteps(
            self._journal,
            model=self._means.model,
            calls=ToolCalls(self._journal, deeds, request, self._means.secrets),
            agent=agent,
            teller=self._teller,
            clock=self._clock,
            approval_time=self._means.approval_time,
        )
        text = await agent_loop.run(
            agent, self._conversation, steps, tools=self._means.tools, limits=self._means.limits
        )
        return RunFinished(state="succeeded", output=text, usage=self._conversation.tokens)

    async def _prepared(self, agent: AgentRevision) -> list[dict[str, object]]:
        """Read the journal, pin what must not change under the run, and read the session as it was then."""
        lease, request = self.lease, self.lease.request
        is_first = lease.epoch == 1
        if is_first and lease.revision is not None and not request.session_id and not _is_special(lease):
            return []
        async with self._db.transaction() as tx:
            if not is_first:
                self._journal.learn(await steps_of.read(tx.connection, lease.run_id))
            upto = lease.history_upto
            if lease.revision is None or upto is None:
                upto = 0
                if request.session_id is not None:
                    upto = await sessions.last_seq(tx.connection, request.account_id, request.session_id)
                await runs.pin(tx.connection, lease, revision=agent.revision, history_upto=upto)
                await self._means.admissible(lease, tx)
            if request.session_id is None:
                return []
            stored = await sessions.history(
                tx.connection, request.account_id, request.session_id, upto=upto, but=lease.run_id
            )
        return history.repaired(stored)

    async def _failed(self, error: Exception) -> None:
        lease = self.lease
        plan = plan_retry(lease.attempt, error, self._means.policy)
        if isinstance(plan, Retry):
            log.warning(
                "run.postponed", extra={"run_id": lease.run_id, "seconds": plan.delay}, exc_info=error
            )
            counted = lease.attempt - isinstance(error, Unavailable)
            await self.let_go(seconds=plan.delay, counted=counted)
            return
        code = error.code if isinstance(error, HeadraceError) else "internal"
        if code == "internal":
            log.error("run.broke", extra={"run_id": lease.run_id}, exc_info=error)
        sentence = error.message if isinstance(error, HeadraceError) else OUR_FAULT
        await self._finish(self._failure(code, sentence))

    def _failure(self, code: str, sentence: str) -> RunFinished:
        return RunFinished(state="failed", error_code=code, error=sentence, usage=self._conversation.tokens)

    async def _finish(self, end: RunFinished) -> None:
        """End the run, with its answer, its session's messages, its usage and its last event in one commit."""
        event = await self._teller.end(end)

        async def finish(tx: Transaction) -> None:
            said = closing.said(self.lease.request, self._journal.steps(), end)
            await sessions.remember(tx.connection, self.lease.request, said, now=event.at)
            await runs.finish(tx.connection, self.lease, end, now=event.at)
            await tx.send(event)

        point("runner.finish.before")
        await self._commit(finish)
        point("runner.finish.after")
        log.info("run.finished", extra={"run_id": self.lease.run_id, "state": end.state})

    async def _park(self, parked: Parked) -> None:
        """Leave the run to a person, with the questions and the event that says so."""
        tools = tuple(step.name for step in parked.steps)
        event: RunEvent = await self._teller.parked(RunWaiting(state=parked.state, tools=tools))
        known = self._journal.find
        self._journal.carry(*(step for step in parked.steps if known(step.place) != step))

        async def park(tx: Transaction) -> None:
            await runs.park(tx.connection, self.lease, parked.state)
            if not await steps_of.is_anything_asked(tx.connection, self.lease.run_id):  # answered meanwhile
                await runs.go_on(tx.connection, self.lease.run_id)
            await tx.send(event)

        point("runner.park.before")
        await self._commit(park)
        log.info("run.parked", extra={"run_id": self.lease.run_id, "state": parked.state})

    async def let_go(self, *, seconds: float, counted: int) -> None:
        """Leave the run to whoever takes it next, not before some seconds have passed.

        Waiting for a server, or making room for a new process, is not an attempt.
        """
        async with self._db.transaction() as tx:
            await self._journal.flush(tx)
            after = timedelta(seconds=seconds)
            await runs.release(tx.connection, self.lease, after=after, attempt=max(counted, 0))

    async def book_what_is_void(self) -> None:
        """Tell what was paid for, although nothing else of it counts."""
        async with self._db.transaction() as tx:
            await tx.send(*self._journal.take_messages())

    async def _commit(self, what: Callable[[Transaction], Awaitable[None]]) -> None:
        """Write, waiting for a database that is away: what was paid for is not paid for again."""
        while True:
            self._leases.check(self.lease)
            try:
                async with self._db.transaction() as tx:
                    await self._journal.flush(tx)
                    await what(tx)
            except Unavailable as error:
                log.warning("run.unfinished", extra={"run_id": self.lease.run_id, "error": str(error)})
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                self._journal.take_messages()
                return


def _is_special(lease: Lease) -> bool:
    return lease.request.replay_of is not None or bool(lease.request.files)
