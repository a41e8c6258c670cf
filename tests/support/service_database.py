"""A migrated database of its own for one service, and a record of what was published from it."""

import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TypeVar

import asyncpg
from sqlalchemy import select

from headrace.common import migrate
from headrace.common.app import Service
from headrace.common.db import Database, create_engine
from headrace.common.envelope import decode
from headrace.common.outbox import Outbox, Parcel
from headrace.contracts.message import Message

M = TypeVar("M", bound=Message)


class SetClock:
    """A clock that a test sets."""

    def __init__(self, now: datetime) -> None:
        self.instant = now

    def now(self) -> datetime:
        return self.instant


class ServiceDatabase:
    """A service's schema in a database of its own, without a broker.

    Args:
        database: What the service is given.
        service: Whose schema it is.
        clock: The time.
    """

    def __init__(self, database: Database, service: Service, clock: SetClock) -> None:
        self.database, self.clock = database, clock
        self._outbox = service.metadata.tables[f"{service.name}.outbox"]

    async def outbox(self, kind: type[M]) -> list[M]:
        """The messages of a kind that were committed to be sent."""
        columns = self._outbox.c
        async with self.database.transaction() as tx:
            rows = (await tx.connection.execute(select(columns.headers, columns.body))).all()
        return [decode(kind, row.headers, row.body) for row in rows if row.headers["ce-type"] == kind.type]


@asynccontextmanager
async def service_database(superuser_url: str, service: Service) -> AsyncIterator[ServiceDatabase]:
    """Make a database, migrate the service's schema in it, and drop it afterwards.

    Args:
        superuser_url: `postgresql://...` of a server that tests may fill.
        service: Whose migrations to run.
    """
    name = f"test_{secrets.token_hex(8)}"
    administrator = await asyncpg.connect(superuser_url)
    template = await _migrated(administrator, superuser_url, service)
    await administrator.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    engine = create_engine(_url(superuser_url, name), schema=service.name, pool_size=10)
    clock = SetClock(datetime(2030, 1, 1, 12, tzinfo=UTC))

    async def unpublished(_: Sequence[Parcel]) -> None:
        """The outbox is looked at instead."""

    tables = service.metadata.tables
    outbox = Outbox(tables[f"{service.name}.outbox"])
    try:
        database = Database(engine, outbox, service=service.name, clock=clock, publish=unpublished)
        yield ServiceDatabase(database, service, clock)
    finally:
        await engine.dispose()
        await administrator.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await administrator.close()


_templates: dict[tuple[str, str], str] = {}


async def _migrated(administrator: asyncpg.Connection, superuser_url: str, service: Service) -> str:
    """A database with the service's schema, to make copies of; migrated once for each server in each worker."""
    made = _templates.get((superuser_url, service.name))
    if made is not None:
        return made
    name = f"template_{service.name}_{secrets.token_hex(8)}"
    await administrator.execute(f"CREATE DATABASE {name}")
    engine = create_engine(_url(superuser_url, name), schema=service.name, pool_size=1)
    await migrate.upgrade(engine, service.package)
    await engine.dispose()
    _templates[superuser_url, service.name] = name
    return name


def _url(superuser_url: str, database: str) -> str:
    own = f"{superuser_url.rpartition('/')[0]}/{database}"
    return own.replace("postgresql://", "postgresql+asyncpg://", 1)
