"""`/v1/files` over HTTP, on real servers: an account's own files, streamed in and out."""

import asyncio
import base64
import hashlib
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime

import httpx
import nats
import pytest
import pytest_asyncio
import uvicorn
from nats.aio.client import Client
from sqlalchemy import insert

from headrace.common import topology
from headrace.common.app import build
from headrace.common.db import create_engine
from headrace.common.settings import InfraSettings
from headrace.contracts.broker import inbox_prefix
from headrace.contracts.ids import new_id
from headrace.gateway import models
from headrace.gateway.auth import hash_key
from headrace.gateway.service import create_service
from headrace.gateway.settings import GatewaySettings
from headrace.local.loopback import free_port
from tests.support.eventually import eventually
from tests.support.servers import NatsEndpoint, PostgresEndpoint, RedisEndpoint

STREAM = "OBJ_files"
LIMIT = 6 * 1024**2

pytestmark = pytest.mark.asyncio(loop_scope="module")


def content(size: int) -> bytes:
    return random.Random(size).randbytes(size)


async def pieces(data: bytes) -> AsyncIterator[bytes]:
    """A body whose length is not declared."""
    for start in range(0, len(data), 100_000):
        yield data[start : start + 100_000]


@dataclass(frozen=True)
class Gateway:
    """A gateway behind a real port, two of its callers, and the operator's eye on the store."""

    owner: httpx.AsyncClient
    stranger: httpx.AsyncClient
    operator: Client
    port: int

    async def kept_bytes(self) -> int:
        return (await self.operator.jetstream().stream_info(STREAM)).state.bytes


def infra_settings(nats_url: str, database_url: str, redis_url: str) -> InfraSettings:
    return InfraSettings(
        nats_url=nats_url,
        database_url=database_url.replace("postgresql://", "postgresql+asyncpg://", 1),
        redis_url=redis_url,
        secret_keys=base64.urlsafe_b64encode(bytes(32)).decode(),
        migrate_on_start=True,
        drain_seconds=2,
    )


async def add_accounts(database_url: str, *account_ids: str) -> None:
    url = database_url.replace("postgresql://", "postgresql+asyncpg://", 1)
    engine, now = create_engine(url, schema="gateway", pool_size=1), datetime.now(UTC)
    async with engine.begin() as connection:
        for account_id in account_ids:
            await connection.execute(
                insert(models.accounts), {"account_id": account_id, "name": "test", "created_at": now}
            )
            key = {"key_hash": hash_key(account_id), "account_id": account_id, "label": "test"}
            await connection.execute(insert(models.api_keys), {**key, "created_at": now})
    await engine.dispose()


@dataclass(frozen=True)
class Door:
    """A gateway behind a real port."""

    port: int
    database_url: str
    operator: Client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def door(
    nats_server: NatsEndpoint, postgres_server: PostgresEndpoint, redis_server: RedisEndpoint
) -> AsyncIterator[Door]:
    await topology.apply(nats_server.operator_url)
    database_url = postgres_server.url("gateway", await postgres_server.create_database())
    settings = infra_settings(nats_server.url("gateway"), database_url, redis_server.url)
    app = build(create_service(GatewaySettings(max_file_bytes=LIMIT)), settings)
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_config=None, lifespan="on"))
    serving = asyncio.create_task(server.serve())

    async def started() -> None:
        assert server.started

    await eventually(started, timeout=30)
    operator = await nats.connect(nats_server.operator_url, inbox_prefix=inbox_prefix("operator"))
    yield Door(port, database_url, operator)
    await operator.close()
    server.should_exit = True
    await serving


@pytest_asyncio.fixture(loop_scope="module")
async def gateway(door: Door) -> AsyncIterator[Gateway]:
    owner_id, stranger_id = new_id(), new_id()
    await add_accounts(door.database_url, owner_id, stranger_id)
    await door.operator.jetstream().purge_stream(STREAM)
    async with caller(owner_id, door.port) as owner, caller(stranger_id, door.port) as stranger:
        yield Gateway(owner, stranger, door.operator, door.port)


def caller(key: str, port: int) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {key}"}, timeout=30
    )


@pytest.mark.parametrize("size", [0, 1, 128 * 1024, 5_000_000])
async def test_file_comes_back_as_it_was_sent(gateway: Gateway, size: int) -> None:
    data = content(size)
    sha256 = hashlib.sha256(data).hexdigest()

    sent = await gateway.owner.post(
        "/v1/files", params={"name": "höhen & tiefen.csv"}, headers={"Content-Type": "text/csv"}, content=data
    )
    got = await gateway.owner.get(f"/v1/files/{sha256}")

    file = {"sha256": sha256, "name": "höhen & tiefen.csv", "media_type": "text/csv", "size": size}
    assert (sent.status_code, sent.json()) == (201, file)
    assert sent.headers["location"] == f"/v1/files/{sha256}"
    assert (got.status_code, got.content) == (200, data)
    assert got.headers["content-type"] == "text/csv"
    assert got.headers["content-disposition"] == (
        "attachment; filename*=utf-8''h%C3%B6hen%20%26%20tiefen.csv"
    )
    assert got.headers["x-content-type-options"] == "nosniff"


async def test_file_without_a_name_or_type_gets_plain_ones(gateway: Gateway) -> None:
    sent = await gateway.owner.post("/v1/files", content=b"x")

    sha256 = hashlib.sha256(b"x").hexdigest()
    assert sent.json() == {
        "sha256": sha256,
        "name": f"file-{sha256[:12]}",
        "media_type": "application/octet-stream",
        "size": 1,
    }


