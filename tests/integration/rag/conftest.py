"""What the tests of the rag service's storage stand on: a real Postgres, and a schema of its own for each test."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from headrace.local.loopback import free_port
from headrace.local.postgres_server import PostgresServer
from headrace.rag.service import create_service
from headrace.rag.settings import RagSettings
from tests.support.service_database import ServiceDatabase, service_database


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def superuser_url(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    folder = tmp_path_factory.mktemp("rag") / "postgres"
    server = await PostgresServer(folder, free_port(), "throw-away", durable=False).start()
    yield server.superuser_url
    await server.stop()


@pytest_asyncio.fixture
async def stored(superuser_url: str) -> AsyncIterator[ServiceDatabase]:
    async with service_database(superuser_url, create_service(RagSettings())) as made:
        yield made
