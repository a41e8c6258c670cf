"""What durability costs: one agent's run in memory, in Headrace's journal, and in DBOS, in turn on the same Postgres.

The loop, the model and the tools are the same on all three sides and answer at once in this process. The sides differ
in what keeps the steps: a step is one call of the model or of a tool.
"""

import asyncio
import json
import secrets
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import asyncpg
from dbos import DBOS

from headrace.bench.report import Aim, Report, percentile
from headrace.common import migrate
from headrace.common.clock import SystemClock
from headrace.common.db import Database, create_engine
from headrace.common.delivery import DeliveryPolicy
from headrace.common.outbox import Outbox
from headrace.contracts.agents import AgentRevision
from headrace.contracts.ids import new_id
from headrace.contracts.runs import ChatMessage, Door, Lane, RunRequested, TokenCount
from headrace.local.loopback import free_port
from headrace.local.postgres_roles import database_url
from headrace.local.postgres_server import PostgresServer
from headrace.runner import agent_loop
from headrace.runner.agent_loop import Conversation, Steps
from headrace.runner.attempt import Attempts, Means
from headrace.runner.calls import understood
from headrace.runner.leases import Leases
from headrace.runner.limits import RunLimits
from headrace.runner.model import ModelRequest, ModelTurn, ToolCall
from headrace.runner.models import outbox
from headrace.runner.steps import Place, ToolResult
from headrace.tools import Done, Tool, ToolContext, perform, tool

ROUNDS = 10
STEPS = 3 * ROUNDS + 1
"""In each round a model call and two tool calls, and then the answer."""
WARM_UP = 10
LEASE = timedelta(seconds=5)
LIMITS = RunLimits(model_calls=ROUNDS + 1, tokens=1_000_000, seconds=900)
POLICY = DeliveryPolicy(attempts=1, first_delay=1, longest_delay=1)
AGENT = AgentRevision(
    agent_id="assistant",
    account_id="acme",
    revision=1,
    name="assistant",
    instruction="Be brief.",
    tools=("look", "send"),
)


@tool(effect="none")
async def look(name: str) -> str:
    """Look somebody up."""
    return f"{name} is at home"


@tool(effect="idempotent", key=lambda given, _: (str(given["to"]),), reconcile="call_again")
async def send(to: str) -> str:
    """Send a letter."""
    return f"sent to {to}"


TOOLS: Mapping[str, Tool] = {each.name: each for each in (look, send)}


class Scripted:
    """A model that asks for both tools in each round, and then answers."""

    async def call(self, request: ModelRequest, *, on_text: Callable[[str], Awaitable[None]]) -> ModelTurn:
        """Tell by the request how far the run has come."""
        made = sum(message["role"] == "assistant" for message in request.messages)
        tokens = TokenCount(input_tokens=100, output_tokens=10)
        if made == ROUNDS:
            await on_text("done")
            return ModelTurn("done", (), tokens, "scripted")
        asked = (("look", {"name": f"ann {made}"}), ("send", {"to": f"ann {made}"}))
        calls = (ToolCall(f"call_{made}_{name}", name, json.dumps(given)) for name, given in asked)
        return ModelTurn("", tuple(calls), tokens, "scripted")


MODEL = Scripted()


async def say(request: ModelRequest) -> ModelTurn:
    """A turn of the model."""
    return await MODEL.call(request, on_text=_unheard)


async def act(name: str, arguments: dict[str, Any], place: str) -> str:
    """A call of a tool."""
    context = ToolContext(
        account_id="acme",
        agent_id="assistant",
        run_id="",
        session_id=None,
        door="api",
        trigger="",
        call=place,
    )
    made = await perform(TOOLS[name], arguments, context)
    return made.text if isinstance(made, Done) else "error"


