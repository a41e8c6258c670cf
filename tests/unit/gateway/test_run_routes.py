"""`/v1/runs`: a run is asked for once, and shown with its whole journal."""

import asyncio

import pytest

from headrace.common.errors import NotFound, Unavailable
from headrace.contracts.journal import DecisionReport, JournalPage, ReadJournal
from headrace.contracts.run_questions import FindRun
from headrace.contracts.runs import RunRequested, RunState
from tests.unit.gateway.desk import Desk
from tests.unit.gateway.fakes import NOW, ask, page, report, step

WANTED = {"agent": "clerk", "input": "hi"}


async def test_run_is_shown_with_its_whole_journal(desk: Desk) -> None:
    decision = DecisionReport(path="root", seq=2, choice="approve", note="", by="desk", decided_at=NOW)
    pages = {
        0: JournalPage(
            steps=(step(1), step(2)), decisions=(decision,), waiting=(ask(5, "approve"),), more=True
        ),
        2: page(step(3), step(4), more=True),
        4: page(step(5, effect_state="confirmed")),
    }
    desk.rpc.answers = {
        FindRun: report(RunState.WAITING_APPROVAL),
        ReadJournal: lambda question: pages[question.skip],
    }

    told = (await desk.http.get("/v1/runs/run_1")).json()

    assert (told["state"], [each["seq"] for each in told["steps"]]) == ("waiting_approval", [1, 2, 3, 4, 5])
    assert told["steps"][4]["effect"]["state"] == "confirmed"
    assert ([each["by"] for each in told["decisions"]], [each["seq"] for each in told["waiting"]]) == (
        ["desk"],
        [5],
    )


async def test_step_that_moved_between_two_pages_is_shown_once(desk: Desk) -> None:
    pages = {0: page(step(1), step(2), more=True), 2: page(step(2), step(3))}
    desk.rpc.answers = {
        FindRun: report(RunState.RUNNING),
        ReadJournal: lambda question: pages[question.skip],
    }

    told = (await desk.http.get("/v1/runs/run_1")).json()

    assert [each["seq"] for each in told["steps"]] == [1, 2, 3]


async def test_pages_that_promise_more_and_bring_nothing_come_to_an_end(desk: Desk) -> None:
    desk.rpc.answers = {FindRun: report(RunState.RUNNING), ReadJournal: page(more=True)}

    assert (await desk.http.get("/v1/runs/run_1")).json()["steps"] == []


async def test_report_alone_costs_one_question(desk: Desk) -> None:
    desk.rpc.answers = {FindRun: report(RunState.RUNNING)}

    told = (await desk.http.get("/v1/runs/run_1?journal=false")).json()

    assert (told["state"], "steps" in told) == ("running", False)
    assert desk.rpc.questions(ReadJournal) == []


async def test_run_that_the_runner_does_not_know_yet_has_an_empty_journal(desk: Desk) -> None:
    run = (await desk.http.post("/v1/runs", json=WANTED)).json()

    told = (await desk.http.get(run["url"])).json()

    assert (told["state"], told["steps"], told["waiting"]) == ("requested", [], [])


@pytest.mark.parametrize(
    ("error", "status"), [(NotFound("there is none"), 404), (Unavailable("the runner is away"), 503)]
)
async def test_run_that_cannot_be_shown_is_a_problem(desk: Desk, error: Exception, status: int) -> None:
    desk.rpc.answers = {FindRun: error}  # type: ignore[dict-item]  # parametrized as its base

    assert (await desk.http.get("/v1/runs/run_1")).status_code == status


@pytest.mark.parametrize("bad", ["x", "-1", "1.5", "9" * 5_000, "²"])
async def test_last_event_id_that_is_no_number_is_refused(desk: Desk, bad: str) -> None:
    desk.rpc.answers = {FindRun: report(RunState.RUNNING)}

    answer = await desk.http.get("/v1/runs/run_1/events", headers={b"Last-Event-ID": bad.encode("latin-1")})

    assert answer.status_code == 400


async def test_st_15_same_key_is_the_running_run_and_one_request(desk: Desk) -> None:
    headers = {"Idempotency-Key": "order-7"}
    answers = await asyncio.gather(
        *(desk.http.post("/v1/runs", json=WANTED, headers=headers) for _ in range(8))
    )
    desk.rpc.answers = {FindRun: report(RunState.RUNNING)}
    late = await desk.http.post("/v1/runs", json=WANTED, headers=headers)

    [request] = await desk.stored.outbox(RunRequested)
    assert {answer.status_code for answer in (*answers, late)} == {202}
    assert {answer.json()["run_id"] for answer in (*answers, late)} == {request.run_id}
