"""Whether what a person wrote answers what is asked."""

from typing import Any

import pytest
from pydantic import ValidationError

from headrace.common.errors import Conflict
from headrace.contracts.runs import Decision, RunState
from headrace.gateway.deciding import IT_HAPPENED, DecisionsWanted, Verb, decided
from headrace.gateway.errors import WrongDecision
from tests.unit.gateway.fakes import ask, page, report, step

APPROVALS = page(step(2), step(3), waiting=[ask(2, "approve", "reject"), ask(3, "approve", "reject")])
REVIEW = page(
    step(2, effect_state="confirmed"),
    step(3, effect_state="intent"),
    waiting=[ask(3, "happened", "again", "skip")],
)
RUNNING = report(RunState.RUNNING)
WAITING_APPROVAL = report(RunState.WAITING_APPROVAL)
WAITING_REVIEW = report(RunState.WAITING_REVIEW)


def one(seq: int, choice: str, **more: str) -> DecisionsWanted:
    return DecisionsWanted.model_validate(
        {"decisions": [{"path": "root", "seq": seq, "choice": choice, **more}]}
    )


def for_all(choice: str, **more: str) -> DecisionsWanted:
    return DecisionsWanted.model_validate({"all": choice, **more})


def test_one_of_several_calls_is_approved() -> None:
    made = decided("approve", one(3, "approve", note="fine"), WAITING_APPROVAL, APPROVALS)

    assert made == (Decision(path="root", seq=3, choice="approve", note="fine"),)


def test_one_word_decides_everything_that_is_asked() -> None:
    made = decided("approve", for_all("reject", note="not today"), WAITING_APPROVAL, APPROVALS)

    assert made == tuple(Decision(path="root", seq=n, choice="reject", note="not today") for n in (2, 3))


def test_common_note_is_for_decisions_without_their_own() -> None:
    wanted = DecisionsWanted.model_validate(
        {
            "decisions": [
                {"path": "root", "seq": 2, "choice": "approve", "note": "mine"},
                {"path": "root", "seq": 3, "choice": "approve"},
            ],
            "note": "common",
        }
    )

    made = decided("approve", wanted, WAITING_APPROVAL, APPROVALS)

    assert [each.note for each in made] == ["mine", "common"]


def test_what_happened_needs_no_result() -> None:
    [made] = decided("resolve", one(3, "happened"), WAITING_REVIEW, REVIEW)

    assert made.result == IT_HAPPENED


def test_result_of_what_happened_is_kept() -> None:
    [made] = decided("resolve", one(3, "happened", result="sent as 7"), WAITING_REVIEW, REVIEW)

    assert made.result == "sent as 7"


@pytest.mark.parametrize("state", list(RunState))
def test_what_happened_can_be_called_undone_in_any_state(state: RunState) -> None:
    [made] = decided("resolve", one(2, "undone"), report(state), REVIEW)

    assert (made.seq, made.choice, made.result) == (2, "undone", "")


@pytest.mark.parametrize("state", [state for state in RunState if not state.is_waiting])
def test_run_that_does_not_wait_says_in_which_state_it_is(state: RunState) -> None:
    with pytest.raises(Conflict, match=f"run_1 does not wait for a decision; it is {state}"):
        decided("approve", one(2, "approve"), report(state), APPROVALS)


def test_run_that_waits_for_nothing_any_more_says_so() -> None:
    with pytest.raises(Conflict, match="nothing is asked any more"):
        decided("approve", for_all("approve"), WAITING_APPROVAL, page())


@pytest.mark.parametrize(
    ("verb", "wanted", "sentence"),
    [
        ("approve", one(9, "approve"), "root/9: nothing is asked about it"),
        ("approve", one(3, "happened"), "/approve takes approve or reject, not happened; use /resolve"),
        ("resolve", one(3, "approve"), "/resolve takes happened or again or skip or undone, not approve"),
        ("resolve", for_all("approve"), "use /approve"),
        ("resolve", one(3, "again", result="x"), "a result goes with `happened`"),
        ("resolve", one(3, "undone"), "nothing is known to have happened there"),
        ("resolve", one(9, "undone"), "nothing is known to have happened there"),
        ("resolve", one(2, "skip"), "root/2: nothing is asked about it"),
    ],
)
def test_decision_that_does_not_fit_is_refused(verb: Verb, wanted: DecisionsWanted, sentence: str) -> None:
    with pytest.raises(WrongDecision, match=sentence):
        decided(verb, wanted, WAITING_REVIEW, REVIEW)


def test_choice_that_a_step_does_not_take_is_refused() -> None:
    with pytest.raises(WrongDecision, match=r"root/3 \(send_email\) takes happened or again or skip"):
        decided("approve", one(3, "approve"), WAITING_REVIEW, REVIEW)


def test_two_decisions_about_one_step_are_refused() -> None:
    twice = {"path": "root", "seq": 2, "choice": "approve"}
    wanted = DecisionsWanted.model_validate({"decisions": [twice, {**twice, "choice": "reject"}]})

    with pytest.raises(WrongDecision, match="2 decisions about step root/2"):
        decided("approve", wanted, WAITING_APPROVAL, APPROVALS)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"decisions": []},
        {"all": "approve", "decisions": [{"path": "root", "seq": 1, "choice": "approve"}]},
        {"all": "undone"},
        {"decisions": [{"path": "root", "seq": 1, "choice": "maybe"}]},
        {"decisions": [{"path": "root", "seq": 1, "choice": "approve", "reuslt": "x"}]},
        {"decisions": [{"path": "root", "seq": 1, "choice": "approve", "note": "a\0b"}]},
    ],
)
def test_words_that_make_no_sense_are_refused(body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        DecisionsWanted.model_validate(body)
