"""The teller: says what happens in an attempt, in order, with a number for each event."""

import asyncio

from headrace.common.bus import Bus
from headrace.common.clock import Clock
from headrace.common.envelope import headers_of
from headrace.common.faults import point
from headrace.contracts.runs import (
    EVENTS_PER_ATTEMPT,
    LAST_EVENT,
    RunEvent,
    RunFinished,
    RunNews,
    RunWaiting,
    TextDelta,
)
from headrace.runner.repository.runs import Lease

GATHERING_SECONDS = 0.025
"""Text is told at once when there was none for this long, and otherwise gathered: fewer messages, and no later."""


class Teller:
    """Tells the events of one attempt. What it tells may be lost; the end, which counts, goes through the outbox."""

    def __init__(self, bus: Bus, clock: Clock, lease: Lease) -> None:
        self._bus, self._clock, self._lease = bus, clock, lease
        self._count = 0
        self._text: list[str] = []
        self._step = 0
        self._told_at = 0.0
        self._later: asyncio.Task[None] | None = None

    async def text(self, piece: str, *, step: int = 0) -> None:
        """Tell a piece of what a step says, now or with the next ones."""
        if step != self._step:
            await self.flush()
            self._step = step
        self._text.append(piece)
        wait = self._told_at + GATHERING_SECONDS - asyncio.get_running_loop().time()
        if wait <= 0:
            await self.flush()
        elif self._later is None or self._later.done():
            self._later = asyncio.create_task(self._flush_after(wait))

    async def _flush_after(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self.flush()

    async def flush(self) -> None:
        """Tell the text that was gathered."""
        if self._text:
            text, self._text = "".join(self._text), []
            self._told_at = asyncio.get_running_loop().time()
            await self._tell(TextDelta(text=text, step=self._step))

    async def tell(self, news: RunNews) -> None:
        """Tell something else, after the text that came before it."""
        await self.flush()
        await self._tell(news)

    async def _tell(self, news: RunNews) -> None:
        event = self._next(news)
        point("runner.tell.before")
        await self._bus.tell(event, headers_of(event, source="runner", now=event.at))
        point("runner.tell.after")

    def _next(self, news: RunNews) -> RunEvent:
        event = self._event(self._count, news)
        self._count += 1
        return event

    async def parked(self, news: RunWaiting) -> RunEvent:
        """The event that the run waits for a person, for the transaction that parks it."""
        await self.flush()
        return self._next(news)

    async def end(self, end: RunFinished) -> RunEvent:
        """The last event, for the transaction that ends the run."""
        await self.flush()
        return self._event(LAST_EVENT, end)

    def _event(self, place: int, news: RunNews) -> RunEvent:
        return RunEvent(
            run_id=self._lease.run_id,
            account_id=self._lease.request.account_id,
            seq=self._lease.epoch * EVENTS_PER_ATTEMPT + place,
            at=self._clock.now(),
            news=news,
        )
