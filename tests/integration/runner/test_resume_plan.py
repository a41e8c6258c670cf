"""What the dry run of a resume promises is what the resume does, step by step, and what it refuses it refuses in words."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import takewhile
from typing import Any

import pytest

from headrace.common.delivery import DeliveryPolicy
from headrace.common.errors import Conflict
from headrace.contracts.journal import PlannedStep, PlanResume, ResumePlan, StepReport
from headrace.contracts.runs import Decision, RunRequested, RunState
from headrace.runner.errors import JournalMismatch, ModelRefused
from headrace.runner.limits import RunLimits
from headrace.runner.model import ModelRequest, ModelTurn
from headrace.runner.repository import runs
from headrace.tools import DidNotHappen, Happened, Tool, ToolContext, Verdict, tool
from tests.support.runner_rig import Rig, ScriptedTurns, calls, crash_at, request, runner_rig, says
from tests.support.servers import PostgresEndpoint

GIVES_UP = DeliveryPolicy(attempts=0)
POINTS = (
    "runner.model.before",
    "runner.model.after",
    "runner.journal.before",
    "runner.journal.commit",
    "runner.intent.before",
    "runner.intent.after",
    "runner.act.before",
    "runner.act.after",
    "runner.confirm.before",
    "runner.confirm.after",
)
CRASHES = [(point, nth) for point in POINTS for nth in (1, 2)] + [("runner.finish.before", 1)]


class Post:
    """A post office that knows what it took."""

    def __init__(self) -> None:
        self.sent: Counter[str] = Counter()
        self.names: set[str] = set()

    async def look(self, name: str, _: ToolContext) -> Verdict:
        return Happened("sent") if name in self.names else DidNotHappen()

    def send(self) -> Tool:
        @tool(effect="idempotent", key=lambda given, _: (str(given["to"]),), reconcile=self.look)
        async def send(to: str, context: ToolContext) -> str:
            """Send a letter."""
            self.sent[to] += 1
            self.names.add(context.provider_key)
            return "sent"

        return send


class HangsAfter(ScriptedTurns):
    """A model that never ends the call after its turns."""

    def __init__(self, *turns: ModelTurn) -> None:
        super().__init__(*turns)
        self.hangs = asyncio.Event()

    async def call(self, request: ModelRequest, *, on_text: Callable[[str], Any]) -> ModelTurn:
        if self.turns:
            return await super().call(request, on_text=on_text)
        self.hangs.set()
        await asyncio.Event().wait()
        raise AssertionError


def letters(*names: str) -> ModelTurn:
    return calls(*(("send", json.dumps({"to": name})) for name in names))


async def plan_of(rig: Rig, asked: RunRequested) -> ResumePlan:
    return await rig.answers.plan_resume(PlanResume(account_id="acme", run_id=asked.run_id))


def coordinates(steps: list[StepReport]) -> tuple[PlannedStep, ...]:
    return tuple(PlannedStep(path=s.path, seq=s.seq, kind=s.kind, name=s.name) for s in steps)


def first_made(steps: list[StepReport]) -> list[StepReport]:
    """Of the steps that were made, those before the loop could see a result: one model call, or a turn's tools."""
    return list(takewhile(lambda step: step.kind != "model", steps)) or steps[:1]


async def gives_up(rig: Rig, asked: RunRequested) -> None:
    """Fail a run without making a step."""
    report = await replace(rig, policy=GIVES_UP).run(asked)
    assert (report.state, report.error_code) == (RunState.FAILED, "attempts_exhausted")


async def resumes_as_planned(rig: Rig, asked: RunRequested, *turns: ModelTurn) -> ResumePlan:
    """Resume a run to its success, and see that exactly what was planned is made first and the rest is kept."""
    plan = await plan_of(rig, asked)
    before = (await rig.journal(asked.run_id)).steps
    model = ScriptedTurns(*turns)

    await rig.decide(asked, "resume")
    report = await rig.another(model).run(asked)

    after = (await rig.journal(asked.run_id)).steps
    made = [step for step in after if step.epoch == report.epoch]
    kept = [step for step in after if step.epoch < report.epoch]
    assert report.state is RunState.SUCCEEDED
    assert coordinates(first_made(made)) == plan.run
    assert coordinates([step for step in kept if step.kind != "approval"]) == plan.reused
    assert all(step in before for step in kept)
    assert len(model.requests) == len([step for step in made if step.kind == "model"])
    assert not model.turns
    first = model.requests[0]
    assert plan.run[0].kind != "model" or plan.estimated_input_tokens == first.estimated_tokens()
    return plan


