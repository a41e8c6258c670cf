"""The event log of runs as one sequence: what is kept, then what happens, and a word where something is missing."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from headrace.common.bus import Bus, Heard
from headrace.common.envelope import decode
from headrace.common.errors import NotFound, Unavailable, Undecodable
from headrace.common.rpc import Rpc
from headrace.contracts.journal import Ask, ReadJournal
from headrace.contracts.run_questions import FindRun, RunReport
from headrace.contracts.runs import (
    EVENTS_PER_ATTEMPT,
    LAST_EVENT,
    RunEvent,
    RunFinished,
    RunWaiting,
    TokenCount,
)
from headrace.contracts.streams import EVENTS

log = logging.getLogger(__name__)

Until = Literal["end", "waiting"]
_STANDINGS = (RunFinished, RunWaiting)
"""After these a run stands still, as far as the events say."""

MAX_WAITING = 10_000
"""Events that a slow reader may be behind before some are dropped; it is told of the gap."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Events after `after` and before `before` are not kept any more."""

    after: int
    before: int


@dataclass(frozen=True, slots=True)
class Silence:
    """Nothing happened for a while; the connection lives."""


def is_gap(last: int, seq: int) -> bool:
    """Whether something is missing between two events that were seen one after the other.

    Args:
        last: The number of the last event that was seen; -1 before the first.
        seq: The number of the next one.
    """
    place, last_place = seq % EVENTS_PER_ATTEMPT, last % EVENTS_PER_ATTEMPT
    if place in (0, LAST_EVENT):
        return False
    same_attempt = last >= 0 and seq // EVENTS_PER_ATTEMPT == last // EVENTS_PER_ATTEMPT
    return not (same_attempt and place == last_place + 1)


class EventLog:
    """Follows runs. One subscription a replica hears all runs; each reader has its own queue.

    Args:
        bus: Where events are heard, and where the stream keeps them.
        rpc: How a run that fell silent is asked after.
        doubt: Seconds of silence before that.
        ping: Seconds of silence before a reader is told that there is nothing to tell.
    """

    def __init__(self, bus: Bus, rpc: Rpc, *, doubt: float, ping: float) -> None:
        self._bus, self._rpc, self._doubt, self._ping = bus, rpc, doubt, ping
        self._readers: dict[str, set[asyncio.Queue[RunEvent]]] = defaultdict(set)

    async def listen(self) -> None:
        """Begin to hear."""
        await self._bus.watch(RunEvent.wildcard(), self._hear)

    async def _hear(self, message: Heard) -> None:
        run_id = message.subject.rpartition(".")[2]
        readers = self._readers.get(run_id)
        if not readers:
            return
        event = _readable(run_id, message.headers, message.data)
        if event is None:
            return
        for queue in readers:
            try:
                queue.put_nowait(event)
            except asyncio.QueueFull:
                log.warning("event.reader_slow", extra={"run_id": run_id})

    async def follow(
        self, account_id: str, run_id: str, *, after: int = -1, is_new: bool = False, until: Until = "end"
    ) -> AsyncGenerator[RunEvent | Gap | Silence]:
        """The events of a run after a number, to its end. A run that failed may be resumed: only its last end is one.

        Args:
            account_id: Whose run it is; the caller has checked.
            run_id: The run.
            after: The last event that the reader has; -1 for none.
            is_new: Nothing can have happened yet, so the stream need not be read.
            until: Whether to stop where the run waits for a person as well.
        """
        last = after
        async with self._reading(run_id) as queue:
            async for event in self._told(account_id, run_id, queue, is_new=is_new, until=until):
                if event is None:
                    yield Silence()
                    continue
                if event.seq <= last:
                    continue
                if is_gap(last, event.seq):
                    yield Gap(last, event.seq)
                last = event.seq
                yield event

    @asynccontextmanager
    async def _reading(self, run_id: str) -> AsyncIterator[asyncio.Queue[RunEvent]]:
        """A place among those who hear a run."""
        queue: asyncio.Queue[RunEvent] = asyncio.Queue(MAX_WAITING)
        self._readers[run_id].add(queue)
        try:
            yield queue
        finally:
            self._readers[run_id].discard(queue)
            if not self._readers[run_id]:
                del self._readers[run_id]

    async def _told(
        self, account_id: str, run_id: str, queue: asyncio.Queue[RunEvent], *, is_new: bool, until: Until
    ) -> AsyncIterator[RunEvent | None]:
        """What is kept, then what is heard; the second began before the first, so nothing falls between them."""
        newest: RunEvent | None = None
        if not is_new:
            async for event in self._kept(run_id):
                yield event
                newest = _newer(newest, event)
        if newest is not None and _is_success(newest):
            return
        async for news in self._live(
            account_id, run_id, queue, newest=newest, ask_first=not is_new, until=until
        ):
            yield news

    async def _kept(self, run_id: str) -> AsyncIterator[RunEvent]:
        """What the stream still has of a run."""
        async for message in self._bus.kept(EVENTS.name, RunEvent.wildcard(run_id=run_id)):
            event = _readable(run_id, message.headers, message.data or b"")
            if event is not None:
                yield event

    async def _live(
        self,
        account_id: str,
        run_id: str,
        queue: asyncio.Queue[RunEvent],
        *,
        newest: RunEvent | None,
        ask_first: bool,
        until: Until,
    ) -> AsyncIterator[RunEvent | None]:
        """What is heard; `None` in silence. A run that says nothing, or that it ended, is asked after.

        Its end may have been missed, and an end may have been followed by more.
        """
        clock = asyncio.get_running_loop().time
        told = clock()
        patience = 0.0 if ask_first else self._doubt
        while True:
            event = await _heard_within(patience, queue)
            patience = self._doubt
            if event is not None:
                told, newest = clock(), _newer(newest, event)
                yield event
                if _is_success(newest):
                    return
                if isinstance(newest.news, _STANDINGS):
                    patience = 0.0
                continue
            standing = await self._standing(account_id, run_id, newest)
            if not queue.empty():  # it went on while the runner was asked
                continue
            if standing is not None and (until == "waiting" or isinstance(standing.news, RunFinished)):
                yield standing
                return
            if standing is not None and standing is not newest:
                told, newest = clock(), standing
                yield standing
            elif clock() - told >= self._ping:
                told = clock()
                yield None

    async def _standing(self, account_id: str, run_id: str, newest: RunEvent | None) -> RunEvent | None:
        """The event after which a run stands still, from the runner's own table; `None` where it goes on."""
        try:
            report = await self._rpc.ask(FindRun(account_id=account_id, run_id=run_id))
            if not report.state.is_waiting:
                return end_of(report)
            if newest is not None and isinstance(newest.news, RunWaiting) and _epoch(newest) >= report.epoch:
                return newest
            page = await self._rpc.ask(ReadJournal(account_id=account_id, run_id=run_id))
        except (NotFound, Unavailable):
            return None
        return wait_of(report, page.waiting, at=newest.at if newest is not None else report.requested_at)


