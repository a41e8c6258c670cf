"""Real servers for the tests: a URL from the environment, else a container, else the embedded server.

Each pytest worker has its own. A server that cannot be had is an error, never a skip.
"""

import os
import secrets
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from headrace.common.access import OPERATOR, SERVICES, nats_authorization
from headrace.local.loopback import free_port
from headrace.local.nats_server import NatsServer
from headrace.local.postgres_roles import create_database, prepare_database, service_url
from headrace.local.postgres_server import PostgresServer
from headrace.local.server import EmbeddedServer
from headrace.local.valkey_server import ValkeyServer
from tests.support import containers

_TEMPLATE = "headrace_template"


@dataclass(frozen=True, slots=True)
class NatsEndpoint:
    """NATS with one user per service."""

    _urls: Mapping[str, str]

    def url(self, user: str) -> str:
        return self._urls[user]

    @property
    def operator_url(self) -> str:
        return self._urls[OPERATOR]


@dataclass(frozen=True, slots=True)
class PostgresEndpoint:
    """PostgreSQL with one role per service and a template of the empty database."""

    superuser_url: str
    _passwords: Mapping[str, str]

    def url(self, service: str, database: str) -> str:
        return service_url(self.superuser_url, service, self._passwords[service], database=database)

    async def create_database(self) -> str:
        """Make a database of a test's own; answers its name."""
        name = f"test_{secrets.token_hex(8)}"
        await create_database(self.superuser_url, self._passwords, name, template=_TEMPLATE)
        return name


@dataclass(frozen=True, slots=True)
class RedisEndpoint:
    """Valkey or Redis."""

    url: str


@pytest.fixture(scope="session")
def server_folder() -> Iterator[Path]:
    """A folder outside pytest's own, which each new session closes to PostgreSQL's system user."""
    with tempfile.TemporaryDirectory(prefix="headrace-servers-") as folder:
        yield Path(folder)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def nats_server(server_folder: Path) -> AsyncIterator[NatsEndpoint]:
    users = (*SERVICES, OPERATOR)
    if url := os.environ.get("HEADRACE_TEST_NATS_URL"):
        yield NatsEndpoint(dict.fromkeys(users, url))
        return
    passwords = {user: secrets.token_hex(16) for user in users}
    authorization = nats_authorization(passwords)
    embedded = NatsServer(server_folder / "nats", free_port(), authorization, durable=False)
    async with _address(containers.nats_container(authorization), embedded) as address:
        yield NatsEndpoint({user: f"nats://{user}:{passwords[user]}@{address}" for user in users})


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def postgres_server(server_folder: Path) -> AsyncIterator[PostgresEndpoint]:
    passwords = {service: secrets.token_hex(16) for service in SERVICES}
    async with _superuser_url(server_folder) as superuser_url:
        await prepare_database(superuser_url, passwords, _TEMPLATE)
        yield PostgresEndpoint(superuser_url, passwords)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def redis_server(server_folder: Path) -> AsyncIterator[RedisEndpoint]:
    if url := os.environ.get("HEADRACE_TEST_REDIS_URL"):
        yield RedisEndpoint(url)
        return
    password = secrets.token_hex(16)
    embedded = ValkeyServer(server_folder / "valkey", free_port(), password)
    async with _address(containers.valkey_container(password), embedded) as address:
        yield RedisEndpoint(f"redis://:{password}@{address}/0")


@asynccontextmanager
async def _superuser_url(server_folder: Path) -> AsyncIterator[str]:
    if url := os.environ.get("HEADRACE_TEST_DATABASE_URL"):
        yield url
        return
    password = secrets.token_hex(16)
    folder = server_folder / "postgres"
    embedded = PostgresServer(folder, free_port(), password, durable=False)
    async with _address(containers.postgres_container(password), embedded) as address:
        yield f"postgresql://postgres:{password}@{address}/postgres"


@asynccontextmanager
async def _address(container: AbstractContextManager[str], embedded: EmbeddedServer) -> AsyncIterator[str]:
    if containers.docker_answers():
        with container as address:
            yield address
        return
    await embedded.start()
    try:
        yield f"127.0.0.1:{embedded.port}"
    finally:
        await embedded.stop()