async def test_run_that_failed_at_its_first_model_call_resumes_as_planned(
    postgres_server: PostgresEndpoint,
) -> None:
    asked = request()
    model = ScriptedTurns(ModelRefused("no such model"))
    async with runner_rig(postgres_server.superuser_url, model=model) as rig:
        assert (await rig.run(asked)).state is RunState.FAILED

        plan = await resumes_as_planned(rig, asked, says("done"))

    assert (len(plan.reused), [step.seq for step in plan.run]) == (0, [1])


async def test_run_that_failed_at_a_model_call_after_tools_resumes_as_planned(
    postgres_server: PostgresEndpoint,
) -> None:
    post, asked = Post(), request(session_id="s-1")
    model = ScriptedTurns(letters("ann", "bob"), ModelRefused("no such model"))
    async with runner_rig(postgres_server.superuser_url, model=model, tools=[post.send()]) as rig:
        assert (await rig.run(asked)).state is RunState.FAILED

        plan = await resumes_as_planned(rig, asked, letters("cid"), says("done"))

    assert ([step.seq for step in plan.reused], [step.seq for step in plan.run]) == ([1, 2, 3], [4])
    assert post.sent == {"ann": 1, "bob": 1, "cid": 1}


@pytest.mark.parametrize("nth", [1, 2, 3])
async def test_run_that_failed_amid_parallel_tools_resumes_only_those_that_are_missing(
    postgres_server: PostgresEndpoint, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    post, asked = Post(), request()
    model = ScriptedTurns(letters("ann", "bob", "cid"))
    async with runner_rig(postgres_server.superuser_url, model=model, tools=[post.send()]) as rig:
        crash_at(monkeypatch, "runner.confirm.before", nth)
        await rig.crashes(asked)
        await gives_up(rig, asked)

        plan = await resumes_as_planned(rig, asked, says("done"))

    assert [step.name for step in plan.run] == ["send"]
    assert len(plan.reused) == 3
    assert post.sent == {"ann": 1, "bob": 1, "cid": 1}


async def test_run_that_was_cancelled_after_a_tool_resumes_as_planned(
    postgres_server: PostgresEndpoint,
) -> None:
    post, asked = Post(), request()
    model = HangsAfter(letters("ann"))
    async with runner_rig(postgres_server.superuser_url, model=model, tools=[post.send()]) as rig:
        running = asyncio.create_task(rig.run(asked))
        await model.hangs.wait()
        await rig.decide(asked, "cancel")
        assert (await running).state is RunState.CANCELLED

        plan = await resumes_as_planned(rig, asked, says("done"))

    assert ([step.kind for step in plan.reused], [step.seq for step in plan.run]) == (["model", "tool"], [3])
    assert post.sent == {"ann": 1}


@pytest.mark.parametrize(("point", "nth"), CRASHES)
async def test_run_that_crashed_and_failed_resumes_as_planned(
    postgres_server: PostgresEndpoint, monkeypatch: pytest.MonkeyPatch, point: str, nth: int
) -> None:
    post, asked = Post(), request(session_id="s-1")
    turns = [letters("ann", "bob"), letters("cid"), says("done")]
    async with runner_rig(
        postgres_server.superuser_url, model=ScriptedTurns(*turns), tools=[post.send()]
    ) as rig:
        crash = crash_at(monkeypatch, point, nth)
        await rig.crashes(asked)
        crash.name = ""
        await gives_up(rig, asked)
        heard = [step for step in (await plan_of(rig, asked)).reused if step.kind == "model"]

        await resumes_as_planned(rig, asked, *turns[len(heard) :])

    assert post.sent == {"ann": 1, "bob": 1, "cid": 1}


async def test_run_that_was_cancelled_while_it_waited_is_planned_to_ask_the_same_again(
    postgres_server: PostgresEndpoint,
) -> None:
    post, asked = Post(), request()
    model = ScriptedTurns(letters("ann"), says("done"))
    async with runner_rig(
        postgres_server.superuser_url, model=model, tools=[post.send()], approvals=("send",)
    ) as rig:
        await rig.run(asked)
        (ask,) = (await rig.journal(asked.run_id)).waiting
        await rig.decide(asked, "cancel")

        plan = await plan_of(rig, asked)

        await rig.decide(asked, "resume")
        report = await rig.run(asked)
        assert report.state is RunState.WAITING_APPROVAL
        assert plan.run == (PlannedStep(path=ask.path, seq=ask.seq, kind="approval", name="send"),)
        assert (await rig.journal(asked.run_id)).waiting == (ask,)
    assert not post.sent


async def test_run_that_failed_between_an_approval_and_its_call_is_planned_to_call_without_asking(
    postgres_server: PostgresEndpoint,
) -> None:
    post, asked = Post(), request()
    model = ScriptedTurns(letters("ann", "bob"))
    async with runner_rig(
        postgres_server.superuser_url, model=model, tools=[post.send()], approvals=("send",)
    ) as rig:
        await rig.run(asked)
        asks = (await rig.journal(asked.run_id)).waiting
        allow = [Decision(path=ask.path, seq=ask.seq, choice="approve") for ask in asks]
        await rig.decide(asked, "approve", *allow)
        await gives_up(rig, asked)

        plan = await resumes_as_planned(rig, asked, says("done"))

    assert [(step.kind, step.seq) for step in plan.run] == [("tool", 2), ("tool", 3)]
    assert post.sent == {"ann": 1, "bob": 1}


async def test_dry_run_changes_nothing(postgres_server: PostgresEndpoint) -> None:
    asked = request()
    model = ScriptedTurns(letters("ann"), ModelRefused("no such model"))
    async with runner_rig(postgres_server.superuser_url, model=model, tools=[Post().send()]) as rig:
        report = await rig.run(asked)
        journal = await rig.journal(asked.run_id)

        assert await plan_of(rig, asked) == await plan_of(rig, asked)

        assert await rig.report(asked.run_id) == report
        assert await rig.journal(asked.run_id) == journal


async def refusal(rig: Rig, asked: RunRequested) -> str:
    with pytest.raises(Conflict) as refused:
        await plan_of(rig, asked)
    assert refused.value.status == 409
    return refused.value.message


async def test_run_that_succeeded_cannot_be_resumed(postgres_server: PostgresEndpoint) -> None:
    asked = request()
    async with runner_rig(postgres_server.superuser_url, model=ScriptedTurns(says("done"))) as rig:
        await rig.run(asked)

        assert "only a run that failed or was cancelled" in await refusal(rig, asked)


async def test_run_in_hand_or_not_begun_cannot_be_resumed(postgres_server: PostgresEndpoint) -> None:
    running, refused = request(), request()
    async with runner_rig(postgres_server.superuser_url) as rig:
        await rig.take(running)
        async with rig.stored.database.transaction() as tx:
            await runs.record(tx.connection, refused)
        await rig.decide(refused, "refuse")

        assert "this one is running" in await refusal(rig, running)
        assert "this one is refused" in await refusal(rig, refused)


async def test_run_that_waits_cannot_be_resumed_and_the_refusal_says_where_to_look(
    postgres_server: PostgresEndpoint,
) -> None:
    asked = request()
    model = ScriptedTurns(letters("ann"))
    async with runner_rig(
        postgres_server.superuser_url, model=model, tools=[Post().send()], approvals=("send",)
    ) as rig:
        await rig.run(asked)

        assert f"/v1/runs/{asked.run_id}/waiting" in await refusal(rig, asked)


async def test_run_that_met_a_ceiling_cannot_be_resumed(postgres_server: PostgresEndpoint) -> None:
    asked = request()
    one_call = RunLimits(model_calls=1, tokens=1_000, seconds=900)
    model = ScriptedTurns(letters("ann"))
    async with runner_rig(
        postgres_server.superuser_url, model=model, tools=[Post().send()], limits=one_call
    ) as rig:
        assert (await rig.run(asked)).error_code == "limit_reached"

        assert "the run made 1 model calls, and may make 1" in await refusal(rig, asked)


async def test_journal_of_another_version_cannot_be_gone_on_with(postgres_server: PostgresEndpoint) -> None:
    asked = request()
    model = ScriptedTurns(ModelRefused("no such model"), says("done"))
    async with runner_rig(postgres_server.superuser_url, model=model) as rig:
        await rig.run(asked)
        await rig.sql("UPDATE runs SET journal_version = 0")

        sentence = await refusal(rig, asked)
        await rig.decide(asked, "resume")
        report = await rig.run(asked)

    assert "version 0" in sentence
    assert (report.state, report.error_code) == (RunState.FAILED, "journal_mismatch")
    assert len(model.requests) == 1


async def test_journal_that_does_not_fit_the_agent_cannot_be_gone_on_with(
    postgres_server: PostgresEndpoint,
) -> None:
    post, asked = Post(), request()
    model = ScriptedTurns(letters("ann"), ModelRefused("no such model"), says("done"))
    async with runner_rig(postgres_server.superuser_url, model=model, tools=[post.send()]) as rig:
        await rig.run(asked)
        await rig.sql("UPDATE steps SET call_id = 'call_of_another' WHERE seq = 2")

        with pytest.raises(JournalMismatch, match="replay the run instead"):
            await plan_of(rig, asked)
        await rig.decide(asked, "resume")
        report = await rig.run(asked)

    assert (report.state, report.error_code) == (RunState.FAILED, "journal_mismatch")
    assert (post.sent, len(model.requests)) == ({"ann": 1}, 2)
