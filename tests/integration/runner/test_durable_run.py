"""A run is killed anywhere and goes on from there: nothing finished is made again, and no deed is done twice."""

import json
from collections import Counter

import pytest

from headrace.contracts.runs import Decision, RunState
from headrace.tools import CannotTell, DidNotHappen, Happened, Tool, ToolContext, Verdict, tool
from tests.support.runner_rig import Crash, ScriptedTurns, calls, crash_at, request, runner_rig, says
from tests.support.servers import PostgresEndpoint

POINTS = (
    "runner.model.before",
    "runner.model.after",
    "runner.tell.before",
    "runner.tell.after",
    "runner.journal.before",
    "runner.journal.commit",
    "runner.journal.after",
    "runner.intent.before",
    "runner.intent.after",
    "runner.act.before",
    "runner.act.after",
    "runner.confirm.before",
    "runner.confirm.after",
    "runner.finish.before",
    "runner.finish.after",
)


class World:
    """What tools did, counted where it was done."""

    def __init__(self, *, can_tell: bool = True) -> None:
        self.sent: Counter[str] = Counter()
        self.names: set[str] = set()
        self.can_tell = can_tell

    async def look(self, name: str, _: ToolContext) -> Verdict:
        if not self.can_tell:
            return CannotTell("the post office is closed")
        return Happened("sent") if name in self.names else DidNotHappen()

    def send(self) -> Tool:
        @tool(effect="idempotent", key=lambda given, _: (str(given["to"]),), reconcile=self.look)
        async def send(to: str, context: ToolContext) -> str:
            """Send a letter."""
            self.sent[to] += 1
            self.names.add(context.provider_key)
            return "sent"

        return send


def letter(to: str) -> tuple[str, str]:
    return "send", json.dumps({"to": to})


@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("point", POINTS)
async def test_run_that_is_killed_at_a_point_ends_with_every_deed_done_once(
    postgres_server: PostgresEndpoint, monkeypatch: pytest.MonkeyPatch, point: str, nth: int
) -> None:
    world = World()
    turns = [calls(letter("ann"), letter("bob"), letter("ann")), calls(letter("cid")), says("done")]
    asked = request(session_id="s-1")
    model = ScriptedTurns(*turns)
    async with runner_rig(postgres_server.superuser_url, model=model, tools=[world.send()]) as rig:
        crash = crash_at(monkeypatch, point, nth)
        try:
            await rig.run(asked)
        except Crash:
            await rig.expire(asked.run_id)
        made = len(model.requests)
        finished = [
            s for s in (await rig.journal(asked.run_id)).steps if s.kind == "model" and s.state == "done"
        ]
        model.turns = list(turns[len(finished) :])
        crash.name = ""

        report = await rig.report(asked.run_id)
        if not report.state.is_final:
            report = await rig.another().run(asked)

        assert (report.state, report.output) == (RunState.SUCCEEDED, "done")
        assert world.sent == {"ann": 1, "bob": 1, "cid": 1}
        assert len(model.requests) - made == len(turns) - len(finished)
        assert made - len(finished) <= 1
        said = await rig.sql("SELECT body->>'role' FROM messages ORDER BY seq")
        assert [role for (role,) in said] == [
            "user",
            "assistant",
            *["tool"] * 3,
            "assistant",
            "tool",
            "assistant",
        ]


async def test_se_9_deed_in_doubt_that_nobody_can_look_up_waits_for_a_person(
    postgres_server: PostgresEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(can_tell=False)
    model = ScriptedTurns(calls(letter("ann")), says("done"))
    asked = request()
    async with runner_rig(postgres_server.superuser_url, model=model, tools=[world.send()]) as rig:
        crash_at(monkeypatch, "runner.act.after")
        await rig.crashes(asked)

        parked = await rig.run(asked)

        assert parked.state is RunState.WAITING_REVIEW
        (ask,) = (await rig.journal(asked.run_id)).waiting
        assert (ask.tool, ask.choices) == ("send", ("happened", "again", "skip"))
        assert "closed" in ask.why
        await rig.decide(asked, "resolve", Decision(path=ask.path, seq=ask.seq, choice="happened"))
        report = await rig.run(asked)
        assert report.state is RunState.SUCCEEDED
        assert world.sent == {"ann": 1}


async def test_approval_parks_the_run_and_is_asked_once(postgres_server: PostgresEndpoint) -> None:
    world = World()
    model = ScriptedTurns(calls(letter("ann"), letter("bob")), says("done"))
    asked = request()
    async with runner_rig(
        postgres_server.superuser_url, model=model, tools=[world.send()], approvals=("send",)
    ) as rig:
        parked = await rig.run(asked)
        assert parked.state is RunState.WAITING_APPROVAL
        first, second = (await rig.journal(asked.run_id)).waiting
        assert not world.sent

        await rig.decide(asked, "approve", Decision(path=first.path, seq=first.seq, choice="approve"))
        assert (await rig.report(asked.run_id)).state is RunState.WAITING_APPROVAL
        reject = Decision(path=second.path, seq=second.seq, choice="reject", note="not Bob")
        await rig.decide(asked, "approve", reject)
        report = await rig.run(asked)

        assert report.state is RunState.SUCCEEDED
        assert world.sent == {"ann": 1}
        results = [m["content"] for m in model.requests[-1].messages if m["role"] == "tool"]
        assert results == ["sent", "error: a person refused this call: not Bob"]
