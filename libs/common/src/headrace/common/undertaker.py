"""The undertaker: buries what reached the broker's own bound because its consumer never got to decide.

A handler that kills its process is given up by the consumer edge, which counts executions in Postgres. Should the
broker's `max_deliver` be spent first, JetStream says so in an advisory and never delivers the message again; the
message is then fetched from its stream, buried, and, where nobody else consumes it, deleted.
"""

import json
import logging
from collections.abc import Sequence

import nats.errors
import nats.js.errors
from nats.aio.msg import Msg

from headrace.common.bus import Bus
from headrace.common.consumer import AnyHandler, Corpse, bury, readable
from headrace.common.db import Database
from headrace.common.inbox import Inbox
from headrace.contracts.broker import MAX_DELIVERIES_ADVISORY
from headrace.contracts.streams import stream_of

log = logging.getLogger(__name__)


class Undertaker:
    """Watches the MAX_DELIVERIES advisories of a service's consumers."""

    def __init__(self, bus: Bus, database: Database, inbox: Inbox) -> None:
        self._bus, self._db, self._inbox = bus, database, inbox

    async def watch(self, handlers: Sequence[AnyHandler]) -> None:
        """Listen for all handlers; of several replicas, one hears each advisory."""
        for handler in handlers:
            consumer = handler.consumer
            subject = MAX_DELIVERIES_ADVISORY.format(
                stream=stream_of(consumer.message).name, consumer=consumer.name
            )

            async def heard(advisory: Msg, handler: AnyHandler = handler) -> None:
                await self._bury(handler, json.loads(advisory.data))

            await self._bus.watch(subject, heard, queue=f"undertaker-{consumer.name}")

    async def _bury(self, handler: AnyHandler, advisory: dict[str, int]) -> None:
        stream, seq = stream_of(handler.consumer.message), advisory["stream_seq"]
        jetstream = self._bus.jetstream
        try:
            raw = await jetstream.get_msg(stream.name, seq)
        except nats.js.errors.NotFoundError:
            return
        corpse = Corpse(
            subject=raw.subject or "",
            headers=dict(raw.headers or {}),
            body=raw.data or b"",
            deliveries=advisory["deliveries"],
            sequence=seq,
        )
        reason = f"delivered {corpse.deliveries} times, and never settled"
        await bury(
            handler, self._db, self._inbox, message=readable(handler, corpse), corpse=corpse, reason=reason
        )
        if stream.retention == "workqueue":
            await jetstream.delete_msg(stream.name, seq)
