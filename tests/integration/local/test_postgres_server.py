"""The embedded PostgreSQL, with a real client."""

import os
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio

from headrace.local.loopback import free_port
from headrace.local.postgres_roles import database_url, prepare_database, service_url
from headrace.local.postgres_server import PostgresServer
from headrace.local.server import StartError

PASSWORDS = {"gateway": "gate", "runner": "run"}


@pytest_asyncio.fixture
async def server(server_folder: Path) -> AsyncIterator[PostgresServer]:
    folder = Path(tempfile.mkdtemp(dir=server_folder))
    started = await PostgresServer(folder / "postgres", free_port(), "known", durable=False).start()
    await prepare_database(started.superuser_url, PASSWORDS)
    yield started
    await started.stop()


async def connect(server: PostgresServer, service: str, password: str | None = None) -> asyncpg.Connection:
    url = service_url(server.superuser_url, service, password or PASSWORDS[service])
    return await asyncpg.connect(url.replace("+asyncpg", ""))


async def fill(server: PostgresServer) -> None:
    connection = await connect(server, "gateway")
    await connection.execute("CREATE TABLE gateway.keys (id int); INSERT INTO gateway.keys VALUES (7)")
    await connection.close()


async def kept(server: PostgresServer) -> object:
    connection = await connect(server, "gateway")
    try:
        return await connection.fetchval("SELECT id FROM gateway.keys")
    finally:
        await connection.close()


async def test_rows_survive_a_clean_restart(server: PostgresServer) -> None:
    await fill(server)

    await server.stop()
    await server.start()

    assert await kept(server) == 7


async def test_committed_rows_survive_a_kill(server: PostgresServer) -> None:
    await fill(server)

    await server.kill()
    await server.start()

    assert await kept(server) == 7


async def test_preparing_twice_changes_nothing(server: PostgresServer) -> None:
    await fill(server)

    await prepare_database(server.superuser_url, PASSWORDS)

    assert await kept(server) == 7


async def test_a_wrong_password_is_refused(server: PostgresServer) -> None:
    with pytest.raises(asyncpg.InvalidPasswordError):
        await connect(server, "gateway", password="guessed")


async def test_a_role_cannot_read_the_schema_of_another_service(server: PostgresServer) -> None:
    await fill(server)
    stranger = await connect(server, "runner")

    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await stranger.fetchval("SELECT id FROM gateway.keys")

    await stranger.close()


@pytest.mark.parametrize("place", ["public.mine", "gateway.mine"])
async def test_a_role_cannot_write_outside_its_schema(server: PostgresServer, place: str) -> None:
    stranger = await connect(server, "runner")

    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await stranger.execute(f"CREATE TABLE {place} (id int)")

    await stranger.close()


async def test_a_role_cannot_connect_to_another_database(server: PostgresServer) -> None:
    url = database_url(service_url(server.superuser_url, "runner", PASSWORDS["runner"]), "postgres")

    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await asyncpg.connect(url.replace("+asyncpg", ""))


async def test_data_with_another_password_is_explained(server: PostgresServer) -> None:
    await server.stop()
    forgetful = PostgresServer(server.folder, server.port, "forgotten", durable=False)

    with pytest.raises(StartError, match="made with another password"):
        await forgetful.start()

    await server.start()


async def test_the_pid_file_of_a_crash_is_forgotten_when_a_stranger_has_the_pid(
    server: PostgresServer,
) -> None:
    await fill(server)
    lock = server.folder / "postmaster.pid"
    left = lock.read_text()
    await server.kill()
    lock.write_text(left.replace(left.split("\n", 1)[0], str(os.getpid()), 1))

    await server.start()

    assert await kept(server) == 7


async def test_an_interrupted_first_start_leaves_nothing_behind(server_folder: Path) -> None:
    folder = Path(tempfile.mkdtemp(dir=server_folder))
    (folder / "postgres.new" / "base").mkdir(parents=True)

    server = await PostgresServer(folder / "postgres", free_port(), "known", durable=False).start()
    await server.stop()

    assert sorted(path.name for path in folder.iterdir()) == ["postgres", "postgres.log"]  # noqa: ASYNC240