async def test_body_of_undeclared_length_is_taken(gateway: Gateway) -> None:
    data = content(3_000_000)

    sent = await gateway.owner.post("/v1/files", content=pieces(data))

    assert sent.json()["sha256"] == hashlib.sha256(data).hexdigest()


async def test_same_content_again_takes_the_new_name(gateway: Gateway) -> None:
    await gateway.owner.post("/v1/files", params={"name": "draft.txt"}, content=b"x")

    again = await gateway.owner.post("/v1/files", params={"name": "final.txt"}, content=b"x")
    got = await gateway.owner.get(f"/v1/files/{again.json()['sha256']}")

    assert "final.txt" in got.headers["content-disposition"]


async def test_head_tells_type_and_size_without_the_content(gateway: Gateway) -> None:
    sent = await gateway.owner.post("/v1/files", content=b"12345", headers={"Content-Type": "text/plain"})

    head = await gateway.owner.head(sent.headers["location"])

    assert (head.status_code, head.content) == (200, b"")
    assert (head.headers["content-type"], head.headers["content-length"]) == ("text/plain", "5")


async def test_strangers_file_is_not_found(gateway: Gateway) -> None:
    address = (await gateway.owner.post("/v1/files", content=b"mine")).headers["location"]

    answers = [await gateway.stranger.request(method, address) for method in ("GET", "HEAD")]

    assert [answer.status_code for answer in answers] == [404, 404]
    assert answers[0].json()["code"] == "not_found"


async def test_stranger_who_uploads_the_same_content_has_it_under_a_name_of_its_own(gateway: Gateway) -> None:
    address = (await gateway.owner.post("/v1/files", params={"name": "a"}, content=b"x")).headers["location"]
    await gateway.stranger.post("/v1/files", params={"name": "b"}, content=b"x")

    names = [
        (await client.get(address)).headers["content-disposition"]
        for client in (gateway.owner, gateway.stranger)
    ]

    assert names == ["attachment; filename*=utf-8''a", "attachment; filename*=utf-8''b"]


async def test_nobody_uploads_without_a_key(gateway: Gateway) -> None:
    answer = await gateway.owner.post(
        "/v1/files", content=content(3_000_000), headers={"Authorization": "Bearer nobody"}
    )

    assert answer.status_code == 401
    assert await gateway.kept_bytes() == 0


@pytest.mark.parametrize("is_declared", [True, False])
async def test_file_above_the_limit_is_refused_and_leaves_nothing(
    gateway: Gateway,
    is_declared: bool,  # noqa: FBT001  (a parameter of a table)
) -> None:
    data = content(LIMIT + 1)

    answer = await gateway.owner.post("/v1/files", content=data if is_declared else pieces(data))

    async def nothing_is_kept() -> None:
        assert await gateway.kept_bytes() < 8_192

    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert str(LIMIT) in answer.json()["detail"]
    await eventually(nothing_is_kept)


async def test_form_upload_is_told_how_to_send_a_file(gateway: Gateway) -> None:
    answer = await gateway.owner.post("/v1/files", files={"file": b"x"})

    assert (answer.status_code, "--data-binary" in answer.json()["detail"]) == (400, True)


@pytest.mark.parametrize("name", ["", "two\nlines", "x" * 256])
async def test_name_that_cannot_be_told_is_refused(gateway: Gateway, name: str) -> None:
    answer = await gateway.owner.post("/v1/files", params={"name": name}, content=b"x")

    assert answer.status_code == 422


@pytest.mark.parametrize("sha256", ["0" * 63, "Z" * 64, "%00"])
async def test_address_that_is_no_hash_is_refused(gateway: Gateway, sha256: str) -> None:
    assert (await gateway.owner.get(f"/v1/files/{sha256}")).status_code in (404, 422)


async def test_client_that_goes_away_leaves_nothing(gateway: Gateway) -> None:
    async def chunks_have_arrived() -> None:
        assert await gateway.kept_bytes() > 256 * 1024

    async def nothing_is_kept() -> None:
        assert await gateway.kept_bytes() < 8_192

    key = gateway.owner.headers["authorization"]
    head = f"POST /v1/files HTTP/1.1\r\nHost: h\r\nAuthorization: {key}\r\nContent-Length: 3000000\r\n\r\n"
    _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(head.encode() + content(1_000_000))
    await eventually(chunks_have_arrived)
    writer.close()

    await eventually(nothing_is_kept)


async def test_file_that_was_wiped_is_gone_until_it_is_sent_again(gateway: Gateway) -> None:
    address = (await gateway.owner.post("/v1/files", content=b"x")).headers["location"]
    await gateway.operator.jetstream().purge_stream(STREAM)

    gone = await gateway.owner.get(address)
    await gateway.owner.post("/v1/files", content=b"x")
    back = await gateway.owner.get(address)

    assert (gone.status_code, gone.json()["code"]) == (410, "file_gone")
    assert (back.status_code, back.content) == (200, b"x")


async def test_damaged_file_never_arrives_whole(gateway: Gateway) -> None:
    address = (await gateway.owner.post("/v1/files", content=content(1_000_000))).headers["location"]
    jetstream = gateway.operator.jetstream()
    last = await jetstream.get_last_msg(STREAM, "$O.files.C.*")
    assert last.seq is not None
    await jetstream.delete_msg(STREAM, last.seq)

    with pytest.raises(httpx.RemoteProtocolError):
        await gateway.owner.get(address)