def _readable(run_id: str, headers: Mapping[str, str] | None, body: bytes) -> RunEvent | None:
    """An event, unless a newer version said it; then the reader is told of the gap."""
    try:
        return decode(RunEvent, headers, body)
    except Undecodable as error:
        log.warning("event.undecodable", extra={"run_id": run_id, "error": str(error)})
        return None


async def _heard_within(seconds: float, queue: asyncio.Queue[RunEvent]) -> RunEvent | None:
    """What is heard, at once where it waits already; `None` in silence."""
    try:
        async with asyncio.timeout(seconds):
            return await queue.get()
    except TimeoutError:
        return None


def _epoch(event: RunEvent) -> int:
    return event.seq // EVENTS_PER_ATTEMPT


def _newer(newest: RunEvent | None, event: RunEvent) -> RunEvent:
    """The later one of two: what was sent again may come after what it precedes."""
    return event if newest is None or event.seq >= newest.seq else newest


def _is_success(event: RunEvent) -> bool:
    """Whether nothing can follow, so that nobody need be asked."""
    return isinstance(event.news, RunFinished) and event.news.state == "succeeded"


def wait_of(report: RunReport, waiting: Sequence[Ask], *, at: datetime) -> RunEvent:
    """The event that a run waits for a person, made from its report: the last of its taking.

    Args:
        report: Where the run stands.
        waiting: What is asked.
        at: A time before which it did not wait.
    """
    return RunEvent(
        run_id=report.run_id,
        account_id=report.account_id,
        seq=report.epoch * EVENTS_PER_ATTEMPT + LAST_EVENT - 1,
        at=at,
        news=RunWaiting.model_validate({"state": report.state, "tools": [ask.tool for ask in waiting]}),
    )


def end_of(report: RunReport) -> RunEvent | None:
    """The last event of a run that is over, made from its report."""
    if not report.state.is_final or report.finished_at is None:
        return None
    return RunEvent(
        run_id=report.run_id,
        account_id=report.account_id,
        seq=report.epoch * EVENTS_PER_ATTEMPT + LAST_EVENT,
        at=report.finished_at,
        news=RunFinished.model_validate(
            {
                "state": report.state,
                "output": report.output or "",
                "error_code": report.error_code,
                "error": report.error,
                "usage": report.usage or TokenCount(),
            }
        ),
    )
