"""A run is in one hand at a time: as long as it is renewed, however long it takes, and no longer than that."""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from headrace.common import migrate
from headrace.common.db import Transaction
from headrace.common.errors import Unavailable
from headrace.contracts.runs import RunFinished, RunState
from headrace.local.loopback import free_port
from headrace.local.postgres_server import PostgresServer
from headrace.runner.errors import LeaseLost
from headrace.runner.journal import Journal
from headrace.runner.ledger import Act, Ledger
from headrace.runner.model import ModelRequest, ModelTurn
from headrace.runner.repository import runs
from headrace.runner.repository.effects import Intent
from headrace.runner.steps import ROOT, Place, Step, ToolResult
from headrace.tools import tool
from tests.support.eventually import eventually
from tests.support.lone_runner import Clerk, Page, line, lone_runner, rig_on, stood_still
from tests.support.runner_rig import Rig, ScriptedTurns, calls, request, runner_rig, says
from tests.support.servers import PostgresEndpoint
from tests.support.service_database import ServiceDatabase

SHORT, LONGER = timedelta(seconds=1), timedelta(seconds=2)
STEP = Step(place=Place(ROOT, 2), kind="tool", name="send", call_id="call_0", effect_key="k")
INTENT = Intent(key="k", tool="send", place=STEP.place, provider_key="k", remembers=timedelta(days=90))


@contextmanager
def alive(*loops: Callable[[], Awaitable[None]]) -> Iterator[list["asyncio.Task[None]"]]:
    """Loops that a runner runs for ever, for as long as the block lasts."""

    async def run(loop: Callable[[], Awaitable[None]]) -> None:
        await loop()

    tasks = [asyncio.create_task(run(loop)) for loop in loops]
    try:
        yield tasks
    finally:
        for task in tasks:
            if not task.cancel():
                task.result()


async def tables(rig: Rig) -> list[Any]:
    return [await rig.sql(f"SELECT * FROM {name} ORDER BY 1, 2, 3") for name in ("runs", "steps", "effects")]


async def abandoned(rig: Rig, *run_ids: str) -> None:
    for run_id in run_ids:
        await rig.take(line(run_id))
        await rig.expire(run_id)


async def is_over(rig: Rig, run_id: str) -> None:
    assert await rig.sql(f"SELECT 1 FROM runs WHERE run_id = '{run_id}' AND lease_until < now()")


async def all_succeeded(rig: Rig, count: int) -> None:
    assert await rig.sql("SELECT state, count(*) FROM runs GROUP BY state") == [("succeeded", count)]


async def test_js_2_tool_that_takes_much_longer_than_the_lease_keeps_the_run_and_is_called_once(
    postgres_server: PostgresEndpoint,
) -> None:
    begun: list[str] = []

    async def was_held_for_two_leases_more() -> None:
        held = f"lease_until > first_until + interval '{2 * LONGER.total_seconds()} s'"
        assert await rig.sql(f"SELECT 1 FROM runs, first_lease WHERE {held}")

    @tool(effect="idempotent", key=lambda given, _: given["to"], reconcile="call_again")
    async def send(to: str) -> str:
        """Send something, slowly."""
        begun.append(to)
        await rig.sql("CREATE TABLE first_lease AS SELECT lease_until AS first_until FROM runs")
        await eventually(was_held_for_two_leases_more, timeout=25)
        return "sent"

    asked, model = request(), ScriptedTurns(calls(("send", '{"to": "ann"}')), says("done"))
    url = postgres_server.superuser_url
    async with runner_rig(url, model=model, tools=[send], lease=LONGER) as rig:
        other = rig.another(ScriptedTurns())
        with alive(rig.leases.keep, other.leases.keep, other.sweep.recover):
            report = await rig.run(asked)

        assert (report.state, report.output) == (RunState.SUCCEEDED, "done")
        assert begun == ["ann"]
        assert other.model.requests == []
        assert await rig.sql("SELECT epoch FROM runs") == [(1,)]
        assert await rig.sql("SELECT state, epoch FROM effects") == [("confirmed", 1)]


