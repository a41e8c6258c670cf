"""Whatever stands in a session's rows, what a model is given of it is a conversation."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.runner.history import LOST_RESULT, repaired
from tests.unit.runner.conversation import faults

IDS = st.sampled_from(["a", "b", "c", ""])
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
CONTENT = st.text(max_size=3)


def call(call_id: str, name: str = "look", arguments: str = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def asks(*ids: str, content: str | None = None) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": [call(each) for each in ids]}


def result(call_id: str, content: str = "found") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


HELLO = {"role": "user", "content": "hello"}
HI = {"role": "assistant", "content": "hi"}

CALLS = st.builds(
    call, IDS, st.sampled_from(["look", "no such!", ""]), st.sampled_from(["{}", "{", "[1]", "", "1" * 5_000])
)
BODIES = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "assistant", "tool", "tool", "developer"])},
    optional={
        "content": CONTENT | ANYTHING,
        "tool_calls": st.lists(CALLS | ANYTHING, max_size=3) | ANYTHING,
        "tool_call_id": IDS | ANYTHING,
        "name": ANYTHING,
    },
)
GOOD = st.one_of(
    st.builds(lambda said: {"role": "user", "content": said}, CONTENT),
    st.builds(asks, st.just("a"), st.sampled_from(["b", "c"])),
    st.builds(result, st.sampled_from(["a", "b", "c"]), CONTENT),
)
ROWS = st.lists(BODIES | GOOD | ANYTHING, max_size=8)


@st.composite
def conversations(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Whole turns, as runs leave them."""
    said: list[dict[str, Any]] = []
    for _ in range(draw(st.integers(0, 3))):
        said.append({"role": "user", "content": draw(CONTENT)})
        for _ in range(draw(st.integers(0, 2))):
            ids = draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True))
            said += [asks(*ids), *(result(each, draw(CONTENT)) for each in ids)]
        said.append({"role": "assistant", "content": draw(st.text(min_size=1, max_size=3))})
    return said


@given(ROWS)
def test_se_3_whatever_is_stored_a_conversation_comes_out(stored: list[Any]) -> None:
    assert faults(repaired(stored)) == []


@given(conversations(), ROWS)
def test_se_3_turns_that_come_after_the_damage_are_read_as_they_are(
    whole: list[dict[str, Any]], damaged: list[Any]
) -> None:
    assert repaired([*damaged, HELLO, *whole])[-1 - len(whole) :] == [HELLO, *whole]


@given(ROWS)
def test_what_was_repaired_needs_no_repair(stored: list[Any]) -> None:
    once = repaired(stored)

    assert repaired(once) == once


@pytest.mark.parametrize(
    ("stored", "read"),
    [
        ([HELLO, asks("a"), HELLO], [HELLO, asks("a"), result("a", LOST_RESULT), HELLO]),
        ([asks("a", "b"), result("b")], [asks("a", "b"), result("a", LOST_RESULT), result("b")]),
        ([asks("a", "b"), result("b"), result("a")], [asks("a", "b"), result("a"), result("b")]),
        ([asks("a"), result("a", "1"), result("a", "2")], [asks("a"), result("a", "1")]),
        ([HELLO, result("a"), HI], [HELLO, HI]),
        ([asks("a"), "damage", result("a")], [asks("a"), result("a")]),
        ([asks("a"), HELLO, result("a")], [asks("a"), result("a", LOST_RESULT), HELLO]),
        ([{"role": "assistant", "content": None}, {"role": "user"}, {"role": "tool"}, HI], [HI]),
        ([{**HI, "tool_calls": []}], [HI]),
        ([{**HELLO, "tool_calls": [call("a")]}], [HELLO]),
        ([asks("a", "a"), result("a"), HI], [HI]),
        ([{**asks("a"), "tool_calls": [call("a", arguments="{")]}, result("a"), HI], [HI]),
    ],
    ids=[
        "no result",
        "one result of two",
        "order of the results",
        "two results",
        "no call",
        "damage between",
        "result too late",
        "nothing said",
        "no calls",
        "user's call",
        "one id twice",
        "arguments cut",
    ],
)
def test_repair(stored: list[Any], read: list[Any]) -> None:
    assert repaired(stored) == read
