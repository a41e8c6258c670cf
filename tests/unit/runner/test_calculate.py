"""The calculator: numbers in, a number out, and a sentence for anything else."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.runner.tools.calculate import MAX_LENGTH, MAX_MAGNITUDE, calculate, evaluate
from headrace.tools import Done, ToolContext, ToolError, perform


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 2", 3),
        ("2 - 5", -3),
        ("6 * 7", 42),
        ("7 / 2", 3.5),
        ("7 // 2", 3),
        ("7 % 4", 3),
        ("2 ** 10", 1024),
        ("2 ** -1", 0.5),
        ("-(2 + 3) * 4", -20),
        ("+1", 1),
        ("2 + 3 * 4", 14),
        (" 1 ", 1),
        ("1_000 + 0x10", 1016),
        ("1000 ** 100", 10**300),
    ],
)
def test_value(expression: str, value: float) -> None:
    assert evaluate(expression) == value


@pytest.mark.parametrize(
    "expression",
    ["x", "abs(1)", "(1).real", "[1]", "'a'", "1j", "True", "not 1", "1 < 2", "1 if 1 else 2", "1 & 2"],
)
def test_what_is_not_arithmetic_is_refused(expression: str) -> None:
    with pytest.raises(ToolError, match="only numbers, parentheses"):
        evaluate(expression)


@pytest.mark.parametrize("expression", ["", "1 +", "1; 2", "x = 1", "1\0", "(" * 300])
def test_what_cannot_be_read_is_refused(expression: str) -> None:
    with pytest.raises(ToolError, match="not an arithmetic expression"):
        evaluate(expression)


@pytest.mark.parametrize("expression", ["2 ** 1001", "1001 ** 2", "2 ** -1001", "9 ** 9 ** 9"])
def test_huge_power_is_refused_before_it_is_computed(expression: str) -> None:
    with pytest.raises(ToolError, match="powers are taken up to 1000"):
        evaluate(expression)


@pytest.mark.parametrize(
    "expression", ["1000 ** 101", "1e300 * 2", "1e999", "1e999 - 1e999", "9" * 400, "(-8) ** 0.5"]
)
def test_value_of_no_ordinary_size_is_refused(expression: str) -> None:
    with pytest.raises(ToolError, match="not a number of ordinary size"):
        evaluate(expression)


@pytest.mark.parametrize("expression", ["1 / 0", "1 // 0", "1 % 0", "0 ** -1"])
def test_division_by_zero_has_no_value(expression: str) -> None:
    with pytest.raises(ToolError, match="has no value"):
        evaluate(expression)


def test_longest_expression_is_computed() -> None:
    assert evaluate("1+" * (MAX_LENGTH // 2 - 1) + "10") == MAX_LENGTH // 2 + 9


def test_longer_expression_is_refused() -> None:
    with pytest.raises(ToolError, match="longer than 500 characters"):
        evaluate("1" * (MAX_LENGTH + 1))


PIECES = st.sampled_from([*"0123456789.()+-*/% ejx_\0", "**", "//", "1e308", "1e999", "nan", "(-8)**.5"])


@given(st.lists(PIECES, max_size=20).map("".join) | st.text(max_size=30))
def test_anything_gives_an_ordinary_number_or_a_tool_error(expression: str) -> None:
    try:
        value = evaluate(expression)
    except ToolError:
        return

    assert type(value) in (int, float)
    assert math.isfinite(value)
    assert abs(value) <= MAX_MAGNITUDE


async def test_tool_answers_with_text() -> None:
    context = ToolContext(
        account_id="acc_1",
        agent_id="agent_1",
        run_id="r-1",
        session_id=None,
        door="api",
        trigger="r-1",
        call="root/2",
    )

    assert await perform(calculate, calculate.read({"expression": "1 / 4"}), context) == Done("0.25")


@pytest.mark.parametrize("arguments", [{}, {"expression": 1}, {"expression": ["1"]}, {"other": "1"}])
def test_tool_asks_for_an_expression(arguments: dict[str, object]) -> None:
    with pytest.raises(ToolError, match="expression"):
        calculate.read(arguments)


def test_blank_is_no_expression() -> None:
    with pytest.raises(ToolError, match="not an arithmetic expression"):
        evaluate(" ")
