"""What a person decides counts once, for what was asked and no more, and the run goes on from there."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from headrace.contracts.journal import Ask, DecisionReport, StepReport
from headrace.contracts.runs import Decision, RunEvent, RunRequested, RunStarted, RunState
from headrace.runner.errors import ModelRefused, NotRecordedYet
from headrace.runner.model import ModelTurn
from headrace.tools import Tool, tool
from tests.support.runner_rig import Rig, ScriptedTurns, Told, calls, crash_at, request, runner_rig, says
from tests.support.servers import PostgresEndpoint

REFUSED = ModelRefused("no such model")
EXPIRE = "UPDATE steps SET expires_at = now() - interval '1 s' WHERE kind = 'approval'"


class World:
    """What was done to it, counted."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()

    def tools(self) -> list[Tool]:
        @tool(effect="none")
        async def read(page: str) -> str:
            """Read a page."""
            self.done[f"read {page}"] += 1
            return f"page {page}"

        @tool
        async def pay(to: str) -> str:
            """Pay somebody."""
            self.done[f"pay {to}"] += 1
            return f"paid {to}"

        return [read, pay]


def read(page: str) -> tuple[str, str]:
    return "read", json.dumps({"page": page})


def pay(to: str) -> tuple[str, str]:
    return "pay", json.dumps({"to": to})


def rig_of(
    postgres: PostgresEndpoint,
    world: World,
    *turns: ModelTurn | BaseException,
    approvals: tuple[str, ...] = (),
) -> Any:
    model = ScriptedTurns(*turns)
    return runner_rig(postgres.superuser_url, model=model, tools=world.tools(), approvals=approvals)


async def asks(rig: Rig, asked: RunRequested) -> tuple[Ask, ...]:
    return (await rig.journal(asked.run_id)).waiting


def about(ask: Ask, choice: Any, **more: str) -> Decision:
    return Decision(path=ask.path, seq=ask.seq, choice=choice, **more)


async def decisions(rig: Rig, asked: RunRequested) -> tuple[DecisionReport, ...]:
    return (await rig.journal(asked.run_id)).decisions


async def steps(rig: Rig, asked: RunRequested) -> dict[tuple[str, int], StepReport]:
    return {(step.path, step.seq): step for step in (await rig.journal(asked.run_id)).steps}


def read_results(model: ScriptedTurns) -> list[str]:
    """What the model was last told that its tools answered."""
    return [said["content"] for said in model.requests[-1].messages if said["role"] == "tool"]


async def test_se_10_answer_after_a_restart_goes_on_at_the_step_and_nothing_is_asked_again(
    postgres_server: PostgresEndpoint,
) -> None:
    world, asked = World(), request(session_id="s-1")
    async with rig_of(postgres_server, world, calls(read("a")), calls(pay("ann")), approvals=("pay",)) as rig:
        assert (await rig.run(asked)).state is RunState.WAITING_APPROVAL
        before = await steps(rig, asked)
        restarted = rig.another(ScriptedTurns(says("done")))

        (ask,) = await asks(restarted, asked)
        await restarted.decide(asked, "approve", about(ask, "approve"))
        report = await restarted.run(asked)

        after = await steps(rig, asked)
    assert (report.state, report.output) == (RunState.SUCCEEDED, "done")
    assert world.done == {"read a": 1, "pay ann": 1}
    assert [after[place] for place in (("root", 1), ("root", 2), ("root", 3))] == list(before.values())[:3]
    assert [place for place in after if place not in before] == [("root", 4), ("root", 5)]
    assert read_results(restarted.model) == ["page a", "paid ann"]


async def test_se_11_approval_that_a_failed_run_had_consumed_still_counts_after_a_resume(
    postgres_server: PostgresEndpoint,
) -> None:
    world, asked = World(), request()
    turns = (calls(pay("ann")), REFUSED, says("done"))
    async with rig_of(postgres_server, world, *turns, approvals=("pay",)) as rig:
        await rig.run(asked)
        (ask,) = await asks(rig, asked)
        await rig.decide(asked, "approve", about(ask, "approve"))
        assert (await rig.run(asked)).state is RunState.FAILED

        await rig.decide(asked, "resume")
        report = await rig.run(asked)

    assert report.state is RunState.SUCCEEDED
    assert world.done == {"pay ann": 1}


