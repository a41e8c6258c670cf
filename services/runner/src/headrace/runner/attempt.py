"""One attempt of a run: held by a lease, ended in one transaction."""

import asyncio
import contextlib
import logging
from datetime import timedelta
from typing import Any

from headrace.common.app import Infra
from headrace.common.delivery import DeliveryPolicy, Retry, plan_retry
from headrace.common.errors import HeadraceError, Unavailable
from headrace.contracts.runs import EVENTS_PER_ATTEMPT, RunFinished, RunRequested, RunStarted, TokenCount
from headrace.contracts.usage import UsageRecorded
from headrace.runner import repository
from headrace.runner.agent_loop import AgentLoop, Conversation
from headrace.runner.agents import Agents
from headrace.runner.errors import LeaseLost
from headrace.runner.model import ModelTurn
from headrace.runner.repository import Lease
from headrace.runner.teller import Teller

log = logging.getLogger(__name__)

ROOT = "root"
UNFINISHED_SECONDS = 0.25
"""Pause before an end is stored again; shorter than the recovery's, which would begin the run anew."""
OUR_FAULT = "something went wrong on our side; the runner's log says what"


class Attempts:
    """Makes attempts.

    Args:
        infra: The service's infrastructure.
        agents: Finds agents.
        loop: Runs them.
        lease: Silence after which somebody else may take a run.
        policy: How often and how patiently a run is tried.
    """

    def __init__(
        self, infra: Infra, agents: Agents, loop: AgentLoop, *, lease: timedelta, policy: DeliveryPolicy
    ) -> None:
        self._db, self._bus, self._clock = infra.db, infra.bus, infra.clock
        self._agents, self._loop, self._lease, self._policy = agents, loop, lease, policy

    async def make(self, lease: Lease) -> None:
        """Run until the run ends, is to be tried later, or is somebody else's.

        Raises:
            HeadraceError: The database or broker does not answer.
        """
        log.info("run.attempt", extra={"run_id": lease.run_id, "attempt": lease.attempt})
        attempt = _Attempt(self, lease)
        try:
            await self._held(attempt)
        except ExceptionGroup as group:
            raise group.exceptions[0] from group
        except asyncio.CancelledError:
            with contextlib.suppress(
                HeadraceError
            ):  # it is somebody else's, or will be when the lease runs out
                await asyncio.shield(self._let_go(attempt, seconds=0, counted=lease.attempt - 1))
            raise

    async def _held(self, attempt: "_Attempt") -> None:
        """Work on a run and hold it meanwhile; stop where it is somebody else's."""
        try:
            async with asyncio.TaskGroup() as group:
                holding = group.create_task(self._hold(attempt))
                await self._to_its_end(attempt)
                holding.cancel()
        except* LeaseLost:
            log.info("run.lost", extra={"run_id": attempt.lease.run_id, "epoch": attempt.lease.epoch})
            async with self._db.transaction() as tx:  # what is void was paid for all the same
                await tx.send(*attempt.take_usage())

    async def _hold(self, attempt: "_Attempt") -> None:
        while True:
            await asyncio.sleep(self._lease.total_seconds() / 3)
            try:
                async with self._db.transaction() as tx:
                    await repository.renew(
                        tx.connection, attempt.lease, until=self._clock.now() + self._lease
                    )
            except Unavailable as error:
                log.warning("run.unheld", extra={"run_id": attempt.lease.run_id, "error": str(error)})

    async def _to_its_end(self, attempt: "_Attempt") -> None:
        lease = attempt.lease
        try:
            if lease.attempt > self._policy.attempts:
                end = _failure(
                    "attempts_exhausted", f"none of {lease.attempt - 1} attempts came to an end", attempt
                )
            else:
                end = await self._run(attempt)
        except LeaseLost:
            raise
        except Exception as error:
            plan = plan_retry(lease.attempt, error, self._policy)
            if isinstance(plan, Retry):
                log.warning(
                    "run.postponed", extra={"run_id": lease.run_id, "seconds": plan.delay}, exc_info=error
                )
                counted = lease.attempt - isinstance(error, Unavailable)
                await self._let_go(attempt, seconds=plan.delay, counted=counted)
                return
            code = error.code if isinstance(error, HeadraceError) else "internal"
            if code == "internal":
                log.exception("run.broke", extra={"run_id": lease.run_id})
            sentence = error.message if isinstance(error, HeadraceError) else OUR_FAULT
            end = _failure(code, sentence, attempt)
        await self._finish(attempt, end)

    async def _run(self, attempt: "_Attempt") -> RunFinished:
        request = attempt.lease.request
        agent = await self._agents.find(request.account_id, request.agent_id, attempt.lease.revision)
        await attempt.teller.tell(RunStarted(attempt=attempt.lease.attempt, agent_revision=agent.revision))
        earlier: list[dict[str, Any]] = []
        if request.session_id is not None or attempt.lease.revision is None:
            async with self._db.transaction() as tx:
                await repository.pin(tx.connection, attempt.lease, revision=agent.revision)
                if request.session_id is not None:
                    earlier = await repository.history(tx.connection, request.account_id, request.session_id)
        attempt.conversation = Conversation(agent.instruction, earlier, _said(request))
        text = await self._loop.run(agent, attempt.conversation, attempt.teller, account=attempt.account)
        return RunFinished(state="succeeded", output=text, usage=attempt.conversation.tokens)

    async def _finish(self, attempt: "_Attempt", end: RunFinished) -> None:
        """End the run, waiting for a database that is away: what was answered is not paid for again."""
        event, used = await attempt.teller.end(end), attempt.take_usage()
        while True:
            try:
                async with self._db.transaction() as tx:
                    await repository.finish(tx.connection, attempt.lease, end, now=event.at)
                    if end.state == "succeeded":
                        said = attempt.conversation.current
                        await repository.remember(tx.connection, attempt.lease.request, said, now=event.at)
                    await tx.send(event, *used)
            except Unavailable as error:
                log.warning("run.unfinished", extra={"run_id": attempt.lease.run_id, "error": str(error)})
                await asyncio.sleep(UNFINISHED_SECONDS)
            else:
                break
        log.info("run.finished", extra={"run_id": attempt.lease.run_id, "state": end.state})

    async def _let_go(self, attempt: "_Attempt", *, seconds: float, counted: int) -> None:
        """Leave the run to whoever takes it next, not before some seconds have passed.

        Waiting for a server, or making room for a new process, is not an attempt.
        """
        until = self._clock.now() + timedelta(seconds=seconds)
        async with self._db.transaction() as tx:
            await repository.release(tx.connection, attempt.lease, until=until, attempt=counted)
            await tx.send(*attempt.take_usage())


