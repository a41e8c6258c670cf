"""The sweeper: looks into what stayed in the outbox, forgets what was seen, and sends the rest again."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta

from headrace.common.bus import Bus
from headrace.common.db import Database
from headrace.common.errors import HeadraceError, Unavailable
from headrace.common.inbox import Inbox
from headrace.common.outbox import Parcel
from headrace.common.rpc import Rpc
from headrace.contracts.deliveries import UNSEEN_VERB, FindUnseen, Unseen
from headrace.contracts.streams import STREAMS, Consumer, matches

log = logging.getLogger(__name__)

SWEEP_SECONDS = 2.0
BATCH = 500
INBOX_KEPT = timedelta(days=7)


class Sweeper:
    """Keeps the outbox of one service true.

    Args:
        database: The service's schema.
        inbox: Its inbox, pruned here.
        bus: Where messages go.
        rpc: How consumers are asked what they have not seen.
    """

    def __init__(self, database: Database, inbox: Inbox, bus: Bus, rpc: Rpc) -> None:
        self._db, self._inbox, self._bus, self._rpc = database, inbox, bus, rpc
        self._everything_at_once = asyncio.Event()
        self.depth = 0
        """Messages in the outbox at the last look."""

    def look_now(self) -> None:
        """Look into the whole outbox at once, due or not: a stream was made again."""
        self._everything_at_once.set()

    async def run(self) -> None:
        """Sweep for ever; first all that an earlier process left."""
        self.look_now()
        while True:
            look_at_all = self._everything_at_once.is_set()
            self._everything_at_once.clear()
            try:
                await self.sweep(look_at_all=look_at_all)
            except HeadraceError as error:
                if look_at_all:
                    self._everything_at_once.set()
                log.info("outbox.sweep_postponed", extra={"error": str(error)})
                await asyncio.sleep(SWEEP_SECONDS)
                continue
            try:
                async with asyncio.timeout(SWEEP_SECONDS):
                    await self._everything_at_once.wait()
            except TimeoutError:
                continue

    async def sweep(self, *, look_at_all: bool) -> int:
        """Look into what is due, or into all; answers how many messages were sent again."""
        now = self._db.clock.now()
        outbox, sent, last = self._db.outbox, 0, ""
        while True:
            async with self._db.transaction() as tx:
                if look_at_all:
                    parcels = await outbox.page(tx.connection, after=last, limit=BATCH)
                else:
                    parcels = await outbox.take(tx.connection, due_by=now, limit=BATCH)
                again, seen = await self._sort(parcels)
                await outbox.forget(tx.connection, seen)
                await outbox.postpone(tx.connection, again, now=now)
                await self._inbox.prune(tx.connection, before=now - INBOX_KEPT)
                self.depth = await outbox.depth(tx.connection)
            await self._bus.publish(again)
            sent += len(again)
            if len(parcels) < BATCH:
                return sent
            last = parcels[-1].message_id

    async def _sort(self, parcels: Sequence[Parcel]) -> tuple[list[Parcel], list[str]]:
        """Split into those to send again and the ids of those that all their consumers have seen."""
        waiting: dict[Consumer, list[str]] = defaultdict(list)
        for parcel in parcels:
            for consumer in _consumers(parcel):
                waiting[consumer].append(parcel.message_id)
        unconsumed = [parcel for parcel in parcels if not _consumers(parcel)]
        kept = await asyncio.gather(*(self._is_kept(parcel) for parcel in unconsumed))
        unseen = {p.message_id for p, is_kept in zip(unconsumed, kept, strict=True) if not is_kept}
        for consumer, ids in waiting.items():
            unseen.update(await self._unseen(consumer, ids))
        again = [p for p in parcels if p.message_id in unseen]
        return again, [p.message_id for p in parcels if p.message_id not in unseen]

    async def _is_kept(self, parcel: Parcel) -> bool:
        """Publish what no service consumes. One that its stream does not take must not hold up the others."""
        try:
            await self._bus.publish_acknowledged(parcel)
        except Unavailable as error:
            log.warning("outbox.not_kept", extra={"message_id": parcel.message_id, "error": str(error)})
            return False
        return True

    async def _unseen(self, consumer: Consumer, ids: list[str]) -> Sequence[str]:
        """Ask; of a service that is down nobody knows what it has seen, and a copy does no harm."""
        question = FindUnseen(consumer=consumer.name, message_ids=tuple(ids))
        try:
            answer = await self._rpc.ask_verb(consumer.service, UNSEEN_VERB, question, Unseen)
        except Unavailable:
            return ids
        return answer.message_ids


def _consumers(parcel: Parcel) -> list[Consumer]:
    [stream] = [stream for stream in STREAMS if stream.name == parcel.stream]
    return [consumer for consumer in stream.consumers if matches(consumer.filter_subject, parcel.subject)]
