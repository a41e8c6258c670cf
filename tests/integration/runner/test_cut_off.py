"""A runner that is killed, cut off or cancelled between two writes leaves a run that another one ends, and no deed twice."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest

from headrace.common.db import Transaction
from headrace.common.errors import Unavailable
from headrace.contracts.runs import Decision, RunEvent, RunFinished, RunRequested, RunState
from headrace.runner.model import ModelRequest, ModelTurn
from headrace.tools import CannotTell, DidNotHappen, Happened, Tool, ToolContext, Verdict, tool
from tests.support.runner_rig import Crash, Rig, ScriptedTurns, calls, crash_at, request, runner_rig, says
from tests.support.servers import PostgresEndpoint
from tests.support.service_database import ServiceDatabase

KILLS = [
    ("runner.intent.before", 1),
    ("runner.intent.after", 1),
    ("runner.act.before", 1),
    ("runner.act.after", 1),
    ("runner.confirm.before", 1),
    *((f"runner.journal.{moment}", nth) for nth in (1, 2, 3, 4) for moment in ("before", "commit", "after")),
    ("runner.confirm.after", 1),
    ("runner.finish.before", 1),
    *((f"runner.publish.{moment}", nth) for nth in (1, 2) for moment in ("before", "after")),
    ("runner.finish.after", 1),
]
WHOLE = ["user", "assistant,call_0", "tool call_0", "assistant"]


class Post:
    """A post office that may know what it took."""

    def __init__(self, *, can_tell: bool = True) -> None:
        self.sent: Counter[str] = Counter()
        self.names: set[str] = set()
        self.can_tell = can_tell
        self.then: Callable[[], None] = lambda: None

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
            self.then()
            return f"sent to {to}"

        return send


class Breaking(ServiceDatabase):
    """A database that breaks a number of times, when everything was sent to it or before."""

    def __init__(self, stored: ServiceDatabase, error: Exception, *, at_commit: bool) -> None:
        gone: Any = self
        self.database, self.clock, self.left = gone, stored.clock, 0
        self._stored, self._error, self._at_commit = stored, error, at_commit

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        self._break(now=not self._at_commit)
        async with self._stored.database.transaction() as tx:
            yield tx
            self._break(now=self._at_commit)

    def _break(self, *, now: bool) -> None:
        if now and self.left:
            self.left -= 1
            raise self._error


class Hanging(ScriptedTurns):
    """A model that says a word after its turns, and never ends."""

    def __init__(self, *turns: ModelTurn) -> None:
        super().__init__(*turns)
        self.speaks = asyncio.Event()

    async def call(self, request: ModelRequest, *, on_text: Callable[[str], Any]) -> ModelTurn:
        if self.turns:
            return await super().call(request, on_text=on_text)
        await on_text("word")
        self.speaks.set()
        await asyncio.Event().wait()
        raise AssertionError


def one_letter() -> ScriptedTurns:
    """A model that writes to Ann, and is content with any result, however often it is asked."""

    def turn(request: ModelRequest) -> ModelTurn:
        is_answered = request.messages[-1]["role"] == "tool"
        return says("done") if is_answered else calls(("send", json.dumps({"to": "ann"})))

    return ScriptedTurns(*[turn] * 10)


async def shape(rig: Rig) -> list[str]:
    """What the run left in its session, in short."""
    rows = await rig.sql("SELECT body FROM messages ORDER BY seq")
    return [
        f"tool {body['tool_call_id']}"
        if body["role"] == "tool"
        else ",".join([body["role"], *(call["id"] for call in body.get("tool_calls", ()))])
        for (body,) in rows
    ]


async def ends(rig: Rig) -> int:
    """How often the end of a run was told."""
    told = await rig.stored.outbox(RunEvent)
    return len([event for event in told if isinstance(event.news, RunFinished)])


@pytest.mark.parametrize("error", [Unavailable("away"), RuntimeError("the driver broke")])
@pytest.mark.parametrize("breaks", ["before", "at the commit"])
async def test_se_1_result_of_a_deed_that_could_not_be_written_is_written_later_and_the_deed_not_repeated(
    postgres_server: PostgresEndpoint, error: Exception, breaks: str
) -> None:
    post, asked = Post(), request(session_id="s-1")
    async with runner_rig(postgres_server.superuser_url, model=one_letter(), tools=[post.send()]) as rig:
        broken = Breaking(rig.stored, error, at_commit=breaks == "at the commit")
        post.then = lambda: setattr(broken, "left", 1)

        report = await replace(rig, stored=broken).run(asked)
        if not report.state.is_final:
            await rig.expire(asked.run_id)
            report = await rig.run(asked)

        assert (report.state, report.output) == (RunState.SUCCEEDED, "done")
        assert (await shape(rig), broken.left) == (WHOLE, 0)
        assert len(rig.model.requests) == 2
    assert post.sent == {"ann": 1}


@pytest.mark.parametrize(("point", "nth"), KILLS)
async def test_se_8_kill_between_any_two_writes_never_repeats_a_deed_that_nobody_can_look_up(
    postgres_server: PostgresEndpoint, monkeypatch: pytest.MonkeyPatch, point: str, nth: int
) -> None:
    post, asked = Post(can_tell=False), request(session_id="s-1")
    async with runner_rig(postgres_server.superuser_url, model=one_letter(), tools=[post.send()]) as rig:
        crash = crash_at(monkeypatch, point, nth)
        with suppress(Crash):
            await rig.run(asked)
        await rig.expire(asked.run_id)
        crash.name = ""

        report = await rig.report(asked.run_id)
        if not report.state.is_final:
            report = await rig.run(asked)
        for ask in (await rig.journal(asked.run_id)).waiting:
            answer = Decision(path=ask.path, seq=ask.seq, choice="happened" if post.sent else "again")
            await rig.decide(asked, "resolve", answer)
            report = await rig.run(asked)

        assert (report.state, report.output) == (RunState.SUCCEEDED, "done")
        assert (await shape(rig), await ends(rig)) == (WHOLE, 1)
    assert post.sent == {"ann": 1}


async def test_se_8_kill_before_a_run_is_parked_asks_the_person_once(
    postgres_server: PostgresEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    post, asked = Post(), request()
    async with runner_rig(
        postgres_server.superuser_url, model=one_letter(), tools=[post.send()], approvals=("send",)
    ) as rig:
        crash = crash_at(monkeypatch, "runner.park.before")
        await rig.crashes(asked)
        crash.name = ""

        report = await rig.run(asked)

        assert report.state is RunState.WAITING_APPROVAL
        assert len((await rig.journal(asked.run_id)).waiting) == 1
    assert not post.sent


async def cancelled(rig: Rig, asked: RunRequested, speaks: asyncio.Event) -> None:
    """Run, and cancel the task when the model speaks."""
    running = asyncio.create_task(rig.run(asked))
    await speaks.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_se_16_task_that_is_cancelled_lets_its_run_go_at_once_and_another_goes_on_from_there(
    postgres_server: PostgresEndpoint,
) -> None:
    post, asked = Post(), request(session_id="s-1")
    model = Hanging(calls(("send", '{"to": "ann"}')))
    async with runner_rig(postgres_server.superuser_url, model=model, tools=[post.send()]) as rig:
        await cancelled(rig, asked, model.speaks)

        ((is_free,),) = await rig.sql("SELECT lease_until <= clock_timestamp() FROM runs")
        report = await rig.another(one_letter()).run(asked)

        assert (is_free, await shape(rig)) == (True, WHOLE)
    assert (report.state, report.attempt) == (RunState.SUCCEEDED, 1)
    assert post.sent == {"ann": 1}


async def test_se_16_task_that_cannot_even_let_go_leaves_a_lease_that_runs_out_by_itself(
    postgres_server: PostgresEndpoint,
) -> None:
    post, asked = Post(), request(session_id="s-1")
    model = Hanging(calls(("send", '{"to": "ann"}')))
    async with runner_rig(postgres_server.superuser_url, model=model, tools=[post.send()]) as rig:
        broken = Breaking(rig.stored, Unavailable("away"), at_commit=False)
        model.speaks = Cutting(broken)
        await cancelled(replace(rig, stored=broken), asked, model.speaks)

        assert await rig.take(asked) is None
        await rig.expire(asked.run_id)
        report = await rig.another(one_letter()).run(asked)

        assert await shape(rig) == WHOLE
    assert report.state is RunState.SUCCEEDED
    assert post.sent == {"ann": 1}


class Cutting(asyncio.Event):
    """An event with which a database goes away for good."""

    def __init__(self, broken: Breaking) -> None:
        super().__init__()
        self._broken = broken

    def set(self) -> None:
        self._broken.left = 1_000
        super().set()
