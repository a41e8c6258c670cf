from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from fastapi import FastAPI
from sqlalchemy import insert

from headrace.common import problems
from headrace.gateway import repository
from headrace.gateway.api.again import again_router
from headrace.gateway.api.agents import agents_router
from headrace.gateway.api.decisions import decisions_router
from headrace.gateway.api.runs import runs_router
from headrace.gateway.api.tools import tools_router
from headrace.gateway.auth import KeyDoor, hash_key
from headrace.gateway.commands import Commands
from headrace.gateway.events import EventLog
from headrace.gateway.models import accounts, api_keys
from headrace.gateway.planning import Planner
from headrace.gateway.reading import RunReader
from headrace.gateway.service import create_service
from headrace.gateway.settings import GatewaySettings
from tests.support.servers import PostgresEndpoint
from tests.support.service_database import ServiceDatabase, service_database
from tests.unit.gateway.desk import AGENT, BY, KEY, Desk
from tests.unit.gateway.fakes import NOW, KeepingBus, ToldRpc


@pytest_asyncio.fixture
async def stored(postgres_server: PostgresEndpoint) -> AsyncIterator[ServiceDatabase]:
    async with service_database(postgres_server.superuser_url, create_service(GatewaySettings())) as made:
        async with made.database.transaction() as tx:
            for account, key in (("acc_1", KEY), ("acc_2", "hr_other")):
                await tx.connection.execute(
                    insert(accounts), {"account_id": account, "name": account, "created_at": NOW}
                )
                await tx.connection.execute(
                    insert(api_keys),
                    {"key_hash": hash_key(key), "account_id": account, "label": "desk", "created_at": NOW},
                )
            await repository.create_agent(tx.connection, AGENT, now=NOW)
        yield made


_NO_FILES: Any = None


@pytest.fixture
def rpc() -> ToldRpc:
    return ToldRpc()


@pytest_asyncio.fixture
async def desk(stored: ServiceDatabase, rpc: ToldRpc) -> AsyncIterator[Desk]:
    app = FastAPI()
    problems.install(app)
    door = KeyDoor(stored.database)
    reader, commands = RunReader(door, rpc), Commands(door, stored.clock)
    events = EventLog(KeepingBus(), rpc, doubt=1, ping=15)
    app.include_router(runs_router(door, events, reader, commands, stored.clock, files=_NO_FILES))
    app.include_router(decisions_router(door, reader, commands))
    app.include_router(again_router(door, reader, Planner(reader, rpc), commands, stored.clock))
    app.include_router(agents_router(door, rpc, stored.clock))
    app.include_router(tools_router(door, rpc))
    headers = {"Authorization": f"Bearer {KEY}"}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://door", headers=headers
    ) as http:
        yield Desk(http, rpc, stored)


@pytest.fixture
def by() -> str:
    """Who the desk's caller is, for the record."""
    return BY
