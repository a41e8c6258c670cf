"""The one consumer shape: claim -> act -> settle -> acknowledge, and what happens when an act fails.

A handler only acts. The edge here claims the message (an insert in the inbox), settles it (one commit for the
claim, the act and what it sends), acknowledges twice-safe, keeps a slow delivery alive, delays a failed one, and
gives a hopeless one up as a dead letter, which is a row and an outbox message like any other fact.
"""

import asyncio
import base64
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import nats.errors
from faststream.nats import NatsMessage

from headrace.common.bus import Subscription
from headrace.common.db import Database, Transaction
from headrace.common.delivery import Bury, DeliveryPolicy, Retry, plan_retry
from headrace.common.envelope import MESSAGE_ID, decode
from headrace.common.errors import Unavailable, Undecodable
from headrace.common.faults import point
from headrace.common.inbox import Inbox
from headrace.common.telemetry import Instruments, span_of_delivery
from headrace.contracts.deliveries import DeadLetter
from headrace.contracts.message import Message
from headrace.contracts.streams import Consumer, stream_of

log = logging.getLogger(__name__)

M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler(Generic[M]):
    """Acts inside the edge's transaction: its SQL and what it sends happen together with the claim, or not at all."""

    consumer: Consumer
    act: Callable[[M, Transaction], Awaitable[None]]
    concurrency: int = 8
    """Messages in hand at once in one replica."""
    pause: float = 0.0
    """Seconds to wait before acting, so that what is more urgent in the same process goes first."""
    buried: Callable[[M, str, Transaction], Awaitable[None]] | None = None
    """Told, in the same transaction, that the message was given up and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LongHandler(Generic[M]):
    """Acts longer than a transaction should live: it claims and settles by itself, each conditional on its own lease."""

    consumer: Consumer
    act: Callable[[M], Awaitable[None]]
    concurrency: int
    buried: Callable[[M, str, Transaction], Awaitable[None]] | None = None


AnyHandler = Handler[Any] | LongHandler[Any]


class ConsumerEdge:
    """Carries deliveries to a handler and decides what the broker is told.

    Args:
        handler: What to do.
        database: The service's schema.
        inbox: Its inbox.
        policy: When to give up.
        instruments: Where deliveries are counted.
    """

    def __init__(
        self,
        handler: AnyHandler,
        *,
        database: Database,
        inbox: Inbox,
        policy: DeliveryPolicy,
        instruments: Instruments,
    ) -> None:
        self._handler = handler
        self._consumer = handler.consumer
        self._db = database
        self._inbox = inbox
        self._policy = policy
        self._instruments = instruments

    def subscription(self) -> Subscription:
        """What the bus needs to know."""
        return Subscription(self._consumer, self.deliver, self._handler.concurrency)

    async def deliver(self, delivery: NatsMessage) -> None:
        """Take one delivery from the broker to its outcome."""
        with span_of_delivery(self._consumer.name, delivery.headers):
            outcome = await self._outcome(delivery)
        self._instruments.delivered(self._consumer.name, outcome)

    async def _outcome(self, delivery: NatsMessage) -> str:
        attempt, message = 1, None
        async with self._kept_alive(delivery):
            try:
                message = decode(self._consumer.message, delivery.headers, delivery.body)
                attempt = await self._attempt(delivery, message.message_id)
                if attempt > self._policy.attempts:
                    plan: Retry | Bury | None = Bury(f"no execution of {attempt - 1} came to an end")
                else:
                    await self._act(message)
                    plan = None
            except Exception as error:
                deliveries = delivery.raw_message.metadata.num_delivered
                plan = plan_retry(attempt, error, self._policy, deliveries=deliveries)
                log.warning(
                    "delivery.failed",
                    extra={"consumer": self._consumer.name, "attempt": attempt, "plan": repr(plan)},
                    exc_info=None if isinstance(plan, Retry) and attempt == 1 else error,
                )
                if isinstance(error, Unavailable) and message is not None and attempt > 1:
                    await self._forgive(message.message_id)
            if isinstance(plan, Bury):
                plan = await self._bury(delivery, message, plan.reason)
        return await self._tell_broker(delivery, plan)

    async def _attempt(self, delivery: NatsMessage, message_id: str) -> int:
        """Which execution this is. Only what comes again is counted, and only where the count can be stored."""
        if delivery.raw_message.metadata.num_delivered == 1:
            return 1
        async with self._db.transaction() as tx:
            now = self._db.clock.now()
            return 1 + await self._inbox.begin_again(tx.connection, self._consumer.name, message_id, now=now)

    async def _forgive(self, message_id: str) -> None:
        """Waiting for a server is not an execution; where even this cannot be stored, the count stands."""
        with contextlib.suppress(Unavailable):
            async with self._db.transaction() as tx:
                await self._inbox.forgive(tx.connection, self._consumer.name, message_id)

    async def _act(self, message: Message) -> None:
        match self._handler:
            case LongHandler():
                await self._handler.act(message)
            case Handler():
                await asyncio.sleep(self._handler.pause)
                async with self._db.transaction() as tx:
                    if await self.claim(tx, message):
                        await self._handler.act(message, tx)

    async def claim(self, tx: Transaction, message: Message) -> bool:
        """Insert the message in the inbox; `False` when it was settled before."""
        now = self._db.clock.now()
        return await self._inbox.first_time(tx.connection, self._consumer.name, message.message_id, now=now)

    async def _bury(self, delivery: NatsMessage, message: Message | None, reason: str) -> Retry | Bury:
        """Make the dead letter a fact, before the broker forgets the delivery."""
        try:
            await bury(
                self._handler,
                self._db,
                self._inbox,
                message=message,
                corpse=Corpse(
                    subject=delivery.raw_message.subject,
                    headers=dict(delivery.headers),
                    body=delivery.body,
                    deliveries=delivery.raw_message.metadata.num_delivered,
                    sequence=delivery.raw_message.metadata.sequence.stream,
                ),
                reason=reason,
            )
        except Exception as error:
            log.warning("delivery.not_buried", extra={"consumer": self._consumer.name}, exc_info=error)
            return Retry(self._policy.longest_delay)
        return Bury(reason)

    async def _tell_broker(self, delivery: NatsMessage, plan: Retry | Bury | None) -> str:
        """Acknowledge, delay or terminate. The broker may be away: then it delivers again, and the inbox knows."""
        try:
            match plan:
                case None:
                    point(f"{self._consumer.name}.ack.before")
                    await delivery.ack_sync()
                    point(f"{self._consumer.name}.ack.after")
                    return "done"
                case Retry(delay):
                    await delivery.nack(delay=delay)
                    return "retried"
                case Bury():
                    await delivery.reject()
                    return "buried"
        except (TimeoutError, nats.errors.Error, OSError) as error:
            log.info("delivery.untold", extra={"consumer": self._consumer.name, "error": repr(error)})
            return "untold"

    @contextlib.asynccontextmanager
    async def _kept_alive(self, delivery: NatsMessage) -> AsyncIterator[None]:
        """Say "in progress" for as long as the work is in hand."""

        async def heartbeat() -> None:
            while True:
                await asyncio.sleep(self._consumer.ack_wait.total_seconds() / 3)
                with contextlib.suppress(nats.errors.Error, OSError):
                    await delivery.in_progress()

        ticker = asyncio.create_task(heartbeat())
        try:
            yield
        finally:
            ticker.cancel()


@dataclass(frozen=True, slots=True)
class Corpse:
    """A delivery as the broker had it."""

    subject: str
    headers: dict[str, str]
    body: bytes
    deliveries: int
    sequence: int
    """Its place in the stream."""


async def bury(
    handler: AnyHandler,
    database: Database,
    inbox: Inbox,
    *,
    message: Message | None,
    corpse: Corpse,
    reason: str,
) -> None:
    """Give a message up: settle it as dead, tell the handler, and send the dead letter, in one transaction.

    Args:
        handler: Whose delivery it was.
        database: The consuming service's schema.
        inbox: Its inbox.
        message: The decoded message, where it could be decoded.
        corpse: What the broker delivered.
        reason: Why, for a person.
    """
    consumer = handler.consumer
    original_id = corpse.headers.get(MESSAGE_ID) or f"unnamed.{corpse.subject}.{corpse.sequence}"
    async with database.transaction() as tx:
        now = database.clock.now()
        if not await inbox.first_time(tx.connection, consumer.name, original_id, now=now, outcome="dead"):
            return
        if message is not None and handler.buried is not None:
            await handler.buried(message, reason, tx)
        await tx.send(
            DeadLetter(
                stream=stream_of(consumer.message).name,
                consumer=consumer.name,
                original_id=original_id,
                original_subject=corpse.subject,
                headers=corpse.headers,
                body_base64=base64.b64encode(corpse.body).decode(),
                reason=reason,
                deliveries=corpse.deliveries,
                died_at=now,
            )
        )
    log.error(
        "delivery.buried", extra={"consumer": consumer.name, "message_id": original_id, "reason": reason}
    )


def readable(handler: AnyHandler, corpse: Corpse) -> Message | None:
    """The message of a corpse, where it can be decoded."""
    try:
        return decode(handler.consumer.message, corpse.headers, corpse.body)
    except Undecodable:
        return None
