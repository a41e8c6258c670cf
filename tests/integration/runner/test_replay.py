"""Whether a run may be done again, what doing it again does to the world, and that both are seen to once more."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields
from typing import Any

import pytest

from headrace.common.db import Transaction
from headrace.common.errors import Conflict
from headrace.contracts.ids import new_id
from headrace.contracts.journal import PlanReplay, ReplayPlan
from headrace.contracts.runs import Decision, RunRequested, RunState
from headrace.runner.admissible import Admissible
from headrace.runner.errors import ModelRefused
from headrace.runner.model import ModelTurn
from headrace.runner.repository.runs import Lease
from headrace.tools import CannotTell, Happened, Tool, ToolContext, ToolError, Verdict, tool
from tests.support.runner_rig import Rig, ScriptedTurns, calls, crash_at, request, runner_rig, says
from tests.support.servers import PostgresEndpoint

BROKEN = ModelRefused("no such model")
LETTER = ("send", '{"to": "ann"}')
RING = ("ring", "{}")


class World:
    """What was done to it, counted, by tools of every effect."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.seen: Verdict = Happened("sent")
        self.works = True

    async def look(self, _name: str, _: ToolContext) -> Verdict:
        return self.seen

    def tools(self) -> list[Tool]:
        @tool(effect="idempotent", key=lambda given, _: (str(given["to"]),), reconcile=self.look)
        async def send(to: str) -> str:
            """Send a letter."""
            self.done[f"letter to {to}"] += 1
            return "sent"

        @tool
        async def ring() -> str:
            """Ring the bell."""
            if not self.works:
                raise ToolError("the bell is broken")
            self.done["bell"] += 1
            return "rung"

        @tool(effect="none")
        async def look_up() -> str:
            """Look something up."""
            return "found"

        return [send, ring, look_up]


class CheckedRig(Rig):
    """A rig whose runs are looked at before they begin, as in the service."""

    async def admissible(self, lease: Lease, tx: Transaction) -> None:
        no_files: Any = None
        await Admissible(no_files, self.tools).check(lease, tx)


@asynccontextmanager
async def checked_rig(
    postgres: PostgresEndpoint, world: World, *turns: ModelTurn | BaseException
) -> AsyncIterator[CheckedRig]:
    model = ScriptedTurns(*turns)
    async with runner_rig(postgres.superuser_url, model=model, tools=world.tools()) as rig:
        yield CheckedRig(**{field.name: getattr(rig, field.name) for field in fields(rig)})


async def plan_of(rig: Rig, asked: RunRequested) -> ReplayPlan:
    return await rig.answers.plan_replay(PlanReplay(account_id="acme", run_id=asked.run_id))


def again(asked: RunRequested, **changes: Any) -> RunRequested:
    """The replay of a run, as the gateway asks for it."""
    made: dict[str, Any] = {"run_id": new_id(), "session_id": None, "replay_of": asked.run_id}
    return asked.model_copy(update=made | {"origin": asked.intent} | changes)


async def fails(rig: Rig, asked: RunRequested) -> None:
    assert (await rig.run(asked)).state is RunState.FAILED


async def test_run_that_touched_nothing_may_be_replayed(postgres_server: PostgresEndpoint) -> None:
    asked = request(session_id="s-1")
    turns = (calls(("look_up", "{}"), ("no_such_tool", "{}")), BROKEN, says("done"))
    async with checked_rig(postgres_server, World(), *turns) as rig:
        await fails(rig, asked)

        plan = await plan_of(rig, asked)
        report = await rig.run(again(asked))

    assert plan == ReplayPlan(request=asked, allowed=True)
    assert (report.state, report.session_id, report.replay_of) == (RunState.SUCCEEDED, None, asked.run_id)


async def test_run_whose_deeds_have_keys_may_be_replayed_and_they_are_not_done_twice(
    postgres_server: PostgresEndpoint,
) -> None:
    world, asked = World(), request()
    turns = (calls(LETTER), BROKEN, calls(LETTER), BROKEN, calls(LETTER), says("done"))
    async with checked_rig(postgres_server, world, *turns) as rig:
        await fails(rig, asked)
        second = again(asked)
        await fails(rig, second)
        assert (await plan_of(rig, second)).allowed

        third = again(second)
        report = await rig.run(third)

        (_, step, _) = (await rig.journal(third.run_id)).steps
        assert step.effect is not None
        assert (step.effect.state, step.effect.run_id) == ("confirmed", asked.run_id)
    assert report.state is RunState.SUCCEEDED
    assert world.done == {"letter to ann": 1}


