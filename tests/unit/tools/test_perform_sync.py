"""Synchronous tools: in threads of their own, that may hang without hurting anyone."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, NoReturn

import pytest

from headrace.tools import Done, Effect, Failed, Tool, ToolContext, ToolError, Unknown, perform
from headrace.tools.threads import MAX_THREADS

EFFECTS: tuple[Effect, ...] = ("none", "unsafe")


def made(function: Callable[..., Any], effect: Effect = "unsafe", **options: Any) -> Tool:
    return Tool(name="t", description="T.", parameters={}, function=function, effect=effect, **options)


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """Lets hanging threads end, and waits until they have."""
    event = threading.Event()
    before = set(threading.enumerate())
    yield event
    event.set()
    for thread in set(threading.enumerate()) - before:
        thread.join()


@pytest.mark.parametrize("effect", EFFECTS)
async def test_sync_tool_runs_beside_the_loop_with_its_context(effect: Effect, context: ToolContext) -> None:
    trace = ContextVar("trace", default="")
    trace.set("outer")

    def function(a: int, here: ToolContext) -> list[object]:
        return [a, here.call, trace.get(), threading.current_thread() is threading.main_thread()]

    outcome = await perform(made(function, effect, context_parameter="here"), {"a": 1}, context)

    assert outcome == Done('[1, "root/4", "outer", false]')


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ValueError("bad"), "ValueError: bad"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (StopIteration("end"), "StopIteration: end"),
        (asyncio.CancelledError("x"), "CancelledError: x"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_any_error_leaves_an_effect_unknown(
    error: BaseException, sentence: str, context: ToolContext
) -> None:
    def function() -> NoReturn:
        raise error

    assert await perform(made(function, "none"), {}, context) == Failed(sentence)
    assert await perform(made(function, "unsafe"), {}, context) == Unknown(sentence)


async def test_tool_error_says_that_nothing_was_done(context: ToolContext) -> None:
    def function() -> NoReturn:
        raise ToolError("no such mailbox")

    assert await perform(made(function), {}, context) == Failed("no such mailbox")


async def test_function_that_returns_an_awaitable_is_awaited(context: ToolContext) -> None:
    async def later() -> str:
        return "awaited"

    assert await perform(made(lambda: later()), {}, context) == Done("awaited")  # noqa: PLW0108  (not a coroutine function)


async def test_tool_that_hangs_is_given_up(release: threading.Event, context: ToolContext) -> None:
    late = "the tool `t`: it did not end within 0.01 seconds"

    assert await perform(made(release.wait, "none", timeout=0.01), {}, context) == Failed(late)
    assert await perform(made(release.wait, timeout=0.01), {}, context) == Unknown(
        f"{late}, and may still act"
    )


async def test_cancellation_passes_while_the_thread_hangs(
    release: threading.Event, context: ToolContext
) -> None:
    loop = asyncio.get_running_loop()
    began = asyncio.Event()

    def function() -> None:
        loop.call_soon_threadsafe(began.set)
        release.wait()

    call = asyncio.create_task(perform(made(function), {}, context))
    await began.wait()
    call.cancel()

    with pytest.raises(asyncio.CancelledError):
        await call


async def test_call_beyond_the_last_thread_is_not_started(
    release: threading.Event, context: ToolContext
) -> None:
    loop = asyncio.get_running_loop()
    began: asyncio.Queue[None] = asyncio.Queue()

    def function() -> None:
        loop.call_soon_threadsafe(began.put_nowait, None)
        release.wait()

    calls = [asyncio.create_task(perform(made(function), {}, context)) for _ in range(MAX_THREADS)]
    for _ in calls:
        await began.get()

    refused = await perform(made(function), {}, context)
    release.set()

    assert refused == Failed(
        f"{MAX_THREADS} calls of synchronous tools are running or hanging; try again later"
    )
    assert await asyncio.gather(*calls) == [Done("done")] * MAX_THREADS
    assert await perform(made(function), {}, context) == Done("done")


def test_hanging_tool_does_not_keep_the_interpreter_from_its_end() -> None:
    script = """
import asyncio, threading
from headrace.tools import ToolContext, perform, tool

@tool(effect="none", timeout=0.01)
def hang() -> None:
    "Hang."
    threading.Event().wait()

context = ToolContext(account_id="a", agent_id="a", run_id="r", session_id=None, door="d", trigger="t", call="c")
print(asyncio.run(perform(hang, {}, context)))
"""

    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True
    )

    assert ended.stdout.startswith("Failed(")
    assert ended.stderr == ""
