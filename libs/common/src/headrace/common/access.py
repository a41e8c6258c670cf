"""Who may do what at the broker: one user per service with the least permissions.

Only the usage service may publish `run.admitted.>`; a runner may pull what was requested through its own recorder
but can neither subscribe to `run.requested.>` nor publish it. The operator's identity owns streams and consumers.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.contracts.account_events import AccountEvent
from headrace.contracts.broker import MAX_DELIVERIES_ADVISORY, REBUILT_SUBJECT, inbox_prefix
from headrace.contracts.deliveries import DeadLetter
from headrace.contracts.hooks import HookReceived
from headrace.contracts.knowledge import IngestDocument
from headrace.contracts.runs import Door, RunAdmitted, RunControl, RunEnded, RunEvent, RunRequested
from headrace.contracts.streams import (
    BREAKERS,
    EVENTS,
    FILES,
    STREAMS,
    Consumer,
    Stream,
    bucket_stream,
    bucket_subject,
    object_stream,
)
from headrace.contracts.usage import UsageRecorded

SERVICES = ("gateway", "runner", "rag", "webhooks", "scheduler", "usage")
OPERATOR = "operator"

PUBLISHES: Mapping[str, tuple[str, ...]] = {
    "gateway": (
        RunRequested.wildcard(door=Door.CHAT),
        RunRequested.wildcard(door=Door.API),
        *(RunControl.wildcard(verb=verb) for verb in ("cancel", "approve", "resolve", "resume")),
        IngestDocument.wildcard(),
        f"$O.{FILES}.C.*",
        f"$O.{FILES}.M.*",
    ),
    "usage": (
        RunAdmitted.wildcard(),
        RunEvent.wildcard(),
        *(RunControl.wildcard(verb=verb) for verb in ("refuse", "resume")),
        AccountEvent.wildcard(),
    ),
    "runner": (
        RunEvent.wildcard(),
        RunEnded.wildcard(),
        UsageRecorded.wildcard(),
        bucket_subject(BREAKERS, "*"),
        f"$JS.API.DIRECT.GET.{bucket_stream(BREAKERS)}.>",
    ),
    "rag": ("rag.progress.*", UsageRecorded.wildcard()),
    "webhooks": (HookReceived.wildcard(), RunRequested.wildcard(door=Door.WEBHOOK)),
    "scheduler": (RunRequested.wildcard(door=Door.SCHEDULE),),
}
"""The facts and commands that each service may say; nobody else may say them."""

WATCHES: Mapping[str, tuple[str, ...]] = {
    "gateway": (RunEvent.wildcard(),),
    "runner": (bucket_subject(BREAKERS, "*"),),
}
"""The subjects that a service may listen to without a consumer."""

ASKS: Mapping[str, tuple[str, ...]] = {
    "gateway": ("webhooks", "scheduler", "rag", "runner", "usage"),
    "runner": ("gateway", "rag", "usage"),
    "usage": ("gateway", "runner"),
}
"""The services whose verbs each service may call. Everybody may ask a consumer what it has not seen."""

READS_FILES = ("gateway", "runner")
"""The services that may read the object store of files; who may write it is in `PUBLISHES`."""


@dataclass(frozen=True, slots=True)
class Permissions:
    """What one user may publish and subscribe to."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


def permissions(service: str) -> Permissions:
    """The permissions of a service's user."""
    own = [
        (stream, consumer)
        for stream in STREAMS
        for consumer in stream.consumers
        if consumer.service == service
    ]
    publish = [
        *PUBLISHES[service],
        *(DeadLetter.wildcard(stream=stream.name, consumer=consumer.name) for stream, consumer in own),
        *(f"rpc.{other}.>" for other in ASKS.get(service, ())),
        "rpc.*.unseen",
        "$SRV.>",
    ]
    for stream, consumer in own:
        publish += _consuming(stream, consumer)
    if service == "gateway":
        publish += [
            f"$JS.API.STREAM.INFO.{EVENTS.name}",
            f"$JS.API.DIRECT.GET.{EVENTS.name}",
            f"$JS.API.DIRECT.GET.{EVENTS.name}.>",
        ]
    if service in READS_FILES:
        files = object_stream(FILES)
        publish += [
            f"$JS.API.DIRECT.GET.{files}",
            f"$JS.API.DIRECT.GET.{files}.>",
            f"$JS.API.STREAM.MSG.GET.{files}",
        ]
    subscribe = [
        f"{inbox_prefix(service)}.>",
        *WATCHES.get(service, ()),
        f"rpc.{service}.>",
        "$SRV.>",
        REBUILT_SUBJECT,
        *(
            MAX_DELIVERIES_ADVISORY.format(stream=stream.name, consumer=consumer.name)
            for stream, consumer in own
        ),
    ]
    return Permissions(tuple(dict.fromkeys(publish)), tuple(subscribe))


def _consuming(stream: Stream, consumer: Consumer) -> list[str]:
    """What it takes to pull, acknowledge and, at the very end, bury."""
    allowed = [
        f"$JS.API.CONSUMER.MSG.NEXT.{stream.name}.{consumer.name}",
        f"$JS.API.CONSUMER.INFO.{stream.name}.{consumer.name}",
        f"$JS.ACK.{stream.name}.{consumer.name}.>",
        f"$JS.API.STREAM.MSG.GET.{stream.name}",
    ]
    if stream.retention == "workqueue":
        allowed.append(f"$JS.API.STREAM.MSG.DELETE.{stream.name}")
    return allowed


def nats_authorization(passwords: Mapping[str, str]) -> str:
    """The `authorization` block of a nats-server configuration.

    Args:
        passwords: A password for each service, and the operator's.
    """
    users = [_user(service, passwords[service], permissions(service)) for service in SERVICES]
    users.append(f"    {{ user: {OPERATOR}, password: {json.dumps(passwords[OPERATOR])} }}")
    return "authorization {\n  users: [\n" + "\n".join(users) + "\n  ]\n}\n"


def _user(name: str, password: str, allowed: Permissions) -> str:
    return (
        f"    {{ user: {name}, password: {json.dumps(password)}, permissions: {{\n"
        f"      publish: {json.dumps(allowed.publish)}\n"
        f"      subscribe: {json.dumps(allowed.subscribe)}\n"
        '      allow_responses: { max: 1, expires: "1m" }\n    } }'
    )
