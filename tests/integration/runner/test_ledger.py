"""The ledger on a real Postgres: whoever comes with an intent, and whenever, it is acted on by one at a time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio

from headrace.runner.errors import EffectBusy, LeaseLost
from headrace.runner.journal import Journal
from headrace.runner.ledger import Act, AlreadyDone, InDoubt, Ledger
from headrace.runner.repository import effects
from headrace.runner.repository.effects import Entry, Intent
from headrace.runner.repository.runs import Lease
from headrace.runner.steps import ROOT, Place, Step, ToolResult
from tests.support.eventually import eventually
from tests.support.runner_rig import Rig, request, runner_rig
from tests.support.servers import PostgresEndpoint

STEP = Step(place=Place(ROOT, 2), kind="tool", name="send", call_id="call_0", effect_key="k")
INTENT = Intent(key="k", tool="send", place=STEP.place, provider_key="<k@mail>", remembers=timedelta(days=90))


class Holder:
    """A run that is held, and what it may do in the ledger."""

    def __init__(self, rig: Rig, lease: Lease) -> None:
        self._db, self.lease = rig.stored.database, lease
        self.ledger = Ledger(rig.stored.database, rig.leases, lease)
        self._journal = Journal(rig.stored.database, rig.leases, lease)

    async def claim(self, intent: Intent = INTENT) -> Act | AlreadyDone | InDoubt:
        return await self.ledger.claim(intent, STEP)

    async def acts(self, intent: Intent = INTENT) -> Entry:
        claim = await self.claim(intent)
        assert isinstance(claim, Act)
        return claim.entry

    async def settle(self, entry: Entry, result: str | None, *, why: str | None = None) -> None:
        step = STEP.done(ToolResult(result or "error").as_output())
        await self._journal.write(step, also=self.ledger.settled(entry, result=result, why=why))


@asynccontextmanager
async def holding(rig: Rig, run_id: str) -> AsyncIterator[Holder]:
    lease = await rig.take(request(run_id))
    assert lease is not None
    async with rig.leases.held(lease, since=asyncio.get_running_loop().time()):
        yield Holder(rig, lease)


async def left_in_doubt(rig: Rig, run_id: str = "dead") -> Entry:
    """What a runner leaves that died after it had written the intent."""
    async with holding(rig, run_id) as dead:
        entry = await dead.acts()
    await rig.expire(run_id)
    return replace(entry, is_held=False)


async def ledger_of(rig: Rig) -> list[tuple[Any, ...]]:
    rows = await rig.sql("SELECT key, state, run_id, epoch, result FROM effects ORDER BY key")
    return [tuple(row) for row in rows]


async def somebody_waits_for_a_lock(rig: Rig) -> None:
    waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    assert await rig.sql(waiting)


@pytest_asyncio.fixture
async def rig(postgres_server: PostgresEndpoint) -> AsyncIterator[Rig]:
    async with runner_rig(postgres_server.superuser_url, lease=timedelta(seconds=60)) as made:
        yield made


async def test_intent_that_two_runs_claim_at_once_is_acted_on_by_one_and_the_other_is_told_the_result(
    rig: Rig,
) -> None:
    async with holding(rig, "a") as a, holding(rig, "b") as b:
        claims = await asyncio.gather(a.claim(), b.claim(), return_exceptions=True)
        (act,) = [claim for claim in claims if isinstance(claim, Act)]
        (busy,) = [claim for claim in claims if isinstance(claim, EffectBusy)]
        assert act.entry.run_id in str(busy)
        first, second = (a, b) if act.entry.run_id == "a" else (b, a)

        await first.settle(act.entry, "sent")

        assert await second.claim() == AlreadyDone("sent")
        assert await first.claim() == AlreadyDone("sent")
        assert await ledger_of(rig) == [("k", "confirmed", first.lease.run_id, 1, "sent")]


@pytest.mark.parametrize("state", ["failed", "undone"])
async def test_intent_that_may_be_done_again_is_not_done_again_by_two_runs_at_once(
    rig: Rig, state: str
) -> None:
    await left_in_doubt(rig)
    await rig.sql(f"UPDATE effects SET state = '{state}'")
    async with holding(rig, "a") as a, holding(rig, "b") as b:
        async with rig.stored.database.transaction() as tx:
            await effects.locked(tx.connection, "acme", "k")
            second = asyncio.create_task(b.claim())
            await eventually(lambda: somebody_waits_for_a_lock(rig))
            await effects.take_over(tx.connection, a.lease, INTENT)

        with pytest.raises(EffectBusy, match="run a is using send"):
            await second
        assert await ledger_of(rig) == [("k", "intent", "a", 1, None)]


async def test_intent_in_doubt_that_two_runs_found_undone_is_acted_on_by_one(rig: Rig) -> None:
    entry = await left_in_doubt(rig)
    async with holding(rig, "a") as a, holding(rig, "b") as b:
        assert [await a.claim(), await b.claim()] == [InDoubt(entry)] * 2

        async with rig.stored.database.transaction() as tx:
            await effects.locked(tx.connection, "acme", "k")
            second = asyncio.create_task(b.ledger.retake(entry, INTENT))
            await eventually(lambda: somebody_waits_for_a_lock(rig))
            await effects.take_over(tx.connection, a.lease, INTENT)

        with pytest.raises(EffectBusy, match="run a is using send"):
            await second
        assert await ledger_of(rig) == [("k", "intent", "a", 1, None)]


async def test_intent_in_doubt_whose_silent_run_came_back_before_its_lease_was_taken_is_left_to_it(
    rig: Rig,
) -> None:
    entry = await left_in_doubt(rig)
    async with holding(rig, "a") as a:
        assert await a.claim() == InDoubt(entry)
        await rig.sql("UPDATE runs SET lease_until = now() + interval '1 min' WHERE run_id = 'dead'")

        with pytest.raises(EffectBusy, match="run dead is using send"):
            await a.ledger.retake(entry, INTENT)


async def test_intent_in_doubt_that_nobody_touched_meanwhile_becomes_the_run_s_own(rig: Rig) -> None:
    entry = await left_in_doubt(rig)
    async with holding(rig, "a") as a:
        claim = await a.ledger.retake(entry, INTENT)

        assert isinstance(claim, Act)
        assert (claim.entry.run_id, claim.entry.state, claim.entry.is_held) == ("a", "intent", True)
        await a.settle(claim.entry, "sent")
        assert await ledger_of(rig) == [("k", "confirmed", "a", 1, "sent")]


async def test_retake_after_somebody_else_did_it_meanwhile_is_told_the_result(rig: Rig) -> None:
    entry = await left_in_doubt(rig)
    async with holding(rig, "a") as a, holding(rig, "b") as b:
        other = await b.ledger.retake(entry, INTENT)
        assert isinstance(other, Act)
        await b.settle(other.entry, "sent by b")

        assert await a.ledger.retake(entry, INTENT) == AlreadyDone("sent by b")


async def test_retake_after_somebody_else_tried_it_meanwhile_and_died_is_in_doubt_anew(rig: Rig) -> None:
    entry = await left_in_doubt(rig)
    async with holding(rig, "b") as b:
        await b.ledger.retake(entry, INTENT)
    await rig.expire("b")
    async with holding(rig, "a") as a:
        claim = await a.ledger.retake(entry, INTENT)

        assert isinstance(claim, InDoubt)
        assert claim.entry.run_id == "b"


@pytest.mark.parametrize("meanwhile", ["UPDATE effects SET state = 'failed'", "DELETE FROM effects"])
async def test_retake_of_what_is_nobody_s_any_more_acts(rig: Rig, meanwhile: str) -> None:
    entry = await left_in_doubt(rig)
    await rig.sql(meanwhile)
    async with holding(rig, "a") as a:
        claim = await a.ledger.retake(entry, INTENT)

        assert isinstance(claim, Act)
        assert await ledger_of(rig) == [("k", "intent", "a", 1, None)]


async def test_zombie_can_neither_claim_nor_retake_nor_settle(rig: Rig) -> None:
    async with holding(rig, "a") as zombie:
        entry = await zombie.acts()
        await rig.expire("a")
        other = rig.another()
        async with holding(other, "a") as heir:
            claim = await heir.claim()
            assert isinstance(claim, InDoubt)
            before = await ledger_of(rig), await rig.sql("SELECT * FROM steps")

            with pytest.raises(LeaseLost):
                await zombie.settle(entry, "sent by the zombie")
            with pytest.raises(LeaseLost):
                await zombie.claim(replace(INTENT, key="another"))
            with pytest.raises(LeaseLost):
                await zombie.ledger.retake(entry, INTENT)

            assert (await ledger_of(rig), await rig.sql("SELECT * FROM steps")) == before
            mine = await heir.ledger.retake(claim.entry, INTENT)
            assert isinstance(mine, Act)
            await heir.settle(mine.entry, "sent")
            assert await ledger_of(rig) == [("k", "confirmed", "a", 2, "sent")]


async def test_run_cannot_settle_an_intent_that_another_run_took_over(rig: Rig) -> None:
    async with holding(rig, "a") as a, holding(rig, "b") as b:
        mine = await a.acts()
        async with rig.stored.database.transaction() as tx:
            await effects.take_over(tx.connection, b.lease, INTENT)

        with pytest.raises(LeaseLost, match="no longer this call's"):
            await a.settle(mine, "sent")

        assert await ledger_of(rig) == [("k", "intent", "b", 1, None)]
        assert await rig.sql("SELECT state FROM steps WHERE run_id = 'a'") == [("intent",)]


async def test_intent_is_settled_twice_alike_where_the_first_answer_was_lost(rig: Rig) -> None:
    async with holding(rig, "a") as a:
        entry = await a.acts()
        await a.settle(entry, "sent")

        await a.settle(entry, "sent")

        assert await ledger_of(rig) == [("k", "confirmed", "a", 1, "sent")]


async def test_done_intent_is_acted_on_again_when_its_trigger_can_no_longer_come_again(rig: Rig) -> None:
    brief = replace(INTENT, remembers=timedelta(microseconds=1))
    async with holding(rig, "a") as a, holding(rig, "b") as b:
        await a.settle(await a.acts(brief), "sent")

        await b.settle(await b.acts(), "sent anew")

        assert await a.claim() == AlreadyDone("sent anew")


async def test_old_entries_are_forgotten_but_not_those_that_perhaps_happened(rig: Rig) -> None:
    states = ("confirmed", "failed", "undone", "intent", "skipped")
    async with holding(rig, "a") as a:
        for age in ("old", "new"):
            for state in states:
                await a.claim(replace(INTENT, key=f"{age} {state}"))
    await rig.sql("UPDATE effects SET state = split_part(key, ' ', 2) WHERE key NOT LIKE '%confirmed'")
    await rig.sql("UPDATE effects SET state = 'confirmed', result = 'x' WHERE key LIKE '%confirmed'")
    await rig.sql("UPDATE effects SET expires_at = now() - interval '1 s' WHERE key LIKE 'old%'")

    await rig.sweep.tidy()

    kept = {row[0] for row in await ledger_of(rig)}
    assert kept == {*(f"new {state}" for state in states), "old intent", "old skipped"}