async def test_js_9_run_that_two_recoverers_find_at_once_is_taken_by_one(
    postgres_server: PostgresEndpoint,
) -> None:
    async with runner_rig(postgres_server.superuser_url) as rig:
        other = rig.another()
        for number in range(10):
            await abandoned(rig, f"r-{number}")

            taken = await asyncio.gather(rig.sweep._abandoned(), other.sweep._abandoned())

            (lease,) = [lease for lease in taken if lease is not None]
            assert (lease.run_id, lease.epoch) == (f"r-{number}", 2)


async def test_js_9_runs_that_two_recoverers_share_are_gone_on_with_once_each(
    postgres_server: PostgresEndpoint, tmp_path: Path
) -> None:
    page = Page(tmp_path / "page")
    names = [f"r-{number}" for number in range(12)]
    async with runner_rig(postgres_server.superuser_url, model=Clerk(), tools=[page.tool()]) as rig:
        other = rig.another(Clerk())
        await abandoned(rig, *names)

        with alive(rig.sweep.recover, other.sweep.recover):
            await eventually(lambda: all_succeeded(rig, len(names)))

        assert sorted(row.split()[1] for row in page.lines) == sorted(names)
        assert len(rig.model.requests) + len(other.model.requests) == 2 * len(names)
        assert await rig.sql("SELECT DISTINCT epoch FROM runs") == [(2,)]


@pytest.mark.parametrize("how", ["taken by another runner", "cancelled"])
async def test_js_9_zombie_can_write_nothing_and_changes_nothing_in_the_tables(
    postgres_server: PostgresEndpoint, how: str
) -> None:
    async with runner_rig(postgres_server.superuser_url, lease=timedelta(seconds=60)) as rig:
        asked, db = request(), rig.stored.database
        zombie = await rig.take(asked)
        assert zombie is not None
        async with rig.leases.held(zombie, since=asyncio.get_running_loop().time()):
            ledger, journal = Ledger(db, rig.leases, zombie), Journal(db, rig.leases, zombie)
            claim = await ledger.claim(INTENT, STEP)
            assert isinstance(claim, Act)
            if how == "cancelled":
                await rig.another().decide(asked, "cancel")
            else:
                await rig.expire(asked.run_id)
                assert await rig.another().take(asked) is not None
            before = await tables(rig)

            async def in_transaction(write: Callable[..., Awaitable[None]], **given: Any) -> None:
                async with db.transaction() as tx:
                    await write(tx.connection, zombie, **given)

            done, end = STEP.done(ToolResult("sent").as_output()), RunFinished(state="succeeded")
            another = replace(INTENT, key="another")
            writes: list[Callable[[], Awaitable[object]]] = [
                lambda: journal.write(Step(place=Place(ROOT, 1), kind="model", name="m")),
                lambda: journal.write(done, also=ledger.settled(claim.entry, result="sent")),
                lambda: ledger.claim(another, STEP),
                lambda: ledger.retake(claim.entry, INTENT),
                lambda: in_transaction(runs.pin, revision=1, history_upto=0),
                lambda: in_transaction(runs.park, state="waiting_review"),
                lambda: in_transaction(runs.release, after=timedelta(0), attempt=0),
                lambda: in_transaction(runs.finish, end=end, now=rig.stored.clock.now()),
            ]
            for write in writes:
                with pytest.raises(LeaseLost):
                    await write()

        assert await tables(rig) == before


class Away(ServiceDatabase):
    """A database that refuses, or does not answer at all, from when a test says so."""

    def __init__(self, stored: ServiceDatabase, how: str) -> None:
        gone: Any = self
        self._stored, self.database, self.clock, self._how = stored, gone, stored.clock, how
        self.is_away = False

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        if self.is_away and self._how == "refuses":
            raise Unavailable("away")
        if self.is_away:
            await asyncio.Event().wait()
        async with self._stored.database.transaction() as tx:
            yield tx


