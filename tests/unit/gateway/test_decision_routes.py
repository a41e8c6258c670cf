"""`/v1/runs/{id}/waiting`, `/approve` and `/resolve`: asked of the runner, said to it once."""

import httpx
import pytest

from headrace.contracts.journal import ReadJournal
from headrace.contracts.run_questions import FindRun
from headrace.contracts.runs import Decision, RunControl, RunState
from tests.unit.gateway.desk import KEY, Desk
from tests.unit.gateway.fakes import ToldRpc, ask, page, report, step


@pytest.fixture
def rpc() -> ToldRpc:
    return ToldRpc(
        {
            FindRun: report(RunState.WAITING_APPROVAL),
            ReadJournal: page(step(2), waiting=[ask(2, "approve", "reject")]),
        }
    )


async def post(desk: Desk, verb: str, body: object, key: str | None = None) -> httpx.Response:
    headers = {} if key is None else {"Idempotency-Key": key}
    return await desk.http.post(f"/v1/runs/run_1/{verb}", json=body, headers=headers)


async def test_person_sees_what_is_asked(desk: Desk) -> None:
    answer = await desk.http.get("/v1/runs/run_1/waiting")

    [asked] = answer.json()
    assert (asked["seq"], asked["tool"], asked["choices"]) == (2, "send_email", ["approve", "reject"])


async def test_nothing_is_asked_about_a_run_that_does_not_wait(desk: Desk) -> None:
    desk.rpc.answers[ReadJournal] = page()

    assert (await desk.http.get("/v1/runs/run_1/waiting")).json() == []


async def test_unknown_run_has_nothing_to_decide(desk: Desk) -> None:
    desk.rpc.answers = {}

    answers = [
        await desk.http.get("/v1/runs/run_1/waiting"),
        await post(desk, "approve", {"all": "approve"}),
    ]

    assert [answer.status_code for answer in answers] == [404, 404]


async def test_approval_is_a_command_that_says_who_gave_it(desk: Desk, by: str) -> None:
    answer = await post(desk, "approve", {"all": "approve", "note": "go"})

    [command] = await desk.stored.outbox(RunControl)
    assert (answer.status_code, answer.json()["state"]) == (202, "waiting_approval")
    assert (command.verb, command.run_id, command.account_id) == ("approve", "run_1", "acc_1")
    assert command.decisions == (Decision(path="root", seq=2, choice="approve", note="go"),)
    assert command.by == by
    assert KEY not in command.model_dump_json()


async def test_resolution_of_a_review_is_a_command(desk: Desk) -> None:
    desk.rpc.answers[FindRun] = report(RunState.WAITING_REVIEW)
    desk.rpc.answers[ReadJournal] = page(step(2), waiting=[ask(2, "happened", "again", "skip")])

    answer = await post(desk, "resolve", {"decisions": [{"path": "root", "seq": 2, "choice": "skip"}]})

    [command] = await desk.stored.outbox(RunControl)
    assert (answer.status_code, command.verb) == (202, "resolve")


async def test_step_on_a_later_page_can_be_called_undone(desk: Desk) -> None:
    pages = {0: page(step(1), more=True), 1: page(step(2, effect_state="confirmed"))}
    desk.rpc.answers[FindRun] = report(RunState.SUCCEEDED)
    desk.rpc.answers[ReadJournal] = lambda question: pages[question.skip]

    answer = await post(desk, "resolve", {"decisions": [{"path": "root", "seq": 2, "choice": "undone"}]})

    assert answer.status_code == 202, answer.text


@pytest.mark.parametrize(
    ("state", "body", "status", "sentence"),
    [
        (RunState.RUNNING, {"all": "approve"}, 409, "it is running"),
        (RunState.SUCCEEDED, {"all": "approve"}, 409, "it is succeeded"),
        (RunState.WAITING_APPROVAL, {"all": "skip"}, 422, "use /resolve"),
        (
            RunState.WAITING_APPROVAL,
            {"decisions": [{"path": "root", "seq": 7, "choice": "approve"}]},
            422,
            "nothing is asked about it",
        ),
        (RunState.WAITING_APPROVAL, {}, 422, "either `decisions`, at least one, or `all`"),
    ],
)
async def test_refused_decision_says_why_and_sends_nothing(
    desk: Desk, state: RunState, body: object, status: int, sentence: str
) -> None:
    desk.rpc.answers[FindRun] = report(state)

    answer = await post(desk, "approve", body)

    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert sentence in answer.json()["detail"]
    assert await desk.stored.outbox(RunControl) == []


async def test_same_key_is_the_same_command_although_the_run_went_on(desk: Desk) -> None:
    first = await post(desk, "approve", {"all": "approve"}, key="k")
    desk.rpc.answers[FindRun] = report(RunState.RUNNING)
    again = await post(desk, "approve", {"all": "approve"}, key="k")

    assert (first.status_code, again.status_code, again.json()["state"]) == (202, 202, "running")
    assert len(await desk.stored.outbox(RunControl)) == 1


@pytest.mark.parametrize(("verb", "body"), [("approve", {"all": "reject"}), ("resolve", {"all": "skip"})])
async def test_same_key_with_another_decision_is_refused(desk: Desk, verb: str, body: object) -> None:
    await post(desk, "approve", {"all": "approve"}, key="k")

    other = await post(desk, verb, body, key="k")

    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    assert len(await desk.stored.outbox(RunControl)) == 1


async def test_same_key_of_another_account_is_another_command(desk: Desk) -> None:
    await post(desk, "approve", {"all": "approve"}, key="k")

    headers = {"Idempotency-Key": "k", "Authorization": "Bearer hr_other"}
    other = await desk.http.post("/v1/runs/run_1/approve", json={"all": "approve"}, headers=headers)

    commands = await desk.stored.outbox(RunControl)
    assert (other.status_code, len({command.command_id for command in commands})) == (202, 2)
    assert desk.rpc.questions(FindRun)[-1] == FindRun(account_id="acc_2", run_id="run_1")


async def test_cancel_says_who_wanted_it(desk: Desk, by: str) -> None:
    await desk.http.post("/v1/runs/run_1/cancel")

    [command] = await desk.stored.outbox(RunControl)
    assert (command.verb, command.by) == ("cancel", by)
