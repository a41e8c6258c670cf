"""Postgres: one transaction per message or request, committed at the edge, with its messages beside it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from headrace.common.clock import Clock
from headrace.common.envelope import headers_of
from headrace.common.errors import Unavailable
from headrace.common.faults import point
from headrace.common.outbox import Outbox, Parcel
from headrace.contracts.message import Message


def create_engine(
    url: str, *, schema: str, pool_size: int, longest_pause: timedelta | None = None
) -> AsyncEngine:
    """Make the engine of one service; no connection is opened yet.

    Args:
        url: `postgresql+asyncpg://...` with the service's own role.
        schema: The service's schema, the only one on its search path.
        pool_size: Connections kept open.
        longest_pause: How long a transaction may stand still before Postgres ends it, so that the locks of a process
            that froze are not held for as long as it is frozen; by default Postgres's own setting.
    """
    pause = {}
    if longest_pause is not None:
        pause = {"idle_in_transaction_session_timeout": f"{longest_pause.total_seconds() * 1_000:.0f}"}
    return create_async_engine(
        url,
        hide_parameters=True,
        pool_size=pool_size,
        max_overflow=pool_size,
        pool_timeout=10,
        pool_recycle=1_800,
        connect_args={
            "timeout": 5,
            "command_timeout": 30,
            "server_settings": {"search_path": schema, "application_name": f"headrace-{schema}", **pause},
        },
    )


@dataclass(slots=True)
class Transaction:
    """What one message or request does: its SQL, and the messages that leave when it commits."""

    connection: AsyncConnection
    _outbox: Outbox
    _source: str
    _clock: Clock
    parcels: list[Parcel] = field(default_factory=list)

    async def send(self, *messages: Message) -> None:
        """Write messages into the outbox; they leave after the commit, or not at all."""
        now = self._clock.now()
        packed = [
            Parcel.pack(message, headers_of(message, source=self._source, now=now)) for message in messages
        ]
        await self._outbox.add(self.connection, packed, now=now)
        self.parcels += packed


Publish = Callable[[Sequence[Parcel]], Awaitable[None]]


class Database:
    """A service's schema, and the only place that commits.

    Args:
        engine: Connections.
        outbox: The service's outbox table.
        service: Its name, the source of what it sends.
        clock: The time.
        publish: Takes committed messages to the broker; must not raise, since the outbox's sweep makes good.
    """

    def __init__(
        self, engine: AsyncEngine, outbox: Outbox, *, service: str, clock: Clock, publish: Publish
    ) -> None:
        self.engine = engine
        self.outbox = outbox
        self.service = service
        self.clock = clock
        self._publish = publish

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """Commit at the end and publish; roll back and publish nothing on any error.

        Raises:
            Unavailable: Postgres does not answer.
        """
        with database_errors():
            async with self.engine.begin() as connection:
                transaction = Transaction(connection, self.outbox, self.service, self.clock)
                yield transaction
        if transaction.parcels:
            point(f"{self.service}.publish.before")
            await self._publish(transaction.parcels)
            point(f"{self.service}.publish.after")

    async def check(self) -> None:
        """See Postgres answer.

        Raises:
            Unavailable: It does not.
        """
        async with self.transaction() as tx:
            await tx.connection.execute(text("SELECT 1"))


class database_errors:  # noqa: N801  (reads as a statement: `with database_errors():`)
    """Turn the many ways in which a database can be away into `Unavailable`."""

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and _is_absence(error):
            raise Unavailable(f"the database does not answer ({type(error).__name__})") from error


_STOOD_STILL = "25P03"
"""Postgres ended the connection, since its transaction stood still for too long."""


def _is_absence(error: BaseException) -> bool:
    match error:
        case OperationalError() | InterfaceError() | PoolTimeoutError() | ConnectionError():
            return True
        case DBAPIError(connection_invalidated=True):
            return True
        case DBAPIError():
            state = getattr(error.orig, "sqlstate", None) or ""
            return state[:2] in ("08", "57", "53") or state == _STOOD_STILL
        case OSError() | asyncio.TimeoutError():
            return True
        case _:
            return False
