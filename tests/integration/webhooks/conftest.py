from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from headrace.local.postgres_server import PostgresServer
from headrace.local.server import free_port
from headrace.webhooks.service import create_service
from headrace.webhooks.settings import WebhooksSettings
from tests.support.service_database import ServiceDatabase, service_database


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def superuser_url(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    folder = tmp_path_factory.mktemp("webhooks") / "postgres"
    server = await PostgresServer(folder, free_port(), "throw-away", durable=False).start()
    yield server.superuser_url
    await server.stop()


@pytest_asyncio.fixture
async def stored(superuser_url: str) -> AsyncIterator[ServiceDatabase]:
    async with service_database(superuser_url, create_service(WebhooksSettings())) as made:
        yield made
