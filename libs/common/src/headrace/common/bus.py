"""The bus: the only code that connects to NATS, configures a subscription or publishes."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import nats.errors
import nats.js.errors
from faststream import AckPolicy
from faststream.nats import JStream, NatsBroker, NatsMessage, PullSub
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import RawStreamMsg

from headrace.common.errors import Unavailable
from headrace.common.outbox import Parcel
from headrace.contracts.broker import inbox_prefix
from headrace.contracts.message import Message
from headrace.contracts.streams import Consumer, stream_of

log = logging.getLogger(__name__)

FETCH_SECONDS = 2.0
"""How long one request for a message stands; after a broker restart, the longest that a consumer is deaf."""
BROKEN_PULL_SECONDS = 0.25
"""Pause after a failed fetch: a missing stream answers at once, and would be asked thousands of times a second."""
PUBLISH_TIMEOUT_SECONDS = 5.0

Consume = Callable[[NatsMessage], Awaitable[None]]
Heard = Msg
"""A message that was heard without a consumer."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A durable consumer, what its deliveries go to, and how many may be in hand at once."""

    consumer: Consumer
    consume: Consume
    concurrency: int


class Bus:
    """One connection to NATS for one service.

    Args:
        url: `nats://user:password@host:port`.
        service: The service's name: its user, and the prefix of its inboxes.
        drain_seconds: How long deliveries in hand may take when the bus stops.
    """

    def __init__(self, url: str, *, service: str, drain_seconds: float) -> None:
        self.service = service
        self._drain_seconds = drain_seconds
        self._broker = NatsBroker(
            url,
            name=f"headrace-{service}",
            inbox_prefix=inbox_prefix(service),
            connect_timeout=5,
            reconnect_time_wait=1,
            max_reconnect_attempts=-1,
            graceful_timeout=drain_seconds,
            ack_policy=AckPolicy.MANUAL,
            apply_types=False,
            logger=None,
            error_cb=_log_connection_error,
        )
        self._client: Client | None = None
        self._pulls: list[asyncio.Task[None]] = []
        self._pulled: list[JetStreamContext.PullSubscription] = []
        self._in_hand: set[asyncio.Task[None]] = set()

    @property
    def client(self) -> Client:
        """The connection.

        Raises:
            Unavailable: The bus is not connected yet.
        """
        if self._client is None:
            raise Unavailable("the broker is not connected yet")
        return self._client

    @property
    def jetstream(self) -> JetStreamContext:
        """JetStream on this connection."""
        return self.client.jetstream(timeout=PUBLISH_TIMEOUT_SECONDS)

    async def connect(self) -> None:
        """Open the connection; it is kept and reopened until `close`.

        Raises:
            Unavailable: NATS does not answer, or refuses the user.
        """
        try:
            await self._broker.connect()
        except (TimeoutError, nats.errors.Error, OSError) as error:
            raise Unavailable(f"NATS does not answer: {error}") from error
        self._client = self._broker.connection

    async def check(self) -> None:
        """See the broker answer.

        Raises:
            Unavailable: It does not, within two seconds.
        """
        try:
            await self.client.flush(timeout=2)
        except (TimeoutError, nats.errors.Error, OSError) as error:
            raise Unavailable("NATS does not answer") from error

    async def check_consumer(self, consumer: Consumer) -> None:
        """See that a durable consumer exists.

        Raises:
            Unavailable: It does not, or the broker does not answer.
        """
        stream = stream_of(consumer.message).name
        try:
            await self.jetstream.consumer_info(stream, consumer.name, timeout=2)
        except (TimeoutError, nats.errors.Error, nats.js.errors.Error) as error:
            raise Unavailable(f"consumer {consumer.name} of stream {stream} does not answer") from error

    async def start(self, subscriptions: Sequence[Subscription]) -> None:
        """Begin to pull: one message for each free place, never one that would wait here while its clock runs."""
        for each in subscriptions:
            consumer = each.consumer
            subscriber = self._broker.subscriber(
                consumer.filter_subject,
                stream=JStream(stream_of(consumer.message).name, declare=False),
                durable=consumer.name,
                pull_sub=PullSub(batch_size=1),
                ack_policy=AckPolicy.MANUAL,
                decoder=_whole,
            )
            subscriber(each.consume)
            # FastStream's own loop asks a missing stream without a pause; a subscriber that has its subscription starts none.
            subscriber.subscription = cast("JetStreamContext.PullSubscription", _PulledHere())
            self._pulls.append(
                asyncio.create_task(self._pull(each, subscriber), name=f"pull {consumer.name}")
            )
        await self._broker.start()

    async def _pull(self, subscription: Subscription, subscriber: Any) -> None:
        consumer = subscription.consumer
        free = asyncio.Semaphore(subscription.concurrency)
        pull: JetStreamContext.PullSubscription | None = None
        while True:
            await free.acquire()
            message: Msg | None = None
            try:
                if pull is None:
                    stream = stream_of(consumer.message).name
                    pull = await self.jetstream.pull_subscribe_bind(consumer.name, stream=stream)
                    self._pulled.append(pull)
                [message] = await pull.fetch(1, timeout=FETCH_SECONDS)
            except (TimeoutError, nats.errors.TimeoutError):
                pass
            except (nats.errors.Error, nats.js.errors.Error, OSError) as error:
                log.debug("bus.pull_failed", extra={"consumer": consumer.name, "error": str(error)})
                await asyncio.sleep(BROKEN_PULL_SECONDS)
            except Exception:  # whatever it was: a consumer that ends is deaf, and nobody sees it
                log.exception("bus.pull_broke", extra={"consumer": consumer.name})
                await asyncio.sleep(BROKEN_PULL_SECONDS)
            if message is None:
                free.release()
                continue
            task = asyncio.create_task(subscriber.consume(message))
            self._in_hand.add(task)
            task.add_done_callback(self._in_hand.discard)
            task.add_done_callback(lambda _: free.release())

    async def publish(self, parcels: Sequence[Parcel]) -> None:
        """Send what is in the outbox already, without waiting: what the broker does not keep, the sweep sends again."""
        for parcel in parcels:
            try:
                await self.client.publish(parcel.subject, parcel.body, headers=parcel.headers)
            except (nats.errors.Error, OSError, Unavailable) as error:
                log.warning("bus.publish_postponed", extra={"subject": parcel.subject, "error": repr(error)})
        await asyncio.sleep(
            0
        )  # the client writes from a task of its own: let it, before the caller goes on computing

    async def publish_acknowledged(self, parcel: Parcel) -> None:
        """Send a message and wait until the stream has it.

        Raises:
            Unavailable: The stream did not acknowledge.
        """
        try:
            await self.jetstream.publish(parcel.subject, parcel.body, headers=parcel.headers)
        except (TimeoutError, nats.errors.Error, nats.js.errors.Error, OSError) as error:
            raise Unavailable(f"stream {parcel.stream} did not acknowledge: {error}") from error

    async def tell(self, message: Message, headers: dict[str, str]) -> None:
        """Send a message that may be lost without losing a fact, such as a piece of a streamed answer."""
        try:
            await self.client.publish(message.subject, message.model_dump_json().encode(), headers=headers)
        except (nats.errors.Error, OSError) as error:
            log.warning("bus.untold", extra={"subject": message.subject, "error": str(error)})
        await asyncio.sleep(0)  # as above

    async def watch(self, subject: str, heard: Callable[[Msg], Awaitable[None]], *, queue: str = "") -> None:
        """Listen to a subject without a consumer: what is said while nobody listens is not heard.

        Args:
            subject: A subject or a wildcard.
            heard: Called for each message, in order.
            queue: A group of replicas of which only one hears each message.
        """
        await self.client.subscribe(subject, queue=queue, cb=heard)

    async def kept(self, stream: str, subject: str) -> AsyncIterator[RawStreamMsg]:
        """What a stream still has on a subject, oldest first; nothing where the stream is gone or away."""
        seq = 1
        while True:
            try:
                message = await self.jetstream.get_msg(
                    stream, seq=seq, subject=subject, direct=True, next=True
                )
            except nats.js.errors.NotFoundError:
                return
            except (TimeoutError, nats.errors.Error, nats.js.errors.Error, OSError) as error:
                log.info("bus.kept_unread", extra={"stream": stream, "error": repr(error)})
                return
            yield message
            seq = (message.seq or seq) + 1

    async def drain(self) -> None:
        """Take no more deliveries, and let those in hand come to their end or to the drain's."""
        for pull in self._pulls:
            pull.cancel()
        await asyncio.gather(*self._pulls, return_exceptions=True)
        for pulled in self._pulled:  # an answer that nobody reads would keep the connection from draining
            with contextlib.suppress(nats.errors.Error):
                await pulled.unsubscribe()
        if self._in_hand:
            _, late = await asyncio.wait(self._in_hand, timeout=self._drain_seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def close(self) -> None:
        """Flush and disconnect."""
        if self._client is not None:
            await self._broker.stop()


async def _whole(delivery: NatsMessage) -> NatsMessage:
    """Hand the delivery itself to the consumer, where FastStream would hand over its decoded body."""
    return delivery


class _PulledHere:
    """Stands for the subscription in FastStream's subscriber, since the bus owns the pull."""

    async def unsubscribe(self) -> None:
        """Nothing to do: the bus cancels its own pulls."""


async def _log_connection_error(error: Exception) -> None:
    log.warning("bus.connection", extra={"error": f"{type(error).__name__}: {error}"})
