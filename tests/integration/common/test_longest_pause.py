"""A transaction that stands still for too long is ended by Postgres, and its locks with it."""

import asyncio
from datetime import timedelta

import pytest
from sqlalchemy import text

from headrace.common.db import create_engine, database_errors
from headrace.common.errors import Unavailable
from tests.support.servers import PostgresEndpoint


async def test_transaction_that_stood_still_is_an_absent_database_to_whoever_goes_on_with_it(
    postgres_server: PostgresEndpoint,
) -> None:
    url = postgres_server.superuser_url.replace("postgresql://", "postgresql+asyncpg://", 1)
    engine = create_engine(url, schema="public", pool_size=1, longest_pause=timedelta(milliseconds=50))

    async def stands_still() -> None:
        with database_errors():
            async with engine.begin() as connection:
                await connection.execute(text("SELECT 1"))
                await asyncio.sleep(0.5)
                await connection.execute(text("SELECT 1"))

    try:
        with pytest.raises(Unavailable):
            await stands_still()
        async with engine.begin() as connection:
            assert (await connection.execute(text("SELECT 1"))).scalar_one() == 1
    finally:
        await engine.dispose()
