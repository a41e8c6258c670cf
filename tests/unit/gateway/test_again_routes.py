"""`/v1/runs/{id}/resume` and `/replay`: planned by the runner, and then asked for once."""

from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from headrace.common.errors import Conflict, NotFound
from headrace.common.files import FileGone, Files
from headrace.contracts.journal import PlannedStep, PlanReplay, PlanResume, ReplayPlan, ResumePlan
from headrace.contracts.run_questions import FindRun
from headrace.contracts.runs import ChatMessage, Door, InputFile, Lane, RunControl, RunRequested, RunState
from headrace.gateway.planning import Planner
from tests.unit.gateway.desk import Desk
from tests.unit.gateway.fakes import NOW, ToldRpc, report

PLAN = ResumePlan(
    reused=(PlannedStep(path="root", seq=1, kind="model", name="m"),), run=(), estimated_input_tokens=7
)
ORIGINAL = RunRequested(
    run_id="run_1",
    door=Door.WEBHOOK,
    lane=Lane.BACKGROUND,
    account_id="acc_1",
    agent_id="agent_1",
    agent_revision=3,
    session_id="s",
    trigger="evt_1",
    input=(ChatMessage(role="user", content="hi"),),
    files=(InputFile(sha256="0" * 64, name="a.txt", size=1),),
    requested_at=NOW,
    replay_of="run_0",
    origin="run_0",
    forced_by="somebody",
)
ALLOWED = ReplayPlan(request=ORIGINAL, allowed=True)
DOUBTFUL = ReplayPlan(request=ORIGINAL, allowed=False, why="it may pay twice", tools=("pay", "post"))


@pytest.fixture
def rpc() -> ToldRpc:
    return ToldRpc({FindRun: report(RunState.FAILED), PlanResume: PLAN, PlanReplay: ALLOWED})


async def post(desk: Desk, path: str, key: str | None = None) -> httpx.Response:
    headers = {} if key is None else {"Idempotency-Key": key}
    return await desk.http.post(f"/v1/runs/run_1/{path}", headers=headers)


async def test_dry_run_answers_the_plan_and_changes_nothing(desk: Desk) -> None:
    answer = await post(desk, "resume?dry_run=true")

    assert (answer.status_code, ResumePlan.model_validate(answer.json())) == (200, PLAN)
    assert await desk.stored.outbox(RunControl) == []


async def test_resume_is_a_command_that_says_who_gave_it(desk: Desk, by: str) -> None:
    answer = await post(desk, "resume")

    [command] = await desk.stored.outbox(RunControl)
    assert (answer.status_code, answer.json()["run_id"]) == (202, "run_1")
    assert (command.verb, command.by, command.decisions) == ("resume", by, ())


@pytest.mark.parametrize("query", ["", "?dry_run=true"])
async def test_resume_that_the_runner_refuses_is_refused_with_its_sentence(desk: Desk, query: str) -> None:
    desk.rpc.answers[PlanResume] = Conflict("run run_1 succeeded; there is nothing to resume")

    answer = await post(desk, f"resume{query}")

    assert (answer.status_code, answer.json()["detail"]) == (
        409,
        "run run_1 succeeded; there is nothing to resume",
    )
    assert await desk.stored.outbox(RunControl) == []


@pytest.mark.parametrize("what", ["resume", "replay"])
async def test_run_that_was_only_just_asked_for_cannot_be_made_again(desk: Desk, what: str) -> None:
    run = (await desk.http.post("/v1/runs", json={"agent": "clerk", "input": "hi"})).json()
    desk.rpc.answers = {}

    answer = await desk.http.post(f"/v1/runs/{run['run_id']}/{what}")

    assert (answer.status_code, answer.json()["detail"]) == (
        409,
        f"run {run['run_id']} is requested; there is nothing to {what} yet",
    )


@pytest.mark.parametrize("what", ["resume", "resume?dry_run=true", "replay"])
async def test_unknown_run_cannot_be_made_again(desk: Desk, what: str) -> None:
    desk.rpc.answers = {}

    assert (await post(desk, what)).status_code == 404


async def test_same_key_resumes_once_although_the_run_went_on(desk: Desk) -> None:
    first = await post(desk, "resume", key="k")
    desk.rpc.answers[PlanResume] = Conflict("run run_1 is running")
    again = await post(desk, "resume", key="k")

    assert (first.status_code, again.status_code) == (202, 202)
    assert len(await desk.stored.outbox(RunControl)) == 1


async def test_replay_is_a_new_run_with_the_old_input_in_a_fresh_session(desk: Desk) -> None:
    answer = await post(desk, "replay")

    [request] = await desk.stored.outbox(RunRequested)
    assert (answer.status_code, answer.json()["replay_of"]) == (202, "run_1")
    assert answer.headers["location"] == f"/v1/runs/{request.run_id}"
    assert request == RunRequested(
        run_id=answer.json()["run_id"],
        door=Door.API,
        lane=Lane.INTERACTIVE,
        account_id="acc_1",
        agent_id="agent_1",
        agent_revision=3,
        session_id=None,
        trigger="evt_1",
        input=ORIGINAL.input,
        files=ORIGINAL.files,
        requested_at=desk.stored.clock.now(),
        replay_of="run_1",
        origin="run_0",
        forced_by=None,
    )


