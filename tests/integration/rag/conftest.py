from collections.abc import AsyncIterator

import pytest_asyncio

from headrace.rag.service import create_service
from headrace.rag.settings import RagSettings
from tests.support.servers import PostgresEndpoint
from tests.support.service_database import ServiceDatabase, service_database


@pytest_asyncio.fixture
async def stored(postgres_server: PostgresEndpoint) -> AsyncIterator[ServiceDatabase]:
    async with service_database(postgres_server.superuser_url, create_service(RagSettings())) as made:
        yield made
