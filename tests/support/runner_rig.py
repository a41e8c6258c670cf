"""A runner without a broker: the real journal, ledger and loop on a real Postgres, with a model and tools that a test gives.

A test may let it crash at any named point: whatever is not committed is gone, as after a SIGKILL.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import text

from headrace.common import faults
from headrace.common.app import Service
from headrace.common.delivery import DeliveryPolicy
from headrace.contracts.agents import AgentRevision
from headrace.contracts.ids import new_id
from headrace.contracts.journal import JournalPage, ReadJournal
from headrace.contracts.run_questions import FindRun, RunReport
from headrace.contracts.runs import (
    ChatMessage,
    Decision,
    Door,
    Lane,
    RunControl,
    RunEvent,
    RunRequested,
    TokenCount,
)
from headrace.runner.answers import RunAnswers
from headrace.runner.attempt import Attempts, Means
from headrace.runner.control import Control
from headrace.runner.leases import Leases
from headrace.runner.limits import RunLimits
from headrace.runner.model import ModelRequest, ModelTurn, ToolCall
from headrace.runner.models import metadata
from headrace.runner.repository.runs import Lease
from headrace.runner.sweep import Sweep
from headrace.tools import Tool
from tests.support.service_database import ServiceDatabase, service_database

LIMITS = RunLimits(model_calls=25, tokens=1_000_000, seconds=900)
POLICY = DeliveryPolicy(attempts=5, first_delay=0.01, longest_delay=0.01)

Turn = ModelTurn | BaseException | Callable[[ModelRequest], ModelTurn]


class Crash(BaseException):
    """The process is gone: nobody handles this."""


def says(words: str, *, tokens: int = 1) -> ModelTurn:
    """A turn with an answer."""
    return ModelTurn(words, (), TokenCount(input_tokens=tokens, output_tokens=1), "scripted")


def calls(*asked: tuple[str, str], words: str = "") -> ModelTurn:
    """A turn that asks for tools: pairs of a name and the arguments' own text."""
    made = tuple(ToolCall(f"call_{n}", name, arguments) for n, (name, arguments) in enumerate(asked))
    return ModelTurn(words, made, TokenCount(input_tokens=1, output_tokens=1), "scripted")


class ScriptedTurns:
    """A model that plays turns in order and keeps the requests."""

    def __init__(self, *turns: Turn) -> None:
        self.turns = list(turns)
        self.requests: list[ModelRequest] = []

    async def call(self, request: ModelRequest, *, on_text: Callable[[str], Any]) -> ModelTurn:
        self.requests.append(request)
        turn = self.turns.pop(0)
        if isinstance(turn, BaseException):
            raise turn
        made = turn(request) if callable(turn) else turn
        if made.text:
            await on_text(made.text)
        return made


@dataclass
class Told:
    """A bus on which nothing is lost."""

    events: list[RunEvent] = field(default_factory=list)

    async def tell(self, event: RunEvent, _headers: Any) -> None:
        self.events.append(event)


class OneAgent:
    """Finds one agent, whichever is asked for."""

    def __init__(self, agent: AgentRevision) -> None:
        self.agent = agent

    async def find(self, *_: object) -> AgentRevision:
        return self.agent


def request(run_id: str | None = None, **changes: Any) -> RunRequested:
    """A run that is asked for."""
    run_id = run_id or new_id()
    asked = RunRequested(
        run_id=run_id,
        door=Door.API,
        lane=Lane.INTERACTIVE,
        account_id="acme",
        agent_id="assistant",
        agent_revision=1,
        trigger=run_id,
        input=(ChatMessage(role="user", content="hi"),),
        requested_at=datetime(2030, 1, 1, tzinfo=UTC),
    )
    return asked.model_copy(update=changes)


