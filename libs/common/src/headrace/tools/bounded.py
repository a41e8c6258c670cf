"""A call with an end: it returns, raises, or is given up."""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

GRACE = 1.0
"""Seconds that a cancelled call has to clean up before nobody waits for it any more."""

_alive: set[asyncio.Task[object]] = set()
"""The loop itself holds tasks weakly; one that ignores its cancellation must not be collected half-way."""


@dataclass(frozen=True, slots=True)
class Raised:
    """What ended a call, as a value: a task would pass SystemExit on to the loop."""

    error: BaseException


class TimedOut(Exception):
    """The call did not end in time, and may still go on."""


async def bounded(call: Callable[[], Awaitable[T]], *, seconds: float, context: Context) -> T | Raised:
    """Await a call in a task of its own, for a time.

    The caller's cancellation is passed on to the call, and passes. A call that cancels itself, or that raises
    SystemExit, has raised; KeyboardInterrupt passes.
    """
    task = asyncio.create_task(_caught(call), context=context)
    _alive.add(task)
    task.add_done_callback(_forget)
    try:
        await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        await _stop(task)
        raise
    if not task.done():
        await _stop(task)
        return Raised(TimedOut(f"it did not end within {seconds:g} seconds"))
    if task.cancelled():
        return Raised(asyncio.CancelledError("the tool cancelled itself"))
    return task.result()


async def _caught(call: Callable[[], Awaitable[T]]) -> T | Raised:
    try:
        return await call()
    except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001  (whatever a stranger's code raises is data here)
        return Raised(error)


async def _stop(task: "asyncio.Task[T]") -> None:
    task.cancel()
    await asyncio.wait({task}, timeout=GRACE)


def _forget(task: "asyncio.Task[object]") -> None:
    _alive.discard(task)
    if not task.cancelled():
        task.exception()  # seen, so that the loop does not complain of it
