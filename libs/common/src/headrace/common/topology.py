"""The topology: makes the declared streams, consumers and buckets, and says where what is there differs."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import nats
import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.js import JetStreamContext, api

from headrace.common.access import OPERATOR
from headrace.common.errors import Unavailable
from headrace.common.watchdog import Watchdog
from headrace.contracts.broker import REBUILT_SUBJECT, inbox_prefix
from headrace.contracts.streams import (
    KEY_VALUE_BUCKETS,
    OBJECT_STORES,
    RETIRED_CONSUMERS,
    STREAMS,
    Consumer,
    Stream,
    bucket_stream,
    object_stream,
)

log = logging.getLogger(__name__)

KEEP_SECONDS = 1.0
WATCH_SECONDS = 5.0
TIMES_TOLD = 5
"""The word that a stream was made again is repeated, since services come back to a new broker later than its operator."""
_RETENTION = {
    "interest": api.RetentionPolicy.INTEREST,
    "workqueue": api.RetentionPolicy.WORK_QUEUE,
    "limits": api.RetentionPolicy.LIMITS,
}


async def apply(nats_url: str) -> list[str]:
    """Make what is missing, once; answers a sentence for each difference it found and left.

    Args:
        nats_url: NATS, with the operator's user.

    Raises:
        Unavailable: NATS does not answer.
    """
    async with _operator(nats_url) as client:
        return await _ensure(client.jetstream(), [], replicas=1, look_closely=True)


async def keep(nats_url: str, watchdog: Watchdog | None = None, *, watch: float = WATCH_SECONDS) -> None:
    """Make what goes missing, for as long as this runs, and tell every sweeper that a stream was made again.

    A consumer that the broker no longer serves is deleted, made again, and filled by the sweepers.

    Args:
        nats_url: NATS, with the operator's user.
        watchdog: Tells which consumers are stuck.
        watch: Seconds between two looks at all consumers.

    Raises:
        Unavailable: NATS does not answer at the start; afterwards it is waited for.
    """
    async with _operator(nats_url) as client:
        jetstream = client.jetstream(timeout=2)
        dog, clock, watched = watchdog or Watchdog(), asyncio.get_running_loop().time, 0.0
        known: set[str] = set()
        looked, made, to_tell = False, list[str](), 0
        while True:
            try:
                if clock() - watched >= watch:
                    watched = clock()
                    await _free_stuck(jetstream, dog, now=watched)
                drift = await _ensure(jetstream, made, replicas=1, look_closely=not looked)
                looked = True
                if made:
                    log.warning("topology.rebuilt", extra={"streams": ", ".join(made)})
                    made, to_tell = [], TIMES_TOLD
                if to_tell:
                    await client.publish(REBUILT_SUBJECT)
                    to_tell -= 1
                for sentence in set(drift) - known:
                    log.warning("topology.drift", extra={"difference": sentence})
                known = set(drift)
            except (TimeoutError, nats.errors.Error, nats.js.errors.Error, OSError) as error:
                log.info("topology.unreachable", extra={"error": str(error)})
            await asyncio.sleep(KEEP_SECONDS)


async def _free_stuck(jetstream: JetStreamContext, watchdog: Watchdog, *, now: float) -> None:
    """Delete the consumers that are stuck; that they are missing is then seen as for any other."""
    for stream in STREAMS:
        if not stream.consumers:
            continue
        for info in await jetstream.consumers_info(stream.name):
            if watchdog.is_stuck(info, now=now):
                log.error("topology.consumer_stuck", extra={"consumer": info.name, "stream": stream.name})
                await jetstream.delete_consumer(stream.name, info.name)


@asynccontextmanager
async def _operator(url: str) -> AsyncIterator[Client]:
    try:
        client = await nats.connect(
            url,
            name="headrace-topology",
            inbox_prefix=inbox_prefix(OPERATOR),
            max_reconnect_attempts=-1,
            reconnect_time_wait=0.25,
            allow_reconnect=True,
        )
    except (TimeoutError, nats.errors.Error, OSError) as error:
        raise Unavailable(f"NATS does not answer the operator: {error}") from error
    try:
        yield client
    finally:
        await client.close()


async def _ensure(
    jetstream: JetStreamContext, made: list[str], *, replicas: int, look_closely: bool
) -> list[str]:
    """Make what is missing; answers the differences that were left.

    Args:
        jetstream: JetStream, as the operator.
        made: The streams that were made are added to it, also where the broker goes away halfway.
        replicas: Copies of each stream in a cluster.
        look_closely: Compare each consumer; otherwise only their number, which costs one question for all.
    """
    drift: list[str] = []
    found = {info.config.name: info for info in await jetstream.streams_info()}
    there = {name: info.config for name, info in found.items()}
    for stream in STREAMS:
        wanted = _stream_config(stream, replicas)
        if stream.name not in there:
            await jetstream.add_stream(wanted)
            made.append(stream.name)
        else:
            drift += _differences(f"stream {stream.name}", wanted, there[stream.name])
        if (
            look_closely
            or stream.name in made
            or found[stream.name].state.consumer_count != len(stream.consumers)
        ):
            drift += await _ensure_consumers(jetstream, stream, made)
    for bucket in KEY_VALUE_BUCKETS:
        if bucket_stream(bucket) not in there:
            await jetstream.create_key_value(api.KeyValueConfig(bucket=bucket, replicas=replicas))
    for store in OBJECT_STORES:
        if object_stream(store) not in there:
            await jetstream.create_object_store(store, replicas=replicas)
    return drift


async def _ensure_consumers(jetstream: JetStreamContext, stream: Stream, made: list[str]) -> list[str]:
    drift: list[str] = []
    there = {} if stream.name in made else await _consumers(jetstream, stream)
    for name in (name for of, name in RETIRED_CONSUMERS if of == stream.name and name in there):
        log.warning("topology.consumer_retired", extra={"consumer": name, "stream": stream.name})
        await jetstream.delete_consumer(stream.name, name)
    for consumer in stream.consumers:
        wanted = _consumer_config(consumer)
        if consumer.name not in there:
            await jetstream.add_consumer(stream.name, wanted)
            if stream.name not in made:
                made.append(stream.name)
        else:
            drift += _differences(f"consumer {consumer.name}", wanted, there[consumer.name])
    return drift


async def _consumers(jetstream: JetStreamContext, stream: Stream) -> dict[str, api.ConsumerConfig]:
    if not stream.consumers:
        return {}
    return {info.name: info.config for info in await jetstream.consumers_info(stream.name)}


def _stream_config(stream: Stream, replicas: int) -> api.StreamConfig:
    return api.StreamConfig(
        name=stream.name,
        description=stream.description,
        subjects=list(stream.subjects),
        retention=_RETENTION[stream.retention],
        storage=api.StorageType.FILE,
        discard=api.DiscardPolicy.OLD if stream.retention == "limits" else api.DiscardPolicy.NEW,
        max_age=stream.max_age.total_seconds() if stream.max_age else 0,
        max_bytes=stream.max_bytes or -1,
        duplicate_window=stream.dedupe_window.total_seconds(),
        num_replicas=replicas,
        allow_direct=True,
    )


def _consumer_config(consumer: Consumer) -> api.ConsumerConfig:
    return api.ConsumerConfig(
        durable_name=consumer.name,
        filter_subject=consumer.filter_subject,
        ack_policy=api.AckPolicy.EXPLICIT,
        ack_wait=consumer.ack_wait.total_seconds(),
        max_deliver=consumer.max_deliver,
        max_ack_pending=consumer.max_ack_pending,
    )


_COMPARED = [
    "subjects",
    "retention",
    "storage",
    "discard",
    "max_age",
    "max_bytes",
    "duplicate_window",
    "filter_subject",
    "ack_policy",
    "ack_wait",
    "max_deliver",
    "max_ack_pending",
]


def _differences(
    name: str, wanted: api.StreamConfig | api.ConsumerConfig, found: api.StreamConfig | api.ConsumerConfig
) -> list[str]:
    return [
        f"{name}: {field} is {getattr(found, field)!r}, declared {getattr(wanted, field)!r}"
        for field in _COMPARED
        if hasattr(wanted, field) and getattr(found, field) != getattr(wanted, field)
    ]