async def test_replay_can_be_looked_at_before_the_runner_knows_it(desk: Desk) -> None:
    replay = (await post(desk, "replay")).json()
    desk.rpc.answers[FindRun] = NotFound("not yet")

    answer = await desk.http.get(f"{replay['url']}?journal=false")

    assert (answer.status_code, answer.json()["state"]) == (200, "requested")


async def test_replay_that_might_act_twice_is_refused_with_the_tools(desk: Desk) -> None:
    desk.rpc.answers[PlanReplay] = DOUBTFUL

    answer = await post(desk, "replay")

    told = answer.json()
    assert (answer.status_code, told["code"], told["detail"]) == (409, "replay_refused", "it may pay twice")
    assert told["tools"] == ["pay", "post"]
    assert await desk.stored.outbox(RunRequested) == []


@pytest.mark.parametrize("plan", [DOUBTFUL, ALLOWED])
async def test_forced_replay_says_who_forced_it(desk: Desk, by: str, plan: ReplayPlan) -> None:
    desk.rpc.answers[PlanReplay] = plan

    answer = await post(desk, "replay?force=true")

    [request] = await desk.stored.outbox(RunRequested)
    assert (answer.status_code, request.forced_by) == (202, by)


async def test_force_does_not_help_where_nobody_can_allow_it(desk: Desk) -> None:
    desk.rpc.answers[PlanReplay] = Conflict("run run_1 is running")

    assert (await post(desk, "replay?force=true")).status_code == 409


async def test_same_key_is_the_same_replay(desk: Desk) -> None:
    first = await post(desk, "replay", key="k")
    desk.rpc.answers[PlanReplay] = Conflict("whatever became of it")
    again = await post(desk, "replay", key="k")

    assert (again.status_code, again.json()) == (202, first.json())
    assert len(await desk.stored.outbox(RunRequested)) == 1


async def test_key_of_a_run_is_not_the_key_of_a_replay(desk: Desk) -> None:
    body = {"agent": "clerk", "input": "hi"}
    await desk.http.post("/v1/runs", json=body, headers={"Idempotency-Key": "k"})

    answer = await post(desk, "replay", key="k")

    assert (answer.status_code, answer.json()["code"]) == (422, "idempotency_key_reused")


async def test_replay_of_a_run_whose_agent_was_deleted_is_gone_and_says_whose(desk: Desk) -> None:
    assert (await desk.http.delete("/v1/agents/clerk")).status_code == 204

    answers = [await post(desk, f"replay{query}") for query in ("", "?force=true")]

    sentence = "agent 'agent_1' of run run_1 was deleted; ask another agent with a new run"
    told = [(answer.status_code, answer.json()["code"], answer.json()["detail"]) for answer in answers]
    assert told == [(410, "agent_gone", sentence)] * 2
    assert await desk.stored.outbox(RunRequested) == []


async def test_replay_that_was_asked_for_before_its_agent_was_deleted_is_still_that_replay(
    desk: Desk,
) -> None:
    first = await post(desk, "replay", key="k")
    await desk.http.delete("/v1/agents/clerk")
    again = await post(desk, "replay", key="k")

    assert (again.status_code, again.json()) == (202, first.json())


@pytest.mark.parametrize("query", ["", "?dry_run=true"])
async def test_resume_of_a_run_whose_agents_revision_is_no_more_is_gone_with_the_runners_sentence(
    desk: Desk, query: str
) -> None:
    desk.rpc.answers[PlanResume] = NotFound("there is no revision 3 of agent 'agent_1'")

    answer = await post(desk, f"resume{query}")

    told = answer.json()
    assert (answer.status_code, told["code"]) == (410, "agent_gone")
    assert told["detail"] == "run run_1 cannot go on: there is no revision 3 of agent 'agent_1'"
    assert await desk.stored.outbox(RunControl) == []


class NothingKept(Files):
    """A store that lost everything."""

    async def expect(self, files: Sequence[InputFile]) -> None:
        raise FileGone(f"no longer stored: {', '.join(file.name for file in files)}")


@pytest.mark.parametrize("plan", [ALLOWED, DOUBTFUL], ids=["allowed", "doubtful"])
async def test_replay_of_a_run_whose_file_is_no_longer_stored_is_gone_whatever_else_is_said(
    plan: ReplayPlan,
) -> None:
    no_doors: Any = None
    rpc = ToldRpc({PlanReplay: plan})

    with pytest.raises(FileGone, match=r"a\.txt") as gone:
        await Planner(no_doors, rpc, NothingKept(no_doors)).replay("acc_1", "run_1")

    assert gone.value.status == 410
