"""Decisions about a run from outside of it, in the runner's own table; and runs that nobody works on."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio

from headrace.common.db import Database, Transaction
from headrace.common.errors import Unavailable
from headrace.contracts.runs import (
    EVENTS_PER_ATTEMPT,
    LAST_EVENT,
    RunControl,
    RunEvent,
    RunFinished,
    RunState,
)
from headrace.runner import sweep
from headrace.runner.errors import LeaseLost, NotRecordedYet
from headrace.runner.repository import runs
from headrace.runner.repository.runs import Lease
from headrace.runner.sweep import Sweep
from tests.support.eventually import eventually
from tests.support.runner_rig import Rig, ScriptedTurns, request, runner_rig, says
from tests.support.servers import PostgresEndpoint

ASKED = request("r-1")
REFUSAL = RunControl(
    run_id="r-1",
    verb="refuse",
    account_id="acme",
    command_id="c-1",
    code="rate_limited",
    reason="too often",
)


@pytest_asyncio.fixture
async def rig(postgres_server: PostgresEndpoint) -> AsyncIterator[Rig]:
    async with runner_rig(postgres_server.superuser_url, model=ScriptedTurns(says("done"))) as made:
        yield made


async def obey(rig: Rig, command: RunControl) -> None:
    async with rig.stored.database.transaction() as tx:
        await rig.control.obey(command, tx)


async def record(rig: Rig) -> None:
    async with rig.stored.database.transaction() as tx:
        await runs.record(tx.connection, ASKED)


async def test_refusal_ends_a_recorded_run_and_says_so_once(rig: Rig) -> None:
    await record(rig)

    await obey(rig, REFUSAL)
    await obey(rig, REFUSAL)

    report = await rig.report("r-1")
    assert (report.state, report.error_code, report.error) == (RunState.REFUSED, "rate_limited", "too often")
    (event,) = await rig.stored.outbox(RunEvent)
    assert event.seq == EVENTS_PER_ATTEMPT + LAST_EVENT
    assert event.news == RunFinished(state="refused", error_code="rate_limited", error="too often")


async def test_decision_that_comes_before_the_record_waits_for_it(rig: Rig) -> None:
    with pytest.raises(NotRecordedYet):
        await obey(rig, REFUSAL)


async def test_run_of_another_account_is_not_touched(rig: Rig) -> None:
    await record(rig)

    with pytest.raises(NotRecordedYet):
        await obey(rig, REFUSAL.model_copy(update={"account_id": "stranger"}))

    assert (await rig.report("r-1")).state is RunState.REQUESTED


async def test_holder_of_a_run_that_was_ended_cannot_finish_it(rig: Rig) -> None:
    lease = await rig.take(ASKED)
    assert lease is not None
    await obey(rig, REFUSAL)

    async with rig.stored.database.transaction() as tx:
        with pytest.raises(LeaseLost):
            await runs.finish(
                tx.connection, lease, RunFinished(state="succeeded"), now=rig.stored.clock.now()
            )

    assert (await rig.report("r-1")).state is RunState.REFUSED


async def test_run_in_hand_is_not_taken_and_an_abandoned_one_is_with_its_pinned_revision(rig: Rig) -> None:
    first = await rig.take(ASKED)
    assert first is not None
    async with rig.stored.database.transaction() as tx:
        await runs.pin(tx.connection, first, revision=7, history_upto=3)
    meanwhile = await rig.take(ASKED)
    await rig.expire("r-1")

    async with rig.stored.database.transaction() as tx:
        abandoned = await runs.find_abandoned(tx.connection)
    second = await rig.take(ASKED)

    assert (meanwhile, runs.request_of(abandoned)) == (None, ASKED)
    assert second == Lease("r-1", 2, 2, ASKED, revision=7, history_upto=3)


async def test_waiting_for_a_server_does_not_use_up_attempts(rig: Rig) -> None:
    first = await rig.take(ASKED)
    assert first is not None
    async with rig.stored.database.transaction() as tx:
        await runs.release(tx.connection, first, after=timedelta(0), attempt=first.attempt - 1)
    second = await rig.take(ASKED)

    assert second is not None
    assert (second.epoch, second.attempt) == (2, 1)


class AwayAtFirst:
    """A database that does not answer the first few times."""

    def __init__(self, database: Database, *, times: int) -> None:
        self._database, self.left = database, times

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        if self.left:
            self.left -= 1
            raise Unavailable("away")
        async with self._database.transaction() as tx:
            yield tx


class Attempts:
    """Breaks in the run `bad`, and goes on with every other one."""

    def __init__(self) -> None:
        self.made: list[str] = []

    async def make(self, lease: Lease, *, since: float) -> None:
        assert since <= asyncio.get_running_loop().time()
        if lease.run_id == "bad":
            raise RuntimeError("broken")
        self.made.append(lease.run_id)


async def abandon(rig: Rig, run_ids: Sequence[str]) -> None:
    """Leave runs behind, the first one first."""
    for run_id in run_ids:
        assert await rig.take(request(run_id)) is not None
        await rig.expire(run_id)


@asynccontextmanager
async def recovering(rig: Rig, *, attempts: Any = None, db: Any = None) -> AsyncIterator[None]:
    """A sweep that looks for abandoned runs, all the while."""
    made = attempts or rig.attempts
    swept = Sweep(db or rig.stored.database, made, rig.control, rig.leases, at_once=2)
    looking = asyncio.create_task(swept.recover())
    try:
        yield
        assert not looking.done()
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


@pytest.fixture
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "RECOVERY_SECONDS", 0.01)


@pytest.mark.usefixtures("_hasty")
async def test_database_that_was_away_costs_the_sweep_no_place(rig: Rig) -> None:
    await abandon(rig, ["one", "two", "three"])
    attempts, db = Attempts(), AwayAtFirst(rig.stored.database, times=5)

    async def all_made() -> None:
        assert attempts.made == ["one", "two", "three"]

    async with recovering(rig, attempts=attempts, db=db):
        await eventually(all_made)


@pytest.mark.usefixtures("_hasty")
async def test_run_that_breaks_leaves_the_others_alone(rig: Rig) -> None:
    await abandon(rig, ["good", "bad", "late"])
    attempts = Attempts()

    async def others_made() -> None:
        assert attempts.made == ["good", "late"]

    async with recovering(rig, attempts=attempts):
        await eventually(others_made)


@pytest.mark.usefixtures("_hasty")
@pytest.mark.parametrize("session_id", [None, "s-1"])
async def test_run_whose_stored_request_is_damaged_is_settled_and_others_go_on(
    rig: Rig, session_id: str | None
) -> None:
    bad = request("bad", session_id=session_id)
    assert await rig.take(bad) is not None
    await rig.expire("bad")
    await abandon(rig, ["good"])
    await rig.sql("""UPDATE runs SET request = '{"run_id": 5}' WHERE run_id = 'bad'""")

    async def both_ended() -> None:
        assert (await rig.report("bad")).state is RunState.FAILED
        assert (await rig.report("good")).state is RunState.SUCCEEDED

    async with recovering(rig):
        await eventually(both_ended)

    report = await rig.report("bad")
    assert (report.error_code, report.error) == ("unreadable", "the run's stored request is damaged")


async def test_command_about_a_run_whose_stored_request_is_damaged_is_obeyed(rig: Rig) -> None:
    assert await rig.take(request("r-1", session_id="s-1")) is not None
    await rig.sql("""UPDATE runs SET request = 'null' WHERE run_id = 'r-1'""")

    await rig.decide(ASKED, "cancel")

    assert (await rig.report("r-1")).state is RunState.CANCELLED
