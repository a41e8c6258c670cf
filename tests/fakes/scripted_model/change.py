"""Lets a request wait until something has happened in the server."""

import asyncio
from collections.abc import Callable


class Change:
    """Wakes everyone who waits for it, so that each can look again."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def ring(self) -> None:
        """Say that something has changed."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def until(self, holds: Callable[[], bool], *, seconds: float) -> None:
        """Return when the condition holds, or when the time is over: the caller looks at what is."""
        try:
            async with asyncio.timeout(seconds):
                while not holds():
                    await self._changed.wait()
        except TimeoutError:
            return
