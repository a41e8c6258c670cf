from collections.abc import AsyncIterator

import pytest_asyncio

from headrace.webhooks.service import create_service
from headrace.webhooks.settings import WebhooksSettings
from tests.support.servers import PostgresEndpoint
from tests.support.service_database import ServiceDatabase, service_database


@pytest_asyncio.fixture
async def stored(postgres_server: PostgresEndpoint) -> AsyncIterator[ServiceDatabase]:
    async with service_database(postgres_server.superuser_url, create_service(WebhooksSettings())) as made:
        yield made
