"""One call of an async tool: what is known afterwards, whatever the tool does."""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, NoReturn

import pytest

from headrace.tools import Done, Effect, Failed, Outcome, Tool, ToolContext, ToolError, Unknown, perform

Perform = Callable[..., Awaitable[Outcome]]

EFFECTS: tuple[Effect, ...] = ("none", "unsafe")


def made(function: Callable[..., Any], effect: Effect = "unsafe", **options: Any) -> Tool:
    return Tool(name="t", description="T.", parameters={}, function=function, effect=effect, **options)


@pytest.mark.parametrize("effect", EFFECTS)
async def test_tool_is_given_its_arguments_and_the_context(effect: Effect, context: ToolContext) -> None:
    async def function(a: int, here: ToolContext) -> str:
        return f"{a} {here.call}"

    outcome = await perform(made(function, effect, context_parameter="here"), {"a": 1}, context)

    assert outcome == Done("1 root/4")


async def test_context_variables_are_carried_in_and_none_comes_out(context: ToolContext) -> None:
    trace = ContextVar("trace", default="")
    trace.set("outer")

    async def function() -> str:
        seen = trace.get()
        trace.set("inner")
        return seen

    assert await perform(made(function), {}, context) == Done("outer")
    assert trace.get() == "outer"


@pytest.mark.parametrize("effect", EFFECTS)
async def test_tool_error_says_that_nothing_was_done(effect: Effect, context: ToolContext) -> None:
    async def function() -> NoReturn:
        raise ToolError("no\nsuch \0 mailbox")

    assert await perform(made(function, effect), {}, context) == Failed("no such mailbox")


class Odd(BaseException):
    """Neither an Exception nor known to anyone."""


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("cannot even say it")


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ValueError("a\n  b"), "ValueError: a b"),
        (KeyError("x"), "KeyError: 'x'"),
        (TimeoutError(), "TimeoutError"),
        (ValueError("\ud800"), "ValueError: \ufffd"),
        (ValueError("x" * 10_000_000), "ValueError: " + "x" * 487 + "…"),
        (Odd("odd"), "Odd: odd"),
        (Mute(), "Mute"),
        (SystemExit(3), "SystemExit: 3"),
        (StopIteration("end"), "RuntimeError: coroutine raised StopIteration"),
        (asyncio.CancelledError(), "CancelledError: the tool cancelled itself"),
        (ExceptionGroup("many", [ToolError("no")]), "ExceptionGroup: many (1 sub-exception)"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_any_other_error_leaves_an_effect_unknown(
    error: BaseException, sentence: str, context: ToolContext
) -> None:
    async def function() -> NoReturn:
        raise error

    assert await perform(made(function, "none"), {}, context) == Failed(sentence)
    assert await perform(made(function, "unsafe"), {}, context) == Unknown(sentence)


def test_interrupt_from_the_keyboard_passes(context: ToolContext) -> None:
    async def function() -> NoReturn:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(perform(made(function), {}, context))


async def test_tool_that_hangs_is_given_up(context: ToolContext) -> None:
    async def function() -> None:
        await asyncio.Event().wait()

    late = "the tool `t`: it did not end within 0.01 seconds"

    assert await perform(made(function, "none", timeout=0.01), {}, context) == Failed(late)
    assert await perform(made(function, "unsafe", timeout=0.01), {}, context) == Unknown(
        f"{late}, and may still act"
    )


async def test_tool_that_ignores_its_cancellation_is_left_behind(context: ToolContext) -> None:
    release = asyncio.Event()
    left = asyncio.Event()

    async def function() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        left.set()

    outcome = await perform(made(function, timeout=0.01), {}, context)
    release.set()
    await left.wait()

    assert isinstance(outcome, Unknown)


async def test_cancellation_passes_and_reaches_the_tool(context: ToolContext) -> None:
    began = asyncio.Event()
    cleaned = asyncio.Event()

    async def function() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    call = asyncio.create_task(perform(made(function), {}, context))
    await began.wait()
    call.cancel()

    with pytest.raises(asyncio.CancelledError):
        await call
    assert cleaned.is_set()


async def test_call_that_is_cancelled_before_it_begins_leaves_nothing(context: ToolContext) -> None:
    async def function() -> None:
        raise AssertionError

    call = asyncio.create_task(perform(made(function), {}, context))
    call.cancel()

    with pytest.raises(asyncio.CancelledError):
        await call


async def test_arguments_that_a_function_does_not_take_are_an_error(context: ToolContext) -> None:
    async def function() -> None:
        raise AssertionError

    outcome = await perform(made(function, "none"), {"a": 1}, context)

    assert isinstance(outcome, Failed)
    assert "unexpected keyword argument 'a'" in outcome.sentence
