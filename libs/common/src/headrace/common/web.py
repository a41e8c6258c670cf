"""A bound on HTTP bodies that answers with a problem document, where FastAPI's own bound answers in plain text."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.common.problems import problem

SWALLOWED_BODIES = 15
"""How many times the limit is read and thrown away before the answer."""
SWALLOWED_SECONDS = 2.0


class BodyLimit:
    """Refuses a body that is larger than the door takes, before or while it is read.

    Args:
        app: What is protected.
        max_bytes: The bound.
    """

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app, self._max = app, max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer 413."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if not declared.isdigit() or int(declared) > self._max:
            await _swallow(receive, SWALLOWED_BODIES * self._max)
            await self._refuse(scope, receive, send)
            return
        if b"transfer-encoding" in dict(scope["headers"]):
            body = await self._read(receive)
            if body is None:
                await self._refuse(scope, receive, send)
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

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        detail = f"the body is larger than the {self._max} bytes that this door takes"
        await problem(413, "too_large", detail, headers={"Connection": "close"})(scope, receive, send)


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
