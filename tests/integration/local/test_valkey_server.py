"""The embedded Valkey server, with a real client."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from redis.asyncio import Redis
from redis.exceptions import AuthenticationError

from headrace.local.loopback import free_port
from headrace.local.valkey_server import ValkeyServer


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[ValkeyServer]:
    started = await ValkeyServer(tmp_path / "valkey", free_port(), "known").start()
    yield started
    await started.stop()


async def test_it_keeps_what_it_is_told(server: ValkeyServer) -> None:
    async with Redis.from_url(server.url) as client:
        await client.set("drop", "1")

        assert await client.get("drop") == b"1"


async def test_it_answers_again_after_a_kill(server: ValkeyServer) -> None:
    await server.kill()
    await server.start()

    async with Redis.from_url(server.url) as client:
        assert await client.ping()


async def test_a_wrong_password_is_refused(server: ValkeyServer) -> None:
    async with Redis.from_url(server.url.replace("known", "guessed")) as client:
        with pytest.raises(AuthenticationError):
            await client.ping()
