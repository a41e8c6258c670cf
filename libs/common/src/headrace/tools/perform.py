"""One call of a tool, and what is known of it afterwards."""

import functools
import inspect
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

from headrace.tools.bounded import Raised, TimedOut, bounded
from headrace.tools.context import ToolContext
from headrace.tools.errors import ToolError
from headrace.tools.guard import under_guard, watch, watch_loop
from headrace.tools.result import NotJson, as_text, message, readable, sentence, told
from headrace.tools.threads import in_thread
from headrace.tools.tool import Tool, is_async


@dataclass(frozen=True, slots=True)
class Done:
    """It happened; the text is for the model."""

    text: str


@dataclass(frozen=True, slots=True)
class Failed:
    """It did not happen; the sentence is for the model."""

    sentence: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """It may have happened; a reconciliation or a person finds out."""

    why: str


Outcome = Done | Failed | Unknown


async def perform(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> Outcome:
    """Call a tool once, whatever it does: it can fail, hang and lie, and this returns in its time.

    Args:
        tool: What to call. One of effect `none` runs under the guard.
        arguments: As `tool.read` gives them.
        context: Filled in where the function asks for it.

    Raises:
        CancelledError: The caller was cancelled; a tool that raises it by itself has raised an exception.
    """
    carried = copy_context()
    if tool.effect == "none":
        watch()
        watch_loop()
        carried.run(under_guard.set, tool.name)
    given = {tool.context_parameter: context} if tool.context_parameter else {}
    call = functools.partial(tool.function, **{**arguments, **given})
    run = functools.partial(_awaited if is_async(tool.function) else _threaded, call)
    ending = await bounded(run, seconds=tool.timeout, context=carried)
    if isinstance(ending, Raised):
        return _raised(tool, ending.error)
    return Done(readable(ending, limit=tool.max_result))


async def _awaited(call: Callable[[], Any]) -> str:
    return as_text(await call())


async def _threaded(call: Callable[[], Any]) -> str | Raised:
    """A plain function may still return an awaitable, which would be no call at all if nobody awaited it."""

    def work() -> Any:
        value = call()
        return value if inspect.isawaitable(value) else as_text(value)

    ending = await in_thread(work)
    return ending if isinstance(ending, str | Raised) else as_text(await ending)


def _raised(tool: Tool, error: BaseException) -> Outcome:
    match error:
        case NotJson():
            what = f"the tool returned a value of type {error}, which is not JSON"
            return Failed(what) if tool.effect == "none" else Done(f"done; {what}")
        case ToolError():
            return Failed(sentence(message(error)) or type(error).__name__)
        case TimedOut() if tool.effect != "none":
            return Unknown(f"the tool `{tool.name}`: {error}, and may still act")
        case TimedOut():
            return Failed(f"the tool `{tool.name}`: {error}")
        case _ if tool.effect == "none":
            return Failed(told(error))
        case _:
            return Unknown(told(error))
