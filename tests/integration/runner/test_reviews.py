"""What a person says of a deed whose end nobody saw: it counts once, with a name and a time, and only while it is asked."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from headrace.contracts.journal import Ask, DecisionReport, StepReport
from headrace.contracts.runs import Decision, RunRequested, RunState
from headrace.tools import Tool, tool
from tests.support.runner_rig import Rig, ScriptedTurns, calls, crash_at, request, runner_rig, says
from tests.support.servers import PostgresEndpoint

PAYMENT = calls(("pay", '{"to": "ann"}'))


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a person says, and what follows from it."""

    choice: Literal["happened", "again", "skip"]
    result: str = ""
    told: str
    """How the model's answer begins."""
    paid: int
    effect: str


class World:
    """What was done to it, counted."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()

    def pay(self) -> Tool:
        @tool
        async def pay(to: str) -> str:
            """Pay somebody."""
            self.done[to] += 1
            return f"paid {to}"

        return pay


def rig_of(postgres: PostgresEndpoint, world: World) -> Any:
    model = ScriptedTurns(PAYMENT, says("done"))
    return runner_rig(postgres.superuser_url, model=model, tools=[world.pay()])


def about(ask: Ask, choice: Any, **more: str) -> Decision:
    return Decision(path=ask.path, seq=ask.seq, choice=choice, **more)


async def payment(rig: Rig, asked: RunRequested) -> StepReport:
    (step,) = [step for step in (await rig.journal(asked.run_id)).steps if step.kind == "tool"]
    return step


async def in_doubt(rig: Rig, asked: RunRequested, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Let a payment be made, and the runner die before it is written down."""
    crash = crash_at(monkeypatch, "runner.act.after")
    await rig.crashes(asked)
    crash.name = ""
    assert (await rig.run(asked)).state is RunState.WAITING_REVIEW
    (ask,) = (await rig.journal(asked.run_id)).waiting
    return ask


@pytest.mark.parametrize(
    "said",
    [
        Said(choice="happened", told="done; a person saw that it happened", paid=1, effect="confirmed"),
        Said(choice="happened", result="receipt 7", told="receipt 7", paid=1, effect="confirmed"),
        Said(choice="again", told="paid ann", paid=2, effect="confirmed"),
        Said(choice="skip", told="error: a person left this call as it was", paid=1, effect="skipped"),
    ],
)
async def test_review_goes_on_as_the_person_says_and_says_who_it_was(
    postgres_server: PostgresEndpoint, monkeypatch: pytest.MonkeyPatch, said: Said
) -> None:
    world, asked = World(), request()
    async with rig_of(postgres_server, world) as rig:
        ask = await in_doubt(rig, asked, monkeypatch)

        words = about(ask, said.choice, note="I looked", result=said.result)
        await rig.decide(asked, "resolve", words, by="bob")
        report = await rig.run(asked)

        recorded = (await rig.journal(asked.run_id)).decisions
        call = await payment(rig, asked)
    assert report.state is RunState.SUCCEEDED
    assert rig.model.requests[-1].messages[-1]["content"].startswith(said.told)
    assert world.done == {"ann": said.paid}
    assert (call.state, call.effect and call.effect.state) == ("done", said.effect)
    decided = DecisionReport(
        path="root",
        seq=2,
        choice=said.choice,
        note="I looked",
        by="bob",
        decided_at=rig.stored.clock.instant,
    )
    assert recorded == (decided,)


async def test_deed_that_a_person_takes_back_is_undone_once_in_the_ledger_and_the_run_stays_ended(
    postgres_server: PostgresEndpoint,
) -> None:
    world, asked = World(), request()
    async with rig_of(postgres_server, world) as rig:
        ended = await rig.run(asked)
        back = Decision(path="root", seq=2, choice="undone", note="wrong Ann")

        await rig.decide(asked, "resolve", back, by="bob")
        await rig.decide(asked, "resolve", back, by="cid")

        call = await payment(rig, asked)
        (decision,) = (await rig.journal(asked.run_id)).decisions
        assert await rig.report(asked.run_id) == ended
    assert call.effect is not None
    assert (call.effect.state, call.effect.why) == ("undone", "wrong Ann")
    assert (decision.choice, decision.by) == ("undone", "bob")


async def test_decision_about_what_is_not_asked_changes_nothing(
    postgres_server: PostgresEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, asked = World(), request()
    async with rig_of(postgres_server, world) as rig:
        ask = await in_doubt(rig, asked, monkeypatch)
        before = await rig.report(asked.run_id), await rig.journal(asked.run_id)

        await rig.decide(
            asked,
            "resolve",
            Decision(path="root", seq=99, choice="again"),
            Decision(path="root/9:approval", seq=1, choice="approve"),
            Decision(path="root", seq=1, choice="happened"),
            Decision(path="root", seq=1, choice="again"),
            about(ask, "approve"),
            about(ask, "undone"),
        )

        assert (await rig.report(asked.run_id), await rig.journal(asked.run_id)) == before


@pytest.mark.parametrize("late", ["happened", "again", "skip"])
async def test_decision_that_comes_when_another_was_carried_out_changes_nothing(
    postgres_server: PostgresEndpoint, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    world, asked = World(), request()
    async with rig_of(postgres_server, world) as rig:
        ask = await in_doubt(rig, asked, monkeypatch)
        await rig.decide(asked, "resolve", about(ask, "happened"))
        ended = await rig.run(asked)
        before = await rig.journal(asked.run_id)

        await rig.decide(asked, "resolve", about(ask, late), by="late")
        await rig.decide(asked, "resume", by="late")

        assert await rig.report(asked.run_id) == ended
        assert await rig.journal(asked.run_id) == before
        assert await rig.take(asked) is None
    assert world.done == {"ann": 1}
