"""A small service on real servers."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.support.ledger_service import Bench, bench
from tests.support.servers import NatsEndpoint, PostgresEndpoint, RedisEndpoint


@pytest_asyncio.fixture
async def ledger(
    nats_server: NatsEndpoint, postgres_server: PostgresEndpoint, redis_server: RedisEndpoint
) -> AsyncIterator[Bench]:
    database = await postgres_server.create_database()
    urls = {user: nats_server.url(user) for user in ("usage", "runner", "operator")}
    database_url = postgres_server.url("usage", database).replace("postgresql://", "postgresql+asyncpg://", 1)
    async with bench(urls, database_url, redis_server.url) as ready:
        yield ready
        for stream in ("USAGE", "DEAD"):
            await ready.operator.jetstream().delete_stream(stream)