@pytest.mark.parametrize("point", ["runner.intent.before", "runner.intent.after", "runner.act.after"])
async def test_se_11_approval_counts_after_a_crash_and_a_deed_in_doubt_is_never_repeated_on_its_strength(
    postgres_server: PostgresEndpoint, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    world, asked = World(), request()
    async with rig_of(postgres_server, world, calls(pay("ann")), says("done"), approvals=("pay",)) as rig:
        await rig.run(asked)
        (ask,) = await asks(rig, asked)
        await rig.decide(asked, "approve", about(ask, "approve"))
        crash = crash_at(monkeypatch, point)
        await rig.crashes(asked)
        crash.name = ""

        report = await rig.run(asked)

        assert [step.kind for step in (await rig.journal(asked.run_id)).steps].count("approval") == 1
    begun = point != "runner.intent.before"
    assert report.state is (RunState.WAITING_REVIEW if begun else RunState.SUCCEEDED)
    assert world.done["pay ann"] == (point != "runner.intent.after")


async def test_se_13_two_people_who_approve_at_once_are_one_decision_and_one_deed(
    postgres_server: PostgresEndpoint,
) -> None:
    world, asked = World(), request()
    async with rig_of(postgres_server, world, calls(pay("ann")), says("done"), approvals=("pay",)) as rig:
        waiting = await rig.run(asked)
        (ask,) = await asks(rig, asked)

        people = ["ann", "bob", "cid", "dan"]
        await asyncio.gather(
            *(rig.decide(asked, "approve", about(ask, "approve"), by=person) for person in people)
        )
        leases = await asyncio.gather(*(rig.take(asked) for _ in people))

        (lease,) = [lease for lease in leases if lease is not None]
        await rig.attempts.make(lease, since=asyncio.get_running_loop().time())
        report = await rig.report(asked.run_id)
        (decision,) = await decisions(rig, asked)
    assert (report.state, report.epoch) == (RunState.SUCCEEDED, waiting.epoch + 1)
    assert (decision.choice, decision.by in people) == ("approve", True)
    assert world.done == {"pay ann": 1}


async def test_se_13_of_an_approval_and_a_rejection_at_once_one_counts_and_is_the_one_that_is_recorded(
    postgres_server: PostgresEndpoint,
) -> None:
    world, asked = World(), request()
    async with rig_of(postgres_server, world, calls(pay("ann")), says("done"), approvals=("pay",)) as rig:
        await rig.run(asked)
        (ask,) = await asks(rig, asked)

        await asyncio.gather(
            rig.decide(asked, "approve", about(ask, "approve")),
            rig.decide(asked, "approve", about(ask, "reject")),
        )
        report = await rig.run(asked)

        (decision,) = await decisions(rig, asked)
    assert report.state is RunState.SUCCEEDED
    assert world.done["pay ann"] == (decision.choice == "approve")


async def test_se_14_approved_run_goes_on_from_the_gate_by_one_branch(
    postgres_server: PostgresEndpoint,
) -> None:
    world, asked = World(), request()
    turns = (calls(read("a")), calls(pay("ann"), read("b"), pay("bob")), says("done"))
    async with rig_of(postgres_server, world, *turns, approvals=("pay",)) as rig:
        await rig.run(asked)
        assert world.done == {"read a": 1}
        first, second = await asks(rig, asked)

        choices = about(first, "approve"), about(second, "reject", note="not Bob")
        await rig.decide(asked, "approve", *choices)
        report = await rig.run(asked)

        by_epoch = [
            (step.seq, step.epoch) for step in (await rig.journal(asked.run_id)).steps if step.path == "root"
        ]
    assert report.state is RunState.SUCCEEDED
    assert world.done == {"read a": 1, "pay ann": 1, "read b": 1}
    assert by_epoch == [(1, 1), (2, 1), (3, 1), (4, 2), (5, 2), (6, 2), (7, 2)]
    assert read_results(rig.model) == [
        "page a",
        "paid ann",
        "page b",
        "error: a person refused this call: not Bob",
    ]
    assert len(rig.model.requests) == 3


async def test_question_that_nobody_answers_ends_the_run_and_a_resume_asks_anew(
    postgres_server: PostgresEndpoint,
) -> None:
    world, asked = World(), request()
    async with rig_of(postgres_server, world, calls(pay("ann")), says("done"), approvals=("pay",)) as rig:
        await rig.run(asked)
        await rig.sweep.tidy()
        assert (await rig.report(asked.run_id)).state is RunState.WAITING_APPROVAL
        await rig.sql(EXPIRE)

        await rig.sweep.tidy()
        expired = await rig.report(asked.run_id)
        await rig.decide(asked, "resume")
        await rig.run(asked)
        await rig.sweep.tidy()

        assert (expired.state, expired.error_code) == (RunState.FAILED, "approval_expired")
        assert (await rig.report(asked.run_id)).state is RunState.WAITING_APPROVAL
        (ask,) = await asks(rig, asked)
        assert ask.expires_at is not None
        assert ask.expires_at > rig.stored.clock.instant
        await rig.decide(asked, "approve", about(ask, "approve"))
        report = await rig.run(asked)
    assert report.state is RunState.SUCCEEDED
    assert world.done == {"pay ann": 1}


class Answering(Told):
    """A bus that lets a person answer as soon as a run says that it has started."""

    def __init__(self, answer: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self._answer = answer

    async def tell(self, event: RunEvent, headers: Any) -> None:
        await super().tell(event, headers)
        if isinstance(event.news, RunStarted):
            await self._answer()


async def test_answer_that_comes_just_before_the_run_waits_for_it_lets_the_run_go_on(
    postgres_server: PostgresEndpoint,
) -> None:
    world, asked = World(), request()
    async with rig_of(postgres_server, world, calls(pay("ann")), says("done"), approvals=("pay",)) as rig:
        await rig.run(asked)
        (ask,) = await asks(rig, asked)
        await rig.decide(asked, "cancel")
        await rig.decide(asked, "resume")

        told = Answering(lambda: rig.decide(asked, "approve", about(ask, "approve")))
        await replace(rig, told=told).run(asked)
        report = await rig.run(asked)

    assert report.state is RunState.SUCCEEDED
    assert world.done == {"pay ann": 1}


@pytest.mark.parametrize(
    "change",
    [
        EXPIRE,
        """UPDATE steps SET output = jsonb_set(output, '{tool_calls,0,2}', '"{\\"to\\": \\"eve\\"}"')
           WHERE kind = 'model'""",
    ],
    ids=["it expired", "the arguments changed"],
)
async def test_approval_that_is_no_longer_for_this_call_does_not_count_and_is_asked_anew(
    postgres_server: PostgresEndpoint, change: str
) -> None:
    world, asked = World(), request()
    async with rig_of(postgres_server, world, calls(pay("ann")), says("done"), approvals=("pay",)) as rig:
        await rig.run(asked)
        (first,) = await asks(rig, asked)
        await rig.decide(asked, "approve", about(first, "approve"))
        await rig.sql(change)

        report = await rig.run(asked)

        (second,) = await asks(rig, asked)
    assert report.state is RunState.WAITING_APPROVAL
    assert (second.path, second.seq) == (first.path, first.seq + 1)
    assert not world.done


async def test_approval_of_a_tool_that_was_changed_meanwhile_is_asked_anew(
    postgres_server: PostgresEndpoint,
) -> None:
    world, asked = World(), request()

    @tool
    async def pay(to: str, cents: int = 100_000) -> str:
        """Pay somebody."""
        raise AssertionError(to, cents)

    async with rig_of(postgres_server, world, calls(("pay", '{"to": "ann"}')), approvals=("pay",)) as rig:
        await rig.run(asked)
        (ask,) = await asks(rig, asked)
        await rig.decide(asked, "approve", about(ask, "approve"))

        report = await replace(rig, tools={"pay": pay}).run(asked)

    assert report.state is RunState.WAITING_APPROVAL


async def test_decision_for_the_run_of_another_account_is_not_obeyed(
    postgres_server: PostgresEndpoint,
) -> None:
    asked = request()
    async with rig_of(postgres_server, World(), calls(pay("ann")), approvals=("pay",)) as rig:
        await rig.run(asked)
        (ask,) = await asks(rig, asked)

        with pytest.raises(NotRecordedYet):
            await rig.decide(
                asked.model_copy(update={"account_id": "other"}), "approve", about(ask, "approve")
            )

        assert await asks(rig, asked) == (ask,)
