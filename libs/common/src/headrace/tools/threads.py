"""Threads for synchronous tools: one for each call, bounded, and never in the way of an exit."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import TypeVar

from headrace.tools.bounded import Raised
from headrace.tools.errors import ToolError

T = TypeVar("T")

MAX_THREADS = 64
"""Synchronous calls alive in one process, with those that hang after their time is over."""

_places = threading.BoundedSemaphore(MAX_THREADS)


class NoThreadLeft(ToolError):
    """As many synchronous calls as may be are alive; this one was not started."""


async def in_thread(function: Callable[[], T]) -> T | Raised:
    """Run a function in a daemon thread of its own, in a copy of the caller's context.

    Nothing stops the thread: when the caller gives up, it goes on by itself and keeps its place until it ends.

    Raises:
        NoThreadLeft: Nothing was started.
    """
    if not _places.acquire(blocking=False):
        raise NoThreadLeft(
            f"{MAX_THREADS} calls of synchronous tools are running or hanging; try again later"
        )
    loop = asyncio.get_running_loop()
    ending: asyncio.Future[T | Raised] = loop.create_future()
    carried = copy_context()

    def tell(outcome: T | Raised) -> None:
        if not ending.done():
            ending.set_result(outcome)

    def work() -> None:
        try:
            outcome = _outcome(function, carried)
        finally:
            _places.release()
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits
            loop.call_soon_threadsafe(tell, outcome)

    thread = threading.Thread(target=work, name="tool", daemon=True)
    try:
        Context().run(thread.start)  # outside the guard, which the thread has by the carried context
    except RuntimeError as error:  # the system gives no more threads
        _places.release()
        raise NoThreadLeft(f"no thread could be started: {error}") from error
    return await ending


def _outcome(function: Callable[[], T], carried: Context) -> T | Raised:
    try:
        return carried.run(function)
    except BaseException as error:  # noqa: BLE001  (SystemExit ends the call, not the thread's telling of it)
        return Raised(error)