@dataclass
class Rig:
    """One runner, and what a test does with it."""

    stored: ServiceDatabase
    model: ScriptedTurns
    tools: Mapping[str, Tool]
    agent: AgentRevision
    limits: RunLimits
    policy: DeliveryPolicy
    lease: timedelta
    name: str | None = None
    told: Told = field(default_factory=Told)

    def __post_init__(self) -> None:
        infra: Any = SimpleNamespace(
            db=self.stored.database, bus=self.told, clock=self.stored.clock, inbox=None
        )
        agents: Any = OneAgent(self.agent)
        self.leases = Leases(self.stored.database, length=self.lease, name=self.name)
        self.control = Control(self.leases, self.stored.clock)
        means = Means(
            agents=agents,
            model=self.model,
            tools=self.tools,
            secrets={},
            limits=self.limits,
            policy=self.policy,
            approval_time=timedelta(days=7),
            admissible=self.admissible,
        )
        self.attempts = Attempts(infra, self.leases, means)
        self.answers = RunAnswers(self.stored.database, agents, self.tools, self.limits, self.stored.clock)
        self.sweep = Sweep(self.stored.database, self.attempts, self.control, self.leases, at_once=4)

    async def admissible(self, lease: Lease, tx: Any) -> None:
        """Nothing stands against a run."""

    def another(self, model: ScriptedTurns | None = None) -> "Rig":
        """Another runner on the same database, as after a crash, or beside this one."""
        return replace(self, model=model or self.model)

    async def take(self, asked: RunRequested) -> Lease | None:
        """Take a run, if it is free."""
        async with self.stored.database.transaction() as tx:
            return await self.leases.take(tx, asked)

    async def run(self, asked: RunRequested) -> RunReport:
        """Take a run and go on with it, to its end or until it is parked or let go."""
        lease = await self.take(asked)
        assert lease is not None, "the run is in somebody's hand, waits, or has ended"
        await self.attempts.make(lease, since=asyncio.get_running_loop().time())
        return await self.report(asked.run_id)

    async def crashes(self, asked: RunRequested) -> None:
        """Go on with a run until the crash that was arranged; its lease runs out at once."""
        with pytest.raises(Crash):
            await self.run(asked)
        await self.expire(asked.run_id)

    async def expire(self, run_id: str) -> None:
        """Let the lease of a run run out."""
        await self.sql(f"UPDATE runs SET lease_until = now() - interval '1 s' WHERE run_id = '{run_id}'")

    async def decide(
        self,
        asked: RunRequested,
        verb: Any,
        *decisions: Decision,
        by: str = "ann",
        command: str | None = None,
    ) -> None:
        """Send a decision of a person."""
        told = RunControl(
            run_id=asked.run_id,
            verb=verb,
            account_id=asked.account_id,
            command_id=command or new_id(),
            by=by,
            decisions=decisions,
        )
        async with self.stored.database.transaction() as tx:
            await self.control.obey(told, tx)

    async def report(self, run_id: str) -> RunReport:
        """Where a run stands."""
        return await self.answers.find(FindRun(account_id="acme", run_id=run_id))

    async def journal(self, run_id: str) -> JournalPage:
        """A run's journal, the first part."""
        return await self.answers.read_journal(ReadJournal(account_id="acme", run_id=run_id))

    async def sql(self, statement: str) -> Sequence[Any]:
        """Ask the database."""
        async with self.stored.database.transaction() as tx:
            result = await tx.connection.execute(text(statement))
            return list(result) if result.returns_rows else []


@asynccontextmanager
async def runner_rig(
    superuser_url: str,
    *,
    model: ScriptedTurns | None = None,
    tools: Iterable[Tool] = (),
    limits: RunLimits = LIMITS,
    policy: DeliveryPolicy = POLICY,
    lease: timedelta = timedelta(seconds=10),
    name: str | None = None,
    **agent: Any,
) -> AsyncIterator[Rig]:
    """A runner in a database of its own.

    Args:
        superuser_url: A Postgres that tests may fill.
        model: What the model says.
        tools: The tools that there are; the agent has all of them.
        limits: The run's ceilings.
        policy: How often a run is tried without progress.
        lease: How long a silent runner holds a run.
        name: The runner's name, and that of its successors.
        agent: Fields of the agent.
    """
    by_name = {tool.name: tool for tool in tools}
    revision = AgentRevision(
        **{"agent_id": "assistant", "account_id": "acme", "revision": 1, "name": "assistant"}
        | {"instruction": "Be brief.", "tools": tuple(sorted(by_name))}
        | agent
    )

    def nothing(_: Any) -> Any:
        raise NotImplementedError

    service = Service("runner", "A runner under test.", metadata, nothing)
    async with service_database(superuser_url, service) as stored:
        stored.clock.instant = datetime.now(UTC)
        yield Rig(stored, model or ScriptedTurns(), by_name, revision, limits, policy, lease, name)


class CrashAt:
    """Crashes at the nth passing of a named point, once."""

    def __init__(self, name: str, nth: int = 1) -> None:
        self.name, self.left = name, nth
        self.passed: list[str] = []

    def __call__(self, _drill: Any, name: str) -> None:
        self.passed.append(name)
        if name == self.name:
            self.left -= 1
            if self.left == 0:
                raise Crash(name)


def crash_at(monkeypatch: pytest.MonkeyPatch, name: str, nth: int = 1) -> CrashAt:
    """Arrange a crash; the value tells which points were passed."""
    crash = CrashAt(name, nth)
    monkeypatch.setattr(faults, "_drill", "a drill")
    monkeypatch.setattr(faults, "_pass", crash)
    return crash
