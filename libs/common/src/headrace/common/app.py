"""The application: builds one service, or several in one process, from the same values."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import uvicorn
from fastapi import APIRouter, FastAPI, Response
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest
from redis.asyncio import Redis
from redis.exceptions import RedisError
from sqlalchemy import MetaData
from starlette.responses import JSONResponse

from headrace.common import faults, problems, telemetry
from headrace.common.bus import Bus
from headrace.common.clock import Clock, SystemClock
from headrace.common.consumer import AnyHandler, ConsumerEdge
from headrace.common.db import Database, create_engine
from headrace.common.delivery import DeliveryPolicy
from headrace.common.errors import HeadraceError, Unavailable
from headrace.common.files import Files
from headrace.common.inbox import Inbox
from headrace.common.outbox import Outbox
from headrace.common.rpc import Answer, Rpc
from headrace.common.settings import InfraSettings
from headrace.common.sweeper import Sweeper
from headrace.common.telemetry import Instruments
from headrace.common.undertaker import Undertaker
from headrace.common.web import BodyLimit
from headrace.contracts.broker import REBUILT_SUBJECT
from headrace.contracts.deliveries import UNSEEN_VERB, FindUnseen, Unseen

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Infra:
    """What a service is given: its schema, the bus, questions, Redis, and the time."""

    settings: InfraSettings
    db: Database
    inbox: Inbox
    bus: Bus
    rpc: Rpc
    redis: "Redis"
    clock: Clock
    instruments: Instruments
    files: Files


@dataclass(frozen=True, slots=True)
class Parts:
    """What a service is made of, once it has its infrastructure."""

    routes: Sequence[APIRouter] = ()
    handlers: Sequence[AnyHandler] = ()
    answers: Sequence[Answer[Any, Any]] = ()
    loops: Sequence[Callable[[], Awaitable[None]]] = ()
    """Work that goes on for as long as the service runs. A loop that raises is begun again, after a pause."""
    prepare: Callable[[], Awaitable[None]] | None = None
    """Done once, when the servers answer and before anything is taken in."""
    streamed: Mapping[str, int] = field(default_factory=dict)
    """The paths whose bodies are taken piece by piece, and the largest body of each, in bytes."""


@dataclass(frozen=True, slots=True)
class Service:
    """A service as a value: its name, its tables, and how it is put together."""

    name: str
    description: str
    metadata: MetaData
    compose: Callable[[Infra], Parts]
    policy: DeliveryPolicy = field(default_factory=DeliveryPolicy)
    longest_pause: timedelta | None = None
    """How long its transactions may stand still, for a service that never waits for anybody in one."""

    @property
    def package(self) -> str:
        """The import package, which holds the migrations."""
        return f"headrace.{self.name}"


def build(service: Service, settings: InfraSettings, *, clock: Clock | None = None) -> FastAPI:
    """Make the ASGI application of a service. Nothing is connected before its lifespan begins.

    Args:
        service: What to run.
        settings: Where the servers are.
        clock: The time; the machine's own when absent.
    """
    infra = _infra(service, settings, clock or SystemClock())
    parts = service.compose(infra)
    app = FastAPI(
        title=f"Headrace {service.name}",
        description=service.description,
        lifespan=_lifespan(service, infra, parts),
    )
    problems.install(app)
    app.add_middleware(BodyLimit, max_bytes=settings.max_body_bytes, streamed=parts.streamed)
    app.include_router(_health(infra, parts))
    for router in parts.routes:
        app.include_router(router)
    return app


def _infra(service: Service, settings: InfraSettings, clock: Clock) -> Infra:
    tables = service.metadata.tables
    inbox = Inbox(tables[f"{service.name}.inbox"], tables[f"{service.name}.attempts"])
    bus = Bus(
        settings.nats_url.get_secret_value(), service=service.name, drain_seconds=settings.drain_seconds
    )
    engine = create_engine(
        settings.database_url.get_secret_value(),
        schema=service.name,
        pool_size=settings.database_pool_size,
        longest_pause=service.longest_pause,
    )
    outbox = Outbox(tables[f"{service.name}.outbox"])
    db = Database(engine, outbox, service=service.name, clock=clock, publish=bus.publish)
    redis = Redis.from_url(settings.redis_url.get_secret_value(), socket_timeout=2, socket_connect_timeout=2)
    return Infra(settings, db, inbox, bus, Rpc(bus), redis, clock, Instruments(service.name), Files(bus))


def _lifespan(service: Service, infra: Infra, parts: Parts) -> Callable[[FastAPI], Any]:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            await _connect(service, infra, parts)
            stack.push_async_callback(infra.db.engine.dispose)
            stack.push_async_callback(infra.redis.aclose)
            stack.push_async_callback(infra.bus.close)
            sweeper = Sweeper(infra.db, infra.inbox, infra.bus, infra.rpc)
            infra.instruments.gauge(
                "headrace_outbox_depth", "Messages that not every consumer has seen.", lambda: sweeper.depth
            )
            if parts.prepare is not None:
                await parts.prepare()
            await infra.bus.watch(REBUILT_SUBJECT, _looking(sweeper))
            await Undertaker(infra.bus, infra.db, infra.inbox).watch(parts.handlers)
            verbs = [*parts.answers, Answer(UNSEEN_VERB, FindUnseen, _unseen(infra))]
            await infra.rpc.serve(service.name, verbs, description=service.description)
            loops = [asyncio.create_task(_kept_running(loop)) for loop in (sweeper.run, *parts.loops)]
            edges = [
                ConsumerEdge(
                    handler,
                    database=infra.db,
                    inbox=infra.inbox,
                    policy=service.policy,
                    instruments=infra.instruments,
                )
                for handler in parts.handlers
            ]
            await infra.bus.start([edge.subscription() for edge in edges])
            log.info("service.ready", extra={"consumers": [e.subscription().consumer.name for e in edges]})
            try:
                yield
            finally:
                log.info("service.draining")
                await infra.bus.drain()
                for task in loops:
                    task.cancel()
                await asyncio.gather(*loops, return_exceptions=True)

    return lifespan


async def _connect(service: Service, infra: Infra, parts: Parts) -> None:
    """Wait for the servers, each for as long as the settings say, and migrate where that is asked for."""
    patience = infra.settings.startup_patience_seconds
    await _patiently(infra.bus.connect, patience)
    await _patiently(infra.db.check, patience)
    await _patiently(lambda: check_redis(infra.redis), patience)
    if infra.settings.migrate_on_start:
        from headrace.common import migrate  # noqa: PLC0415  (Alembic takes a second to import; production never does)

        await migrate.upgrade(infra.db.engine, service.package)
    for handler in parts.handlers:
        await _patiently(lambda handler=handler: infra.bus.check_consumer(handler.consumer), patience)  # type: ignore[misc]  # a default binds the loop's value


async def _patiently(step: Callable[[], Awaitable[None]], patience: float) -> None:
    """Repeat a step that a starting server refuses.

    Raises:
        Unavailable: It still does after `patience` seconds.
    """
    deadline = asyncio.get_running_loop().time() + patience
    while True:
        try:
            await step()
        except Unavailable:
            if asyncio.get_running_loop().time() > deadline:
                raise
            await asyncio.sleep(0.1)
        else:
            return


async def check_redis(redis: "Redis") -> None:
    """See Redis answer.

    Raises:
        Unavailable: It does not.
    """
    try:
        await redis.ping()
    except (RedisError, OSError) as error:
        raise Unavailable("Redis does not answer") from error


def _looking(sweeper: Sweeper) -> Callable[[object], Awaitable[None]]:
    async def look(_: object) -> None:
        sweeper.look_now()

    return look


def _unseen(infra: Infra) -> Callable[[FindUnseen], Awaitable[Unseen]]:
    async def answer(question: FindUnseen) -> Unseen:
        async with infra.db.transaction() as tx:
            ids = await infra.inbox.unseen(tx.connection, question.consumer, question.message_ids)
        return Unseen(message_ids=ids)

    return answer


async def _kept_running(loop: Callable[[], Awaitable[None]], pause: timedelta = timedelta(seconds=1)) -> None:
    while True:
        try:
            await loop()
        except HeadraceError as error:
            log.warning(
                "loop.postponed", extra={"loop": getattr(loop, "__qualname__", "?"), "error": str(error)}
            )
        except Exception:
            log.exception("loop.failed", extra={"loop": getattr(loop, "__qualname__", "?")})
        await asyncio.sleep(pause.total_seconds())


def _health(infra: Infra, parts: Parts) -> APIRouter:
    router = APIRouter(tags=["health"])

    @router.get("/healthz")
    async def healthz() -> dict[str, str]:
        """The process is alive."""
        return {"status": "alive"}

    @router.get("/readyz")
    async def readyz() -> JSONResponse:
        """The servers and the service's own consumers really answer."""
        checks: dict[str, Callable[[], Awaitable[None]]] = {
            "database": infra.db.check,
            "broker": infra.bus.check,
            "redis": lambda: check_redis(infra.redis),
        }
        for handler in parts.handlers:
            checks[handler.consumer.name] = lambda handler=handler: infra.bus.check_consumer(handler.consumer)  # type: ignore[misc]  # a default binds the loop's value
        results = await asyncio.gather(*(check() for check in checks.values()), return_exceptions=True)
        told = {name: "ok" if r is None else str(r) for name, r in zip(checks, results, strict=True)}
        ready = all(result is None for result in results)
        return JSONResponse({"ready": ready, "checks": told}, 200 if ready else 503)

    @router.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        """Prometheus text."""
        return Response(generate_latest(REGISTRY), media_type=CONTENT_TYPE_LATEST)

    return router


def serve(service: Service, settings: InfraSettings, *, port: int) -> None:
    """Run a service until SIGTERM or SIGINT, then drain.

    Args:
        service: What to run.
        settings: Where the servers are.
        port: The HTTP port.
    """
    faults.watch(settings.faults)
    stop_telemetry = telemetry.configure(service.name, settings)
    config = uvicorn.Config(
        build(service, settings),
        host=settings.host,
        port=port,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=round(settings.drain_seconds),
        server_header=False,
    )
    try:
        uvicorn.Server(config).run()
    finally:
        stop_telemetry()


def main(service: Service, settings: InfraSettings, *, port: int, argv: Sequence[str]) -> None:
    """The command line of a service: `serve` (the default) or `migrate`."""
    match list(argv):
        case [] | ["serve"]:
            serve(service, settings, port=port)
        case ["migrate"]:
            from headrace.common import migrate  # noqa: PLC0415  (as above)

            engine = create_engine(settings.database_url.get_secret_value(), schema=service.name, pool_size=1)
            migrate.migrate_now(engine, service.package)
        case _:
            raise SystemExit(f"usage: python -m {service.package} [serve|migrate]")