@dataclass(frozen=True, slots=True)
class StepsMadeBy:
    """Steps made by two functions: as they stand, or as DBOS wraps them. Calls of one turn are made at once."""

    say: Callable[[ModelRequest], Awaitable[ModelTurn]]
    act: Callable[[str, dict[str, Any], str], Awaitable[str]]

    async def model(self, _: Place, request: ModelRequest) -> ModelTurn:
        """A turn."""
        return await self.say(request)

    async def tools(
        self, places: Sequence[Place], turn: ModelTurn, tools: Mapping[str, Tool]
    ) -> Sequence[ToolResult]:
        """The results of a turn's calls."""
        calls = [understood(place, call, tools) for place, call in zip(places, turn.tool_calls, strict=True)]
        made = (self.act(call.asked.name, call.arguments, str(call.place)) for call in calls)
        return [ToolResult(text) for text in await asyncio.gather(*made)]


async def loop(steps: Steps) -> str:
    """The run, whatever keeps its steps."""
    asked = Conversation(AGENT.instruction, [], [{"role": "user", "content": "hi"}])
    return await agent_loop.run(AGENT, asked, steps, tools=TOOLS, limits=LIMITS)


@dataclass(frozen=True, slots=True)
class Side:
    """One of those that are compared."""

    run: Callable[[], Awaitable[object]]
    stored: Callable[[], Awaitable[int]]
    """Counts the finished steps that its database has."""


@asynccontextmanager
async def _memory(_: str) -> AsyncIterator[Side]:
    async def run() -> str:
        return await loop(StepsMadeBy(say, act))

    async def stored() -> int:
        return 0

    yield Side(run, stored)


@asynccontextmanager
async def _headrace(superuser_url: str) -> AsyncIterator[Side]:
    """The runner's own attempt, from taking the run to its end, with its lease kept beside it; no broker."""
    url = database_url(superuser_url, "headrace")
    engine = create_engine(url.replace(":", "+asyncpg:", 1), schema="runner", pool_size=10)
    await migrate.upgrade(engine, "headrace.runner")
    clock = SystemClock()
    db = Database(engine, Outbox(outbox), service="runner", clock=clock, publish=_unheard)
    leases = Leases(db, length=LEASE)
    infra: Any = SimpleNamespace(db=db, bus=SimpleNamespace(tell=_unheard), clock=clock)
    agents: Any = SimpleNamespace(find=_the_agent)
    means = Means(
        agents=agents,
        model=MODEL,
        tools=TOOLS,
        secrets={},
        limits=LIMITS,
        policy=POLICY,
        approval_time=timedelta(days=7),
        admissible=_unheard,
    )
    attempts = Attempts(infra, leases, means)

    async def run() -> None:
        since = asyncio.get_running_loop().time()
        async with db.transaction() as tx:
            lease = await leases.take(tx, _request())
        if lease is None:
            raise RuntimeError("a new run cannot be taken")
        await attempts.make(lease, since=since)

    keeper = asyncio.create_task(leases.keep())
    try:
        yield Side(run, lambda: _count(url, "runner.steps JOIN runner.runs USING (run_id)", _DONE))
    finally:
        keeper.cancel()
        await asyncio.wait([keeper])
        await engine.dispose()


@asynccontextmanager
async def _dbos(superuser_url: str) -> AsyncIterator[Side]:
    """A workflow with the same steps; called directly, so that nothing polls for its result."""
    url = database_url(superuser_url, "dbos")
    pool = {"pool_pre_ping": False}  # as Headrace's: a round trip less for each transaction than by default
    DBOS(
        config={
            "name": "bench",
            "system_database_url": url,
            "db_engine_kwargs": pool,
            "log_level": "CRITICAL",
        }
    )
    steps = StepsMadeBy(DBOS.step()(say), DBOS.step()(act))

    @DBOS.workflow()
    async def run() -> str:
        return await loop(steps)

    await asyncio.to_thread(DBOS.launch)
    try:
        yield Side(run, lambda: _count(url, "dbos.operation_outputs", "error IS NULL"))
    finally:
        await asyncio.to_thread(DBOS.destroy)


_DONE = "steps.state = 'done' AND runs.state = 'succeeded'"
SIDES = {"memory": _memory, "headrace": _headrace, "dbos": _dbos}


