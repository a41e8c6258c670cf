"""A calculator over a closed grammar: numbers and arithmetic, never names, calls or attributes."""

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from headrace.tools import ToolError, tool

MAX_LENGTH = 500
MAX_EXPONENT = 1_000
MAX_MAGNITUDE = 1e300

_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}


@tool(effect="none")
async def calculate(expression: str) -> str:
    """Evaluate an arithmetic expression with + - * / // % ** and parentheses.

    Args:
        expression: Such as (2 + 3) * 4
    """
    return str(evaluate(expression))


def evaluate(expression: str) -> int | float:
    """Compute an expression.

    Raises:
        ToolError: It is not arithmetic, too large, or has no value.
    """
    if len(expression) > MAX_LENGTH:
        raise ToolError(f"the expression is longer than {MAX_LENGTH} characters")
    try:
        return _value(ast.parse(expression.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ToolError("that is not an arithmetic expression") from error
    except (ZeroDivisionError, OverflowError, TypeError) as error:
        raise ToolError(f"the expression has no value: {error}") from error


def _value(node: ast.expr) -> int | float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            result: Any = number
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            result = _UNARY[type(op)](_value(operand))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            a, b = _value(left), _value(right)
            if isinstance(op, ast.Pow) and (abs(b) > MAX_EXPONENT or abs(a) > MAX_EXPONENT):
                raise ToolError(f"powers are taken up to {MAX_EXPONENT}")
            result = _BINARY[type(op)](a, b)
        case _:
            raise ToolError("only numbers, parentheses and + - * / // % ** are understood")
    if isinstance(result, complex) or not abs(result) <= MAX_MAGNITUDE:  # NaN is not, either
        raise ToolError("the value is not a number of ordinary size")
    return result  # type: ignore[no-any-return]  # complex was refused above
