"""A bound on HTTP bodies that answers with a problem document, where FastAPI's own bound answers in plain text."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.common.errors import TooLarge
from headrace.common.problems import problem

SWALLOWED_BODIES = 15
"""How many times the limit is read and thrown away before the answer."""
SWALLOWED_SECONDS = 2.0


class BodyLimit:
    """Refuses a body that is larger than the door takes, before or while it is read.

    Args:
        app: What is protected.
        max_bytes: The bound.
        streamed: Paths with a bound of their own, whose bodies are passed on piece by piece.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, streamed: Mapping[str, int] | None = None) -> None:
        self._app, self._max, self._streamed = app, max_bytes, streamed or {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer 413."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._streamed.get(scope["path"], self._max)
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if not declared.isdigit() or int(declared) > limit:
            await _swallow(receive, max(SWALLOWED_BODIES * self._max, limit))
            await self._refuse(scope, receive, send, limit)
            return
        if scope["path"] in self._streamed:
            receive = _counted(receive, limit)
        elif b"transfer-encoding" in dict(scope["headers"]):
            body = await self._read(receive)
            if body is None:
                await self._refuse(scope, receive, send, limit)
                return
            receive = _replayed(body, receive)
        await self._app(scope, receive, send)

    async def _read(self, receive: Receive) -> bytes | None:
        """Read a body of undeclared length; `None` once it is too large."""
        parts, size, more = [], 0, True
        while more:
            message = await receive()
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            more = message.get("more_body", False)
            if size > self._max:
                if more:
                    await _swallow(receive, SWALLOWED_BODIES * self._max)
                return None
        return b"".join(parts)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send, limit: int) -> None:
        answer = problem(413, TooLarge.code, _sentence(limit), headers={"Connection": "close"})
        await answer(scope, receive, send)


def _sentence(limit: int) -> str:
    return f"the body is larger than the {limit} bytes that this door takes"


def _counted(receive: Receive, limit: int) -> Callable[[], Awaitable[Message]]:
    """Pass pieces on until they are too many; then whoever reads the body gets `TooLarge`."""
    left = limit

    async def counted() -> Message:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        if left < 0:
            if message.get("more_body", False):
                await _swallow(receive, limit)
            raise TooLarge(_sentence(limit))
        return message

    return counted


async def _swallow(receive: Receive, left: int) -> None:
    """Read on and throw away, within bounds: a sender that is cut off while it sends never sees the answer."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SWALLOWED_SECONDS):
            while left > 0:
                message = await receive()
                left -= len(message.get("body", b""))
                if not message.get("more_body", False):
                    return


def _replayed(body: bytes, receive: Receive) -> Callable[[], Awaitable[Message]]:
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