async def measure(count: int) -> Report:
    """Measure so many runs of each side, in turn."""
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(_postgres())
        sides = {name: await stack.enter_async_context(made(url)) for name, made in SIDES.items()}
        meter = await asyncpg.connect(url)
        stack.push_async_callback(meter.close)
        for _ in range(WARM_UP):
            for side in sides.values():
                await side.run()
        costs: dict[str, list[Cost]] = {name: [] for name in sides}
        for nth in range(count):
            for name in sorted(sides, key=lambda each: (list(sides).index(each) + nth) % len(sides)):
                costs[name].append(await _measured(sides[name], meter))
        stored = {name: await side.stored() for name, side in sides.items()}
    if {count for name, count in stored.items() if name != "memory"} != {(WARM_UP + count) * STEPS}:
        raise RuntimeError(f"the sides did not do the same: {stored}")
    steps = {name: _per_step(each) for name, each in costs.items()}
    _print(steps)
    return Report(
        aims={"ms_per_step_below_dbos": Below(steps["dbos"]["p50_ms"], steps["headrace"]["p50_ms"], "ms")},
        measured={"per_step": steps, "steps_per_run": STEPS, "runs": count},
    )


@dataclass(frozen=True, slots=True)
class Cost:
    """What one run cost."""

    seconds: float
    commits: int
    wal_bytes: int


async def _measured(side: Side, meter: asyncpg.Connection) -> Cost:
    before = await meter.fetchrow(_METER)
    begun = time.perf_counter()
    await side.run()
    seconds = time.perf_counter() - begun
    after = await meter.fetchrow(_METER)
    return Cost(seconds, after["transactions"] - before["transactions"], int(after["wal"] - before["wal"]))


_METER = """
    SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS transactions,
           pg_current_wal_insert_lsn() - '0/0' AS wal
"""
"""Transactions that wrote, and WAL, up to this moment. The statistics views learn of both a second later or more."""


def _per_step(costs: list[Cost]) -> dict[str, float]:
    times = [cost.seconds * 1_000 / STEPS for cost in costs]
    return {
        "p50_ms": percentile(times, 0.5),
        "p95_ms": percentile(times, 0.95),
        "commits": percentile([cost.commits / STEPS for cost in costs], 0.5),
        "wal_bytes": round(percentile([cost.wal_bytes / STEPS for cost in costs], 0.5)),
    }


class Below(Aim):
    """An aim that is missed where both are the same."""

    @property
    def ok(self) -> bool:
        """Whether it was met."""
        return self.seen < self.most

    def as_json(self) -> dict[str, Any]:
        """The aim as programs read it."""
        return {**Aim.as_json(self), "aim": f"< {self.most:g}"}


@asynccontextmanager
async def _postgres() -> AsyncIterator[str]:
    """The embedded server as `headrace up` starts it, with a database for each side."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as home:
        server = PostgresServer(Path(home) / "postgres", free_port(), secrets.token_hex(16))
        await server.start()
        try:
            connection = await asyncpg.connect(server.superuser_url)
            for side in ("headrace", "dbos"):
                await connection.execute(f"CREATE DATABASE {side}")
            await connection.close()
            yield server.superuser_url
        finally:
            await server.stop()


async def _count(url: str, table: str, condition: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        return int(await connection.fetchval(f"SELECT count(*) FROM {table} WHERE {condition}"))  # noqa: S608  (ours)
    finally:
        await connection.close()


def _request() -> RunRequested:
    run_id = new_id()
    return RunRequested(
        run_id=run_id,
        door=Door.API,
        lane=Lane.INTERACTIVE,
        account_id=AGENT.account_id,
        agent_id=AGENT.agent_id,
        agent_revision=AGENT.revision,
        trigger=run_id,
        input=(ChatMessage(role="user", content="hi"),),
        requested_at=datetime.now(UTC),
    )


async def _the_agent(*_: object) -> AgentRevision:
    return AGENT


async def _unheard(*_: object) -> None:
    """Nobody listens: what a broker would be told is not part of this."""


def _print(steps: dict[str, dict[str, float]]) -> None:
    print(f"{'a step':10}{'p50 ms':>12}{'p95 ms':>12}{'commits':>12}{'WAL bytes':>12}")
    for side, row in steps.items():
        print(f"{side:10}" + "".join(f"{value:12.2f}" for value in row.values()))
