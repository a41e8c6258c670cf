"""Files on a real NATS: whole or not at all, once, and readable by any client of the object store."""

import asyncio
import base64
import hashlib
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass

import nats
import pytest
import pytest_asyncio
from nats.aio.client import Client
from nats.js.object_store import ObjectStore

from headrace.common import topology
from headrace.common.bus import Bus
from headrace.common.errors import NotFound, TooLarge, Unavailable
from headrace.common.files import CHUNK_BYTES, FileDamaged, FileGone, Files, StoredFile
from headrace.contracts.broker import inbox_prefix
from headrace.contracts.runs import InputFile
from tests.support.eventually import eventually
from tests.support.servers import NatsEndpoint

STREAM = "OBJ_files"
LIMIT = 32 * 1024**2
OVERHEAD = 8_192
"""Bytes of the stream that are no content: names, subjects, and what stands where chunks were taken back."""


def content(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


def name_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def pieces(data: bytes, size: int = 50_000) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def interrupted(data: bytes, act: Callable[[], Awaitable[object]]) -> AsyncIterator[bytes]:
    """A content during whose arrival something happens."""
    yield data[: len(data) // 2]
    await act()
    yield data[len(data) // 2 :]


async def read(files: Files, sha256: str) -> bytes:
    async with aclosing(files.get(sha256)) as chunks:
        return b"".join([chunk async for chunk in chunks])


@dataclass(frozen=True)
class Store:
    """The same store as the gateway, the runner and the operator see it."""

    gateway: Files
    runner: Files
    operator: Client
    nats_url: str

    async def put(self, data: bytes) -> StoredFile:
        return await self.gateway.put(pieces(data), max_bytes=LIMIT)

    async def bucket(self) -> ObjectStore:
        return await self.operator.jetstream().object_store("files")

    async def kept_bytes(self) -> int:
        return (await self.operator.jetstream().stream_info(STREAM)).state.bytes

    async def keeps_at_most(self, size: int) -> None:
        """Chunks are taken back without waiting for an answer."""

        async def check() -> None:
            assert await self.kept_bytes() <= size + OVERHEAD

        await eventually(check)

    async def lose_a_chunk(self, data: bytes) -> None:
        info = await (await self.bucket()).get_info(name_of(data))
        last = await self.operator.jetstream().get_last_msg(STREAM, f"$O.files.C.{info.nuid}")
        assert last.seq is not None
        await self.operator.jetstream().delete_msg(STREAM, last.seq)

    async def lose_everything(self) -> None:
        """Take the stream away, and make it again as the keeper does."""
        await self.operator.jetstream().delete_stream(STREAM)
        await topology.apply(self.nats_url)


@pytest_asyncio.fixture
async def store(nats_server: NatsEndpoint) -> AsyncIterator[Store]:
    await topology.apply(nats_server.operator_url)
    async with AsyncExitStack() as stack:
        buses = [Bus(nats_server.url(user), service=user, drain_seconds=1) for user in ("gateway", "runner")]
        for bus in buses:
            await bus.connect()
            stack.push_async_callback(bus.close)
        operator = await nats.connect(nats_server.operator_url, inbox_prefix=inbox_prefix("operator"))
        stack.push_async_callback(operator.close)
        await operator.jetstream().purge_stream(STREAM)
        yield Store(Files(buses[0]), Files(buses[1]), operator, nats_server.operator_url)


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 5_000_000])
async def test_what_the_gateway_puts_the_runner_gets(store: Store, size: int) -> None:
    data = content(size)

    stored = await store.put(data)

    assert stored == StoredFile(name_of(data), size)
    assert await store.runner.info(stored.sha256) == stored
    assert await read(store.runner, stored.sha256) == data


@pytest.mark.parametrize("size", [0, CHUNK_BYTES, 1_000_000])
async def test_other_clients_of_the_object_store_read_it(store: Store, size: int) -> None:
    data = content(size)

    await store.put(data)

    got = await (await store.bucket()).get(name_of(data))
    assert (got.data, got.info.size, got.info.chunks) == (data, size, -(-size // CHUNK_BYTES))


async def test_entry_has_the_form_of_the_specification(store: Store) -> None:
    data = content(200_000)

    await store.put(data)

    subject = f"$O.files.M.{base64.urlsafe_b64encode(name_of(data).encode()).decode()}"
    message = await store.operator.jetstream().get_last_msg(STREAM, subject)
    entry = json.loads(message.data or b"")
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode()
    assert entry.pop("nuid")
    assert entry == {
        "name": name_of(data),
        "bucket": "files",
        "size": 200_000,
        "chunks": 2,
        "digest": f"SHA-256={digest}",
        "deleted": False,
        "options": {"max_chunk_size": CHUNK_BYTES},
    }
    assert (message.headers or {})["Nats-Rollup"] == "sub"


async def test_what_another_client_put_under_its_hash_is_read(store: Store) -> None:
    data = content(300_000)

    await (await store.bucket()).put(name_of(data), data)

    assert await read(store.runner, name_of(data)) == data


async def test_same_content_twice_is_kept_once(store: Store) -> None:
    data = content(1_000_000)

    assert await store.put(data) == await store.put(data)

    await store.keeps_at_most(len(data))
    assert await read(store.runner, name_of(data)) == data


async def test_same_content_many_times_at_once_is_kept_once(store: Store) -> None:
    data = content(700_000)

    stored = await asyncio.gather(*(store.put(data) for _ in range(8)))

    assert set(stored) == {StoredFile(name_of(data), len(data))}
    await store.keeps_at_most(len(data))
    assert await read(store.runner, name_of(data)) == data


async def test_upload_that_breaks_off_leaves_nothing(store: Store) -> None:
    data = content(1_000_000)

    async def break_off() -> None:
        raise ConnectionError("the client is gone")

    with pytest.raises(ConnectionError):
        await store.gateway.put(interrupted(data, break_off), max_bytes=LIMIT)

    with pytest.raises(NotFound):
        await store.runner.info(name_of(data))
    await store.keeps_at_most(0)


async def test_upload_that_is_cancelled_leaves_nothing(store: Store) -> None:
    data, arrived, forever = content(1_000_000), asyncio.Event(), asyncio.Event()

    async def stall() -> None:
        arrived.set()
        await forever.wait()

    upload = asyncio.create_task(store.gateway.put(interrupted(data, stall), max_bytes=LIMIT))
    await arrived.wait()
    upload.cancel()

    with pytest.raises(asyncio.CancelledError):
        await upload
    await store.keeps_at_most(0)


async def test_content_at_the_limit_is_taken(store: Store) -> None:
    data = content(300_000)

    assert (await store.gateway.put(pieces(data), max_bytes=300_000)).size == 300_000


async def test_content_above_the_limit_is_refused_and_leaves_nothing(store: Store) -> None:
    data = content(300_000)

    with pytest.raises(TooLarge, match="299999 bytes"):
        await store.gateway.put(pieces(data), max_bytes=299_999)

    await store.keeps_at_most(0)


async def test_damaged_file_is_never_read_to_its_end(store: Store) -> None:
    data = content(5 * CHUNK_BYTES)
    await store.put(data)
    await store.lose_a_chunk(data)

    chunks = store.runner.get(name_of(data))
    got = [await anext(chunks) for _ in range(3)]

    with pytest.raises(FileDamaged):
        await anext(chunks)
    assert b"".join(got) == data[: 3 * CHUNK_BYTES]


async def test_content_under_a_wrong_hash_is_damaged(store: Store) -> None:
    name = name_of(b"what was promised")

    await (await store.bucket()).put(name, b"something else   ")

    with pytest.raises(FileDamaged):
        await read(store.runner, name)


async def test_damaged_file_is_repaired_by_uploading_it_again(store: Store) -> None:
    data = content(1_000_000)
    await store.put(data)
    await store.lose_a_chunk(data)

    await store.put(data)

    assert await read(store.runner, name_of(data)) == data
    await store.keeps_at_most(len(data))


async def test_file_that_the_operator_removed_is_not_found_and_can_come_again(store: Store) -> None:
    data = content(300_000)
    await store.put(data)
    await (await store.bucket()).delete(name_of(data))

    with pytest.raises(NotFound):
        await store.runner.info(name_of(data))

    await store.put(data)
    assert await read(store.runner, name_of(data)) == data


async def test_wiped_store_says_which_files_of_a_run_are_gone(store: Store) -> None:
    lost, kept = content(300_000, seed=1), content(300_000, seed=2)
    await store.put(lost)
    await store.lose_everything()
    await store.put(kept)
    given = [
        InputFile(sha256=name_of(data), name=name, size=len(data))
        for name, data in (("lost.csv", lost), ("kept.csv", kept))
    ]

    with pytest.raises(NotFound):
        await store.runner.info(name_of(lost))
    with pytest.raises(FileGone):
        await read(store.runner, name_of(lost))
    with pytest.raises(FileGone, match=r"lost\.csv") as gone:
        await store.runner.expect(given)
    assert "kept.csv" not in gone.value.message


async def test_store_that_is_away_is_not_taken_for_an_empty_one(store: Store) -> None:
    await store.operator.jetstream().delete_stream(STREAM)

    with pytest.raises(Unavailable):
        await store.runner.info(name_of(b"x"))
    with pytest.raises(Unavailable):
        await store.put(b"x")


async def test_store_that_is_wiped_during_an_upload_is_noticed(store: Store) -> None:
    await store.put(b"so that the stream does not begin at its first place")
    data = content(600_000)

    with pytest.raises(Unavailable, match="made anew"):
        await store.gateway.put(interrupted(data, store.lose_everything), max_bytes=LIMIT)

    with pytest.raises(NotFound):
        await store.runner.info(name_of(data))
