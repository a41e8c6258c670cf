"""The permissions, subject by subject, against a real NATS: what each service may say and hear, and what it may not."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path

import nats
import pytest_asyncio
from nats.aio.client import Client

from headrace.common import topology
from headrace.common.access import OPERATOR, SERVICES, nats_authorization, permissions
from headrace.contracts.broker import inbox_prefix
from headrace.contracts.streams import STREAMS
from headrace.local.loopback import free_port
from headrace.local.nats_server import NatsServer

SENTINEL = "nobody.may"

MAY_PUBLISH = {
    "run.requested.chat.r": {"gateway"},
    "run.requested.api.r": {"gateway"},
    "run.requested.webhook.r": {"webhooks"},
    "run.requested.schedule.r": {"scheduler"},
    "run.admitted.interactive.r": {"usage"},
    "run.admitted.background.r": {"usage"},
    "run.control.cancel.r": {"gateway"},
    "run.control.refuse.r": {"usage"},
    "run.control.resume.r": {"gateway", "usage"},
    "run.ended.a": {"runner"},
    "account.event.a": {"usage"},
    "run.event.r": {"runner", "usage"},
    "usage.recorded.a": {"runner", "rag"},
    "rag.ingest.kb": {"gateway"},
    "rag.progress.kb": {"rag"},
    "hook.received.generic.s": {"webhooks"},
    "dead.RUNS.usage-admission-chat": {"usage"},
    "dead.ENDS.usage-settlement": {"usage"},
    "dead.DISPATCH.runner-interactive": {"runner"},
    "dead.HOOKS.webhooks-ingest": {"webhooks"},
    "rpc.gateway.find-agent": {"runner", "usage"},
    "rpc.runner.find-run": {"gateway", "usage"},
    "rpc.usage.read-quotas": {"gateway", "runner"},
    "$KV.breakers.shared": {"runner"},
    "rpc.rag.search": {"gateway", "runner"},
    "rpc.webhooks.create-subscription": {"gateway"},
    "rpc.scheduler.create-schedule": {"gateway"},
    "rpc.usage.unseen": set(SERVICES),
    "topology.rebuilt": set(),
    "$JS.API.STREAM.DELETE.RUNS": set(),
    "$JS.API.STREAM.CREATE.OTHER": set(),
    "$JS.API.STREAM.PURGE.RUNS": set(),
    "$JS.API.CONSUMER.CREATE.DISPATCH": set(),
    "$JS.API.CONSUMER.DURABLE.CREATE.RUNS.spy": set(),
    "$JS.API.CONSUMER.MSG.NEXT.RUNS.usage-admission-chat": {"usage"},
    "$JS.API.CONSUMER.MSG.NEXT.RUNS.runner-recorder": {"runner"},
    "$JS.API.CONSUMER.MSG.NEXT.DISPATCH.runner-interactive": {"runner"},
    "$JS.API.CONSUMER.MSG.NEXT.USAGE.usage-ledger": {"usage"},
    "$JS.ACK.DISPATCH.runner-interactive.1.1.1.1.1": {"runner"},
    "$O.files.C.n": {"gateway"},
    "$O.files.M.n": {"gateway"},
    "$JS.API.DIRECT.GET.OBJ_files": {"gateway", "runner"},
    "$JS.API.DIRECT.GET.OBJ_files.$O.files.M.n": {"gateway", "runner"},
    "$JS.API.STREAM.MSG.GET.OBJ_files": {"gateway", "runner"},
    "$JS.API.STREAM.MSG.DELETE.OBJ_files": set(),
    "$JS.API.STREAM.PURGE.OBJ_files": set(),
    "$JS.API.STREAM.DELETE.OBJ_files": set(),
    "$JS.API.CONSUMER.CREATE.OBJ_files": set(),
}

MAY_SUBSCRIBE = {
    "run.requested.>": set(),
    "run.admitted.>": set(),
    "run.control.>": set(),
    "run.event.*": {"gateway"},
    "usage.recorded.>": set(),
    "hook.received.>": set(),
    "rag.ingest.>": set(),
    "$O.files.>": set(),
    "$KV.breakers.*": {"runner"},
    "run.ended.>": set(),
    "account.event.>": set(),
    ">": set(),
    "_INBOX.>": set(),
    "_INBOX.usage.>": {"usage"},
    "rpc.gateway.find-agent": {"gateway"},
    "rpc.usage.unseen": {"usage"},
    "$JS.API.>": set(),
    "topology.rebuilt": set(SERVICES),
}


class Users:
    """A NATS with our permissions, and connections as its users."""

    def __init__(self, server: NatsServer, passwords: dict[str, str]) -> None:
        self._server, self._passwords = server, passwords

    def url(self, user: str) -> str:
        return f"nats://{user}:{self._passwords[user]}@127.0.0.1:{self._server.port}"

    async def refused(
        self, user: str, act: Callable[[Client, str], Awaitable[object]], subjects: Iterable[str]
    ) -> set[str]:
        """The subjects that the server refused to a user. Refusals come in order, so the sentinel's comes last."""
        refusals: list[str] = []
        last = asyncio.Event()

        async def hear(error: Exception) -> None:
            refusals.append(str(error))
            if SENTINEL in str(error):
                last.set()

        client = await nats.connect(self.url(user), inbox_prefix=inbox_prefix(user), error_cb=hear)
        try:
            for subject in (*subjects, SENTINEL):
                await act(client, subject)
            async with asyncio.timeout(10):
                await last.wait()
        finally:
            await client.close()
        said = "\n".join(refusals).lower()
        return {subject for subject in subjects if f'"{subject.lower()}"' in said}


@pytest_asyncio.fixture
async def users(tmp_path: Path) -> AsyncIterator[Users]:
    passwords = {name: secrets.token_urlsafe(16) for name in (*SERVICES, OPERATOR)}
    server = NatsServer(tmp_path / "nats", free_port(), nats_authorization(passwords), durable=False)
    await server.start()
    try:
        users = Users(server, passwords)
        await topology.apply(users.url(OPERATOR))
        yield users
    finally:
        await server.stop()


async def test_each_service_may_publish_its_own_subjects_and_no_others(users: Users) -> None:
    async def publish(client: Client, subject: str) -> None:
        await client.publish(subject, b"{}")

    assert await allowed(users, publish, MAY_PUBLISH) == MAY_PUBLISH


async def test_each_service_may_listen_to_its_own_subjects_and_no_others(users: Users) -> None:
    async def subscribe(client: Client, subject: str) -> None:
        await client.subscribe(subject)

    assert await allowed(users, subscribe, MAY_SUBSCRIBE) == MAY_SUBSCRIBE


async def allowed(
    users: Users, act: Callable[[Client, str], Awaitable[object]], subjects: Iterable[str]
) -> dict[str, set[str]]:
    """Who was not refused, by subject."""
    refused = {service: await users.refused(service, act, subjects) for service in SERVICES}
    return {subject: {s for s in SERVICES if subject not in refused[s]} for subject in subjects}


def test_only_usage_admits() -> None:
    who = {
        service
        for service in SERVICES
        if any(s.startswith("run.admitted") for s in permissions(service).publish)
    }

    assert who == {"usage"}


def test_every_durable_consumer_is_pulled_by_exactly_its_service() -> None:
    for stream in STREAMS:
        for consumer in stream.consumers:
            subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream.name}.{consumer.name}"
            assert {s for s in SERVICES if subject in permissions(s).publish} == {consumer.service}
