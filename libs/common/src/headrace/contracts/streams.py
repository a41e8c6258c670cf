"""Every JetStream stream, durable consumer and bucket, as plain data. The operator's identity applies them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from headrace.contracts.account_events import AccountEvent
from headrace.contracts.deliveries import DeadLetter
from headrace.contracts.hooks import HookReceived
from headrace.contracts.knowledge import IngestDocument
from headrace.contracts.message import Message
from headrace.contracts.runs import Door, Lane, RunAdmitted, RunControl, RunEnded, RunEvent, RunRequested
from headrace.contracts.usage import UsageRecorded

ACK_WAIT = timedelta(seconds=10)
"""Silence after which a delivery is made again; a live handler's edge says "in progress" well before."""
DEDUPE_WINDOW = timedelta(seconds=10)
"""A first filter against copies. The guarantee is the inbox's primary key, so this may be short."""
MAX_DELIVER = 60
"""The broker's own bound, far above the consumer edge's: reached only where the edge never gets to decide."""


@dataclass(frozen=True, slots=True)
class Consumer:
    """A durable pull consumer: `<service>-<what it does>`."""

    name: str
    service: str
    filter_subject: str
    message: type[Message]
    ack_wait: timedelta = ACK_WAIT
    max_deliver: int = MAX_DELIVER
    max_ack_pending: int = 1_000


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream and who consumes it."""

    name: str
    message: type[Message]
    retention: Literal["interest", "workqueue", "limits"]
    description: str
    consumers: tuple[Consumer, ...] = ()
    max_age: timedelta | None = None
    max_bytes: int | None = None
    dedupe_window: timedelta = DEDUPE_WINDOW

    @property
    def subjects(self) -> tuple[str, ...]:
        """The subjects the stream keeps."""
        return (self.message.wildcard(),)


def _consumer(service: str, role: str, message: type[Message], **known: str) -> Consumer:
    return Consumer(f"{service}-{role}", service, message.wildcard(**known), message)


USAGE_ADMISSION = {door: _consumer("usage", f"admission-{door}", RunRequested, door=door) for door in Door}
"""One queue for each door, so that a burst of mail does not stand before a person who is chatting."""
RUNNER_RECORDER = _consumer("runner", "recorder", RunRequested)
RUNNER_INTERACTIVE = _consumer("runner", "interactive", RunAdmitted, lane=Lane.INTERACTIVE)
RUNNER_BACKGROUND = _consumer("runner", "background", RunAdmitted, lane=Lane.BACKGROUND)
RUNNER_CONTROL = _consumer("runner", "control", RunControl)
WEBHOOKS_INGEST = _consumer("webhooks", "ingest", HookReceived)
RAG_INGEST = _consumer("rag", "ingest", IngestDocument)
USAGE_LEDGER = _consumer("usage", "ledger", UsageRecorded)
USAGE_SETTLEMENT = _consumer("usage", "settlement", RunEnded)

RUNS = Stream(
    "RUNS",
    RunRequested,
    "interest",
    "Runs that were asked for.",
    (*USAGE_ADMISSION.values(), RUNNER_RECORDER),
)
DISPATCH = Stream(
    "DISPATCH", RunAdmitted, "workqueue", "Runs that were let in.", (RUNNER_INTERACTIVE, RUNNER_BACKGROUND)
)
CONTROL = Stream("CONTROL", RunControl, "workqueue", "Decisions about runs.", (RUNNER_CONTROL,))
EVENTS = Stream(
    "EVENTS",
    RunEvent,
    "limits",
    "What happens in runs, for those who watch.",
    max_age=timedelta(hours=24),
    max_bytes=1024**3,
    dedupe_window=timedelta(minutes=2),
)
HOOKS = Stream(
    "HOOKS", HookReceived, "workqueue", "Webhook deliveries to turn into runs.", (WEBHOOKS_INGEST,)
)
INGEST = Stream("INGEST", IngestDocument, "workqueue", "Documents to index.", (RAG_INGEST,))
USAGE = Stream("USAGE", UsageRecorded, "workqueue", "Model calls for the ledger.", (USAGE_LEDGER,))
ENDS = Stream("ENDS", RunEnded, "workqueue", "Runs that ended, for their holds.", (USAGE_SETTLEMENT,))
NOTICES = Stream(
    "NOTICES", AccountEvent, "limits", "What accounts should know of.", max_age=timedelta(days=30)
)
DEAD = Stream(
    "DEAD",
    DeadLetter,
    "limits",
    "Deliveries that were given up.",
    max_age=timedelta(days=30),
    dedupe_window=timedelta(minutes=2),
)

STREAMS = (RUNS, DISPATCH, CONTROL, EVENTS, HOOKS, INGEST, USAGE, ENDS, NOTICES, DEAD)
RETIRED_CONSUMERS = (("RUNS", "usage-admission"),)
"""What earlier versions had. An interest stream keeps what a consumer never sees, so these are deleted."""

BREAKERS = "breakers"
"""The bucket of the providers' credentials that are not to be used for a while."""
KEY_VALUE_BUCKETS = ("agents", BREAKERS)
FILES = "files"
"""The object store of what runs are given: each content once, under its hash."""
OBJECT_STORES = (FILES,)


def object_stream(store: str) -> str:
    """The stream that keeps an object store."""
    return f"OBJ_{store}"


def bucket_stream(bucket: str) -> str:
    """The stream that keeps a key-value bucket."""
    return f"KV_{bucket}"


def bucket_subject(bucket: str, key: str) -> str:
    """The subject on which a key's value is written."""
    return f"$KV.{bucket}.{key}"


def stream_of(message: type[Message]) -> Stream:
    """The one stream that keeps a kind of message.

    Raises:
        LookupError: The message is in no stream.
    """
    for stream in STREAMS:
        if stream.message is message:
            return stream
    raise LookupError(f"{message.__name__} is in no stream")


def consumers_of(message: Message) -> Iterator[Consumer]:
    """The durable consumers that must see a message."""
    subject = message.subject
    return (c for c in stream_of(type(message)).consumers if matches(c.filter_subject, subject))


def matches(filter_subject: str, subject: str) -> bool:
    """Whether a subject passes a filter of plain tokens and `*`."""
    wanted, given = filter_subject.split("."), subject.split(".")
    return len(wanted) == len(given) and all(w in ("*", g) for w, g in zip(wanted, given, strict=True))
