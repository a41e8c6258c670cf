"""The embedded NATS server, with a real client."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import nats
import pytest
import pytest_asyncio
from nats.aio.client import Client

from headrace.local.loopback import free_port
from headrace.local.nats_server import NatsServer
from headrace.local.server import StartError

AUTHORIZATION = "authorization { users: [ { user: ann, password: known } ] }"


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[NatsServer]:
    started = await NatsServer(tmp_path / "nats", free_port(), AUTHORIZATION).start()
    yield started
    await started.stop()


async def connect(server: NatsServer) -> Client:
    return await nats.connect(f"nats://ann:known@127.0.0.1:{server.port}", allow_reconnect=False)


async def test_a_stream_survives_a_clean_restart(server: NatsServer) -> None:
    client = await connect(server)
    await client.jetstream().add_stream(name="KEPT", subjects=["kept"])
    await client.jetstream().publish("kept", b"a drop")
    await client.close()

    await server.stop()
    await server.start()

    client = await connect(server)
    message = await client.jetstream().get_msg("KEPT", 1)
    await client.close()
    assert message.data == b"a drop"


async def test_an_acknowledged_message_survives_a_kill(server: NatsServer) -> None:
    client = await connect(server)
    await client.jetstream().add_stream(name="KEPT", subjects=["kept"])
    await client.jetstream().publish("kept", b"a drop")
    killed = server.pid

    await server.kill()
    await client.close()
    await server.start()

    client = await connect(server)
    message = await client.jetstream().get_msg("KEPT", 1)
    await client.close()
    assert (message.data, server.pid != killed) == (b"a drop", True)


async def test_a_wrong_password_is_refused(server: NatsServer) -> None:
    login = json.dumps({"user": "ann", "pass": "guessed", "verbose": True}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    await reader.readline()

    writer.write(b"CONNECT " + login + b"\r\n")
    answer = await reader.readline()

    writer.close()
    await writer.wait_closed()
    assert answer == b"-ERR 'Authorization Violation'\r\n"


async def test_the_configuration_is_private(server: NatsServer) -> None:
    assert (server.folder / "nats.conf").stat().st_mode & 0o777 == 0o600


async def test_a_server_that_cannot_start_says_why_and_what_to_do(tmp_path: Path) -> None:
    server = NatsServer(tmp_path / "nats", free_port(), "authorization {")

    with pytest.raises(StartError) as failure:
        await server.start()

    assert "nats ended at its start with exit code 1" in str(failure.value)
    assert "Unexpected EOF" in str(failure.value)
    assert f"What to do: read {server.log}" in str(failure.value)


async def test_another_program_on_the_port_is_not_taken_for_ours(server: NatsServer, tmp_path: Path) -> None:
    second = NatsServer(tmp_path / "second", server.port, AUTHORIZATION)

    with pytest.raises(StartError, match="another program has its port"):
        await second.start()
