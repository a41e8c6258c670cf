"""A small service on real servers: the usage ledger's consumer, with a handler that a test gives."""

import asyncio
import base64
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import nats
import nats.js.errors
from nats.aio.client import Client
from nats.js import api

from headrace.common import topology
from headrace.common.app import Infra, Parts, Service, build
from headrace.common.consumer import Handler
from headrace.common.db import Transaction
from headrace.common.delivery import DeliveryPolicy
from headrace.common.envelope import MESSAGE_ID, headers_of
from headrace.common.settings import InfraSettings
from headrace.contracts.broker import inbox_prefix
from headrace.contracts.deliveries import DeadLetter
from headrace.contracts.runs import TokenCount
from headrace.contracts.streams import USAGE, USAGE_LEDGER
from headrace.contracts.usage import UsageRecorded
from headrace.usage.models import metadata

SECRET_KEY = base64.urlsafe_b64encode(bytes(32)).decode()
POLICY = DeliveryPolicy(attempts=3, first_delay=0.05, longest_delay=0.2)

Act = Callable[[UsageRecorded, Transaction], Awaitable[None]]


def used(name: str) -> UsageRecorded:
    """A model call to enter into the ledger."""
    return UsageRecorded(
        account_id="acme",
        run_id=name,
        agent_id="assistant",
        path="root",
        seq=1,
        model="scripted",
        tokens=TokenCount(input_tokens=1),
        latency_ms=1,
        recorded_at=datetime(2030, 1, 1, tzinfo=UTC),
    )


def service(act: Act) -> Service:
    """The service as a value."""

    def compose(_: Infra) -> Parts:
        return Parts(handlers=(Handler(consumer=USAGE_LEDGER, act=act, concurrency=4),))

    return Service("usage", "A ledger under test.", metadata, compose, policy=POLICY)


@dataclass(frozen=True)
class Bench:
    """Real servers prepared for the service, a sender, and an operator's eye."""

    settings: InfraSettings
    sender: Client
    operator: Client

    @asynccontextmanager
    async def running(self, act: Act) -> AsyncIterator[None]:
        """Run the service in this process."""
        app = build(service(act), self.settings)
        async with app.router.lifespan_context(app):
            yield

    async def running_apart(self, module: str) -> asyncio.subprocess.Process:
        """Run a module as a process that reads the same settings."""
        s = self.settings
        environment = {
            **os.environ,
            "HEADRACE_NATS_URL": s.nats_url.get_secret_value(),
            "HEADRACE_DATABASE_URL": s.database_url.get_secret_value(),
            "HEADRACE_REDIS_URL": s.redis_url.get_secret_value(),
            "HEADRACE_SECRET_KEYS": s.secret_keys.get_secret_value(),
            "HEADRACE_MIGRATE_ON_START": "true",
        }
        return await asyncio.create_subprocess_exec(sys.executable, "-m", module, env=environment)

    async def send(
        self, message: UsageRecorded, *, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> None:
        """Publish, with some headers instead of the right ones; an empty one is left out."""
        packed = headers_of(message, source="runner", now=datetime.now(UTC)) | (headers or {})
        told = {name: value for name, value in packed.items() if value}
        await self.sender.jetstream().publish(
            message.subject, message.model_dump_json().encode() if body is None else body, headers=told
        )

    async def send_copy(self, message: UsageRecorded) -> None:
        """Publish a copy that the broker does not recognise as one."""
        await self.send(message, headers={MESSAGE_ID: ""})

    async def dead_letter(self) -> DeadLetter:
        """The last dead letter of the consumer; an `AssertionError` while there is none."""
        subject = DeadLetter.wildcard(stream=USAGE.name, consumer=USAGE_LEDGER.name)
        try:
            message = await self.operator.jetstream().get_last_msg("DEAD", subject)
        except nats.js.errors.NotFoundError:
            raise AssertionError("there is no dead letter") from None
        return DeadLetter.model_validate_json(message.data or b"")

    async def waiting(self) -> int:
        """Messages that the consumer has not settled."""
        info = await self.operator.jetstream().consumer_info(USAGE.name, USAGE_LEDGER.name)
        return (info.num_pending or 0) + (info.num_ack_pending or 0)

    async def hurry(self, *, ack_wait: timedelta, max_deliver: int = 60) -> None:
        """Make the consumer impatient, since a test should not wait as long as production does."""
        await self.operator.jetstream().add_consumer(
            USAGE.name,
            api.ConsumerConfig(
                durable_name=USAGE_LEDGER.name,
                filter_subject=USAGE_LEDGER.filter_subject,
                ack_policy=api.AckPolicy.EXPLICIT,
                ack_wait=ack_wait.total_seconds(),
                max_deliver=max_deliver,
                max_ack_pending=USAGE_LEDGER.max_ack_pending,
            ),
        )


@asynccontextmanager
async def bench(nats_urls: dict[str, str], database_url: str, redis_url: str) -> AsyncIterator[Bench]:
    """Make streams and connections; `nats_urls` by user."""
    await topology.apply(nats_urls["operator"])
    settings = InfraSettings(
        nats_url=nats_urls["usage"],
        database_url=database_url,
        redis_url=redis_url,
        secret_keys=SECRET_KEY,
        migrate_on_start=True,
        drain_seconds=2,
    )
    sender = await nats.connect(nats_urls["runner"], inbox_prefix=inbox_prefix("runner"))
    operator = await nats.connect(nats_urls["operator"], inbox_prefix=inbox_prefix("operator"))
    try:
        yield Bench(settings, sender, operator)
    finally:
        await sender.close()
        await operator.close()