class _Attempt:
    """What one attempt gathers."""

    def __init__(self, attempts: Attempts, lease: Lease) -> None:
        self.lease = lease
        self.teller = Teller(attempts._bus, attempts._clock, lease)  # noqa: SLF001  (a part of Attempts)
        self.conversation = Conversation("", [], [])
        self._clock = attempts._clock  # noqa: SLF001  (a part of Attempts)
        self._usage: list[UsageRecorded] = []

    async def account(self, turn: ModelTurn, seconds: float) -> None:
        """Note a model call, for the next transaction."""
        request = self.lease.request
        self._usage.append(
            UsageRecorded(
                account_id=request.account_id,
                run_id=request.run_id,
                agent_id=request.agent_id,
                path=ROOT,
                seq=self.lease.epoch * EVENTS_PER_ATTEMPT + self.conversation.calls,
                model=turn.model,
                tokens=turn.tokens,
                latency_ms=round(seconds * 1_000),
                recorded_at=self._clock.now(),
            )
        )

    def take_usage(self) -> list[UsageRecorded]:
        """What was noted since the last transaction."""
        taken, self._usage = self._usage, []
        return taken


def _said(request: RunRequested) -> list[dict[str, Any]]:
    return [{"role": message.role, "content": message.content} for message in request.input]


def _failure(code: str, sentence: str, attempt: _Attempt) -> RunFinished:
    tokens: TokenCount = attempt.conversation.tokens
    return RunFinished(state="failed", error_code=code, error=sentence, usage=tokens)
