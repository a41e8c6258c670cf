"""Plays one answer to one client, with the waits, cuts and errors that its step asks for."""

import asyncio
from collections.abc import Sequence

from starlette.types import Send

from tests.fakes.scripted_model.answer import Answer, encode, error_body
from tests.fakes.scripted_model.holds import Holds
from tests.fakes.scripted_model.journal import Outcome
from tests.fakes.scripted_model.script import Failure

_JSON = (b"content-type", b"application/json")
_EVENTS = ((b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache"))


class _Dropped(Exception):
    """The script drops the connection here."""


class Performance:
    """One answer on its way to one client.

    Events are gathered and sent together up to the next wait, which keeps an answer without waits cheap.
    """

    def __init__(self, answer: Answer, *, holds: Holds, send: Send) -> None:
        self.characters_sent = 0
        self._answer = answer
        self._step = answer.step
        self._holds = holds
        self._send = send
        self._gathered: list[bytes] = []

    async def play(self) -> Outcome:
        """Send the answer; return how it ended. A dropped connection is a response that is never completed."""
        step = self._step
        try:
            await asyncio.sleep(step.first_delay)
            if step.hold_after is None:
                await self._stand_still()
            if step.error and not step.in_band_error:
                await self._send_error(step.error)
                return "failed"
            await (self._send_events() if self._answer.request.stream else self._send_whole())
        except _Dropped:
            return "cut_by_script"
        return "failed" if step.in_band_error else "finished"

    async def _send_error(self, failure: Failure) -> None:
        wait = () if failure.retry_after is None else ((b"retry-after", b"%g" % failure.retry_after),)
        body = encode(error_body(failure))
        await self._start(failure.status, (_JSON, *wait, (b"content-length", b"%d" % len(body))))
        await self._send({"type": "http.response.body", "body": body})

    async def _send_whole(self) -> None:
        if self._step.hold_after is not None:
            await self._stand_still()
        body = self._answer.completion()
        await self._start(200, (_JSON, (b"content-length", b"%d" % len(body))))
        if self._step.cut_after is not None:
            self._gathered.append(body[: len(body) // 2])
            await self._drop()
        await self._send({"type": "http.response.body", "body": body})

    async def _send_events(self) -> None:
        await self._start(200, _EVENTS)
        self._gathered.append(self._answer.opening())
        pieces = self._answer.pieces()
        for place, piece in enumerate(pieces):
            await self._turn(place, last=False)
            self._gathered.append(piece.event)
            self.characters_sent += piece.characters
        await self._turn(len(pieces), last=True)
        self._gathered.append(self._answer.ending())
        await self._flush(more=False)

    async def _turn(self, place: int, *, last: bool) -> None:
        """Do what the script asks for after so many chunks; what lies past the last chunk happens after it."""
        step = self._step
        if step.hold_after is not None and (step.hold_after == place or (last and step.hold_after > place)):
            await self._flush()
            await self._stand_still()
        if step.cut_after is not None and (step.cut_after == place or (last and step.cut_after > place)):
            await self._drop()
        if place and step.chunk_delay:
            await self._flush()
            await asyncio.sleep(step.chunk_delay)

    async def _stand_still(self) -> None:
        if self._step.hold is not None and not await self._holds.wait(self._step.hold):
            raise _Dropped

    async def _drop(self) -> None:
        await self._flush()
        raise _Dropped

    async def _start(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def _flush(self, *, more: bool = True) -> None:
        body, self._gathered = b"".join(self._gathered), []
        await self._send({"type": "http.response.body", "body": body, "more_body": more})
