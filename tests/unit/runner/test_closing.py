"""What a run leaves in its session, however it ended: whole turns."""

from dataclasses import replace
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.runs import RunFinished, TokenCount
from headrace.runner.closing import NOT_KNOWN, NOT_MADE, said, usage
from headrace.runner.history import repaired
from headrace.runner.model import ModelTurn, ToolCall
from headrace.runner.steps import ROOT, Place, Step, ToolResult
from tests.support.runner_rig import request
from tests.unit.runner.conversation import faults

FAILED = RunFinished(state="failed", error_code="model_failed", error="the model fell silent")
STATES = ("missing", "intent", "acting", "doubt", "done")


def asked(seq: int, *names: str) -> Step:
    turn = ModelTurn(
        "", tuple(ToolCall(f"call_{n}", name, "{}") for n, name in enumerate(names)), TokenCount(), "m"
    )
    step = Step(place=Place(ROOT, seq), kind="model", name="m")
    return step.done(turn.as_output(), tokens={"input_tokens": 2, "output_tokens": 1})


def answered(seq: int, nth: int, state: str) -> Step | None:
    step = Step(place=Place(ROOT, seq + 1 + nth), kind="tool", name="look", call_id=f"call_{nth}")
    match state:
        case "missing":
            return None
        case "acting":
            return Step(place=step.place, kind="tool", name="send", call_id=step.call_id, effect_key="k")
        case "doubt":
            return step.doubtful("nobody saw")
        case "done":
            return step.done(ToolResult("found").as_output())
        case _:
            return step


def turn(seq: int, *states: str) -> list[Step]:
    steps = [
        asked(seq, *["look"] * len(states)),
        *(answered(seq, n, state) for n, state in enumerate(states)),
    ]
    return [step for step in steps if step is not None]


@st.composite
def journals(draw: st.DrawFn) -> list[Step]:
    """Journals that were broken off anywhere, as crashes leave them."""
    steps: list[Step] = []
    seq = 1
    for _ in range(draw(st.integers(0, 2))):
        made = draw(st.integers(1, 3))
        steps += turn(seq, *["done"] * made)
        seq += 1 + made
    last = draw(st.lists(st.sampled_from(STATES), max_size=3))
    begun = Step(place=Place(ROOT, seq), kind="model", name="m")
    approval = Step(place=Place(ROOT, seq + 1).approval(1), kind="approval", name="look", call_id="call_0")
    return [*steps, *(turn(seq, *last) if last else [begun]), approval]


@given(journals(), st.sampled_from(["failed", "cancelled"]))
def test_se_2_run_that_broke_off_anywhere_leaves_whole_turns(
    steps: list[Step], state: Literal["failed", "cancelled"]
) -> None:
    left = said(request(), steps, RunFinished(state=state, error="it ended"))

    assert faults(left) == []
    assert repaired(left) == left
    assert left[-1] == {"role": "assistant", "content": "[This turn ended without an answer: it ended]"}


@pytest.mark.parametrize(
    ("state", "read"),
    [
        ("missing", NOT_MADE),
        ("intent", NOT_MADE),
        ("acting", NOT_KNOWN),
        ("doubt", NOT_KNOWN),
        ("done", "found"),
    ],
)
def test_se_3_call_of_a_failed_run_has_the_result_that_is_true(state: str, read: str) -> None:
    made: list[dict[str, Any]] = said(request(), turn(1, "done", state), FAILED)

    assert [message["content"] for message in made] == [
        "hi",
        None,
        "found",
        read,
        "[This turn ended without an answer: the model fell silent]",
    ]


def test_tj_7_name_that_no_provider_takes_back_is_left_as_one_that_it_does() -> None:
    left = said(request(), [asked(1, "look up!", "", "x" * 80)], FAILED)

    assert faults(left) == []
    assert [call["function"]["name"] for call in left[1]["tool_calls"]] == ["look_up_", "_", "x" * 64]


def test_usage_is_the_sum_of_the_finished_calls() -> None:
    steps = [*turn(1, "done"), asked(3), Step(place=Place(ROOT, 4), kind="model", name="m")]

    assert usage(steps) == TokenCount(input_tokens=4, output_tokens=2)


DAMAGE = st.sampled_from(
    [{}, {"text": "x"}, {"text": "x", "model": "m", "tool_calls": [["a"]]}, [], "x", 5, {"text": None}]
)


@given(DAMAGE, DAMAGE)
def test_run_whose_journal_was_damaged_still_ends_with_whole_turns(first: Any, second: Any) -> None:
    model, tool, *rest = turn(1, "done", "done")
    steps = [replace(model, output=first), tool, *rest, replace(asked(4), tokens=second)]

    assert faults(said(request(), [*steps, *turn(5, "done")], FAILED)) == []
    assert faults(said(request(), [model, replace(tool, output=second), *rest], FAILED)) == []
    assert usage([model, replace(asked(4), tokens={"input_tokens": "many"})]).input_tokens == 2