async def test_same_call_of_a_run_that_is_no_replay_is_another_deed(
    postgres_server: PostgresEndpoint,
) -> None:
    world = World()
    turns = (calls(LETTER), says("done"), calls(LETTER), says("done"))
    async with checked_rig(postgres_server, world, *turns) as rig:
        await rig.run(request())
        await rig.run(request())

    assert world.done == {"letter to ann": 2}


async def test_replay_of_a_run_with_an_undeclared_deed_is_refused_with_the_tool(
    postgres_server: PostgresEndpoint,
) -> None:
    world, asked = World(), request()
    async with checked_rig(postgres_server, world, calls(RING, LETTER), BROKEN) as rig:
        await fails(rig, asked)

        plan = await plan_of(rig, asked)

    assert (plan.allowed, plan.tools) == (False, ("ring",))
    assert "acted, or may have" in plan.why


async def test_replay_of_a_run_with_an_undeclared_deed_in_doubt_is_refused(
    postgres_server: PostgresEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = request()
    async with checked_rig(postgres_server, World(), calls(RING)) as rig:
        for point in ("runner.act.before", "runner.intent.before"):
            crash_at(monkeypatch, point)
            await rig.crashes(asked)
        await rig.decide(asked, "cancel")

        plan = await plan_of(rig, asked)

    assert (plan.allowed, plan.tools) == (False, ("ring",))


async def test_undeclared_deed_that_was_seen_to_fail_does_not_stand_against_a_replay(
    postgres_server: PostgresEndpoint,
) -> None:
    world, asked = World(), request()
    world.works = False
    async with checked_rig(postgres_server, world, calls(RING), BROKEN, calls(RING), says("done")) as rig:
        await fails(rig, asked)
        world.works = True

        plan = await plan_of(rig, asked)
        report = await rig.run(again(asked))

    assert (plan.allowed, report.state) == (True, RunState.SUCCEEDED)
    assert world.done == {"bell": 1}


@pytest.mark.parametrize(
    "loss",
    [
        "DELETE FROM effects",
        "UPDATE effects SET expires_at = now() - interval '1 s'",
        "UPDATE steps SET name = 'no_longer_there' WHERE kind = 'tool'",
    ],
)
async def test_replay_is_refused_where_what_would_tell_the_deed_apart_is_gone(
    postgres_server: PostgresEndpoint, loss: str
) -> None:
    world, asked = World(), request()
    async with checked_rig(postgres_server, world, calls(LETTER), BROKEN) as rig:
        await fails(rig, asked)
        await rig.sql(loss)

        plan = await plan_of(rig, asked)

    assert (plan.allowed, len(plan.tools)) == (False, 1)
    assert "it is not known whether these tools acted" in plan.why


async def test_replay_is_refused_where_a_run_was_never_recorded(postgres_server: PostgresEndpoint) -> None:
    asked = request()
    async with checked_rig(postgres_server, World(), BROKEN) as rig:
        await fails(rig, asked)
        await rig.sql("UPDATE runs SET journal_version = NULL")

        plan = await plan_of(rig, asked)

    assert (plan.allowed, plan.why) == (False, "what the run did was not recorded")


async def test_run_that_was_refused_before_it_began_may_be_replayed(
    postgres_server: PostgresEndpoint,
) -> None:
    asked = request()
    async with checked_rig(postgres_server, World(), BROKEN) as rig:
        await fails(rig, asked)
        await rig.sql("UPDATE runs SET state = 'refused', epoch = 0, journal_version = NULL")

        assert (await plan_of(rig, asked)).allowed


async def test_run_that_succeeded_or_still_goes_on_cannot_be_replayed(
    postgres_server: PostgresEndpoint,
) -> None:
    finished, running = request(), request()
    async with checked_rig(postgres_server, World(), says("done")) as rig:
        await rig.run(finished)
        await rig.take(running)

        with pytest.raises(Conflict, match="the run succeeded; ask for a new run instead"):
            await plan_of(rig, finished)
        with pytest.raises(Conflict, match="the run has not ended; it is running"):
            await plan_of(rig, running)


async def test_person_may_force_a_replay_and_it_does_the_undeclared_deed_once_more_and_no_other(
    postgres_server: PostgresEndpoint,
) -> None:
    world, asked = World(), request()
    turns = (calls(RING, LETTER), BROKEN, calls(RING, LETTER), says("done"))
    async with checked_rig(postgres_server, world, *turns) as rig:
        await fails(rig, asked)

        forced = again(asked, forced_by="ann")
        report = await rig.run(forced)

        ((recorded,),) = await rig.sql(
            f"SELECT request->>'forced_by' FROM runs WHERE run_id = '{forced.run_id}'"
        )
    assert (report.state, recorded) == (RunState.SUCCEEDED, "ann")
    assert world.done == {"bell": 2, "letter to ann": 1}


async def test_deed_of_the_first_run_that_is_in_doubt_is_looked_up_by_the_replay(
    postgres_server: PostgresEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, asked = World(), request()
    async with checked_rig(postgres_server, world, calls(LETTER), calls(LETTER), says("done")) as rig:
        crash = crash_at(monkeypatch, "runner.act.after")
        await rig.crashes(asked)
        crash.name = ""
        await rig.decide(asked, "cancel")
        assert (await plan_of(rig, asked)).allowed
        world.seen = CannotTell("the post office is closed")

        replay = again(asked)
        assert (await rig.run(replay)).state is RunState.WAITING_REVIEW
        (ask,) = (await rig.journal(replay.run_id)).waiting
        await rig.decide(replay, "resolve", Decision(path=ask.path, seq=ask.seq, choice="happened"))
        report = await rig.run(replay)

    assert report.state is RunState.SUCCEEDED
    assert world.done == {"letter to ann": 1}


async def test_deed_that_was_taken_back_is_done_once_more_by_a_replay(
    postgres_server: PostgresEndpoint,
) -> None:
    world, asked = World(), request()
    async with checked_rig(postgres_server, world, calls(LETTER), BROKEN, calls(LETTER), says("done")) as rig:
        await fails(rig, asked)
        await rig.decide(asked, "resolve", Decision(path="root", seq=2, choice="undone"))

        report = await rig.run(again(asked))

    assert report.state is RunState.SUCCEEDED
    assert world.done == {"letter to ann": 2}


@pytest.mark.parametrize("forced_by", [None, "ann"])
async def test_replay_that_was_allowed_does_not_begin_once_the_first_run_was_resumed(
    postgres_server: PostgresEndpoint, forced_by: str | None
) -> None:
    world, asked = World(), request()
    async with checked_rig(postgres_server, world, calls(LETTER), BROKEN, says("done")) as rig:
        await fails(rig, asked)
        assert (await plan_of(rig, asked)).allowed
        await rig.decide(asked, "resume")
        assert (await rig.run(asked)).state is RunState.SUCCEEDED

        report = await rig.run(again(asked, forced_by=forced_by))

        assert len(rig.model.requests) == 3
    assert (report.state, report.error_code) == (RunState.FAILED, "replay_refused")
    assert "the run succeeded" in str(report.error)


async def test_replay_that_was_allowed_does_not_begin_once_a_resume_did_what_cannot_be_told_apart(
    postgres_server: PostgresEndpoint,
) -> None:
    world, asked = World(), request()
    async with checked_rig(postgres_server, world, BROKEN, calls(RING), BROKEN) as rig:
        await fails(rig, asked)
        assert (await plan_of(rig, asked)).allowed
        await rig.decide(asked, "resume")
        await fails(rig, asked)

        report = await rig.run(again(asked))

    assert (report.state, report.error_code) == (RunState.FAILED, "replay_refused")
    assert "these tools acted" in str(report.error)
    assert world.done == {"bell": 1}


async def test_replay_that_began_goes_on_after_a_crash_without_being_asked_about_again(
    postgres_server: PostgresEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, asked = World(), request()
    turns = (BROKEN, calls(LETTER), says("lost"), says("done"))
    async with checked_rig(postgres_server, world, *turns) as rig:
        await fails(rig, asked)
        replay = again(asked)
        crash_at(monkeypatch, "runner.model.after", 2)
        await rig.crashes(replay)

        report = await rig.run(replay)

    assert (report.state, report.output) == (RunState.SUCCEEDED, "done")
    assert world.done == {"letter to ann": 1}
