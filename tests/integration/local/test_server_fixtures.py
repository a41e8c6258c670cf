"""The servers that tests are given."""

import asyncpg
import nats
import pytest
from redis.asyncio import Redis

from tests.support.servers import NatsEndpoint, PostgresEndpoint, RedisEndpoint


async def test_nats_lets_each_user_in(nats_server: NatsEndpoint) -> None:
    for url in (nats_server.operator_url, nats_server.url("usage")):
        client = await nats.connect(url, allow_reconnect=False)

        assert client.is_connected
        await client.close()


async def test_each_database_is_new_and_has_the_roles(postgres_server: PostgresEndpoint) -> None:
    databases = [await postgres_server.create_database() for _ in range(2)]

    for database in databases:
        url = postgres_server.url("usage", database).replace("+asyncpg", "")
        connection = await asyncpg.connect(url)
        await connection.execute("CREATE TABLE usage.ledger (id int)")
        await connection.close()


async def test_a_role_stays_out_of_another_schema(postgres_server: PostgresEndpoint) -> None:
    url = postgres_server.url("usage", await postgres_server.create_database())
    connection = await asyncpg.connect(url.replace("+asyncpg", ""))

    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await connection.execute("CREATE TABLE runner.runs (id int)")

    await connection.close()


async def test_redis_answers(redis_server: RedisEndpoint) -> None:
    async with Redis.from_url(redis_server.url) as client:
        assert await client.ping()