@pytest.mark.parametrize("how", ["refuses", "hangs"])
async def test_holder_that_cannot_renew_has_stopped_by_itself_before_anybody_else_can_take_the_run(
    postgres_server: PostgresEndpoint, how: str
) -> None:
    asked, begun, stopped = request(), asyncio.Event(), asyncio.Event()
    async with runner_rig(postgres_server.superuser_url, lease=LONGER) as rig:
        away = Away(rig.stored, how)
        silent = replace(rig, stored=away)

        async def holds() -> None:
            since = asyncio.get_running_loop().time()
            lease = await silent.take(asked)
            assert lease is not None
            try:
                async with silent.leases.held(lease, since=since):
                    begun.set()
                    away.is_away = True
                    await asyncio.Event().wait()
            except LeaseLost:
                stopped.set()

        async def is_taken() -> None:
            assert await rig.take(asked) is not None

        with alive(silent.leases.keep, holds):
            await begun.wait()
            await eventually(is_taken)

            assert stopped.is_set()


@pytest.mark.parametrize(
    ("point", "acts"),
    [
        ("runner.model.after", 0),
        ("runner.act.before", 0),
        ("runner.act.after", 1),
        ("runner.journal.commit", 0),
        ("runner.finish.before", 1),
    ],
)
async def test_runner_that_stands_still_for_longer_than_its_lease_does_nothing_when_it_wakes(
    postgres_server: PostgresEndpoint, tmp_path: Path, point: str, acts: int
) -> None:
    path = tmp_path / "page"
    page = Page(path)
    async with runner_rig(postgres_server.superuser_url, model=Clerk(), tools=[page.tool()]) as rig:
        with lone_runner(rig, path, run_id="r", stands_still_at=point, lease=SHORT) as first:
            assert await stood_still(first)
            await eventually(lambda: is_over(rig, "r"))
            assert (await rig.run(line("r"))).state is RunState.SUCCEEDED
            before = await tables(rig)

            first.send_signal(signal.SIGCONT)

            assert await asyncio.to_thread(first.wait) == 0
        assert await tables(rig) == before
        assert await rig.sql("SELECT epoch FROM runs") == [(2,)]
        assert len(page.lines) == 1
        assert len(page.written_by(first.pid)) == acts


@pytest_asyncio.fixture
async def disposable_postgres(server_folder: Path) -> AsyncIterator[PostgresServer]:
    server = await PostgresServer(server_folder / "disposable", free_port(), "known", durable=False).start()
    yield server
    await server.stop()


class Dawdling(Clerk):
    """A model that does not answer before it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = asyncio.Event()

    async def call(self, request: ModelRequest, *, on_text: Callable[[str], Any]) -> ModelTurn:
        turn = await super().call(request, on_text=on_text)
        await self.goes_on.wait()
        return turn


async def test_js_11_runs_whose_recovery_is_cut_by_a_restart_of_postgres_are_picked_up_by_a_later_sweep(
    disposable_postgres: PostgresServer, tmp_path: Path
) -> None:
    server, page, model = disposable_postgres, Page(tmp_path / "page"), Dawdling()
    names = [f"r-{number}" for number in range(6)]
    url = server.superuser_url.replace("postgresql://", "postgresql+asyncpg://")
    async with rig_on(url, page.tool(), model=model, lease=LONGER) as rig:
        await migrate.upgrade(rig.stored.database.engine, "headrace.runner")
        await abandoned(rig, *names)

        async def four_are_in_hand() -> None:
            assert len(model.requests) == 4

        async def none_is_in_hand() -> None:
            assert not rig.leases._held

        with alive(rig.leases.keep, rig.sweep.recover) as loops:
            await eventually(four_are_in_hand)
            await server.kill()
            await eventually(none_is_in_hand)
            model.goes_on.set()
            await server.start()
            await eventually(lambda: all_succeeded(rig, len(names)), timeout=60)
            assert not any(loop.done() for loop in loops)
        taken = await rig.sql("SELECT epoch, count(*) FROM runs GROUP BY epoch ORDER BY epoch")

    assert taken == [(2, 2), (3, 4)]
    assert sorted(row.split()[1] for row in page.lines) == names
