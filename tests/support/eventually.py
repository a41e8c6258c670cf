"""Waiting for a condition, with a deadline."""

import asyncio
from collections.abc import Awaitable, Callable


async def eventually(
    check: Callable[[], Awaitable[object]],
    *,
    timeout: float = 10,  # noqa: ASYNC109  (the deadline is the point)
    every: float = 0.02,
) -> None:
    """Repeat a check until it passes.

    Only an `AssertionError` means "not yet"; any other error ends the wait.

    Args:
        check: Raises `AssertionError` while the condition does not hold.
        timeout: Seconds until the last failure is raised.
        every: Seconds between two checks.
    """
    deadline = asyncio.get_running_loop().time() + timeout
    while True:
        try:
            await check()
        except AssertionError:
            if asyncio.get_running_loop().time() > deadline:
                raise
            await asyncio.sleep(every)
        else:
            return
