"""The tool `read_file` over real contents, called as the runner calls a tool that writes nothing."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import nats
import pytest_asyncio

from headrace.common import topology
from headrace.common.bus import Bus
from headrace.common.files import Files
from headrace.contracts.broker import inbox_prefix
from headrace.contracts.runs import InputFile
from headrace.runner.tools.read_file import read_file_tool
from headrace.tools import Done, Failed, ToolContext, perform
from tests.support.servers import NatsEndpoint


@dataclass
class Run:
    """A run with files."""

    store: Files
    reader: Files
    files: list[InputFile] = field(default_factory=list)

    async def give(self, name: str, data: bytes, media_type: str = "text/plain") -> InputFile:
        async def content() -> AsyncIterator[bytes]:
            yield data

        stored = await self.store.put(content(), max_bytes=len(data))
        file = InputFile(sha256=stored.sha256, name=name, media_type=media_type, size=stored.size)
        self.files.append(file)
        return file

    async def ask(self, **arguments: Any) -> object:
        context = ToolContext(
            account_id="acme",
            agent_id="assistant",
            run_id="this",
            session_id=None,
            door="api",
            trigger="t",
            call="root/1",
        )
        tool = read_file_tool(self.reader, {"this": self.files}.__getitem__)
        return await perform(tool, tool.read(arguments), context)


@pytest_asyncio.fixture
async def run(nats_server: NatsEndpoint) -> AsyncIterator[Run]:
    await topology.apply(nats_server.operator_url)
    async with AsyncExitStack() as stack:
        buses = [Bus(nats_server.url(user), service=user, drain_seconds=1) for user in ("gateway", "runner")]
        for bus in buses:
            await bus.connect()
            stack.push_async_callback(bus.close)
        yield Run(Files(buses[0]), Files(buses[1]))


async def test_large_file_is_read_part_by_part(run: Run) -> None:
    text = "".join(f"line {number} — ü\n" for number in range(60_000))
    await run.give("lines.txt", text.encode())

    first = await run.ask(name="lines.txt", length=100)
    middle = await run.ask(name="lines.txt", offset=500_000, length=100)

    note = f"of {len(text)}; go on with offset="
    assert first == Done(f"{text[:100]}\n[characters 0 to 100 {note}100]")
    assert middle == Done(f"{text[500_000:500_100]}\n[characters 500000 to 500100 {note}500100]")


async def test_bytes_that_are_no_utf_8_are_replaced_and_a_byte_order_mark_is_left_out(run: Run) -> None:
    await run.give("old.txt", b"\xef\xbb\xbfcaf\xe9")

    assert await run.ask(name="old.txt") == Done("caf\N{REPLACEMENT CHARACTER}")


async def test_empty_file_is_said_to_be_empty(run: Run) -> None:
    await run.give("nothing.txt", b"")

    assert await run.ask(name="nothing.txt") == Done("the file is empty")


async def test_file_that_is_not_text_is_described(run: Run) -> None:
    await run.give("logo.png", b"\x89PNG\r\n\x1a\n\x00\x00", "image/png")

    assert await run.ask(name="logo.png") == Failed("'logo.png' (image/png, 10 bytes) is not text")


async def test_unknown_name_is_answered_with_the_names(run: Run) -> None:
    await run.give("a.txt", b"1")
    await run.give("b.csv", b"22", "text/csv")

    assert await run.ask(name="c") == Failed(
        "there is no file 'c'; there are: 'a.txt' (text/plain, 1 bytes), 'b.csv' (text/csv, 2 bytes)"
    )


async def test_two_files_of_one_name_are_asked_for_by_hash(run: Run) -> None:
    one, two = await run.give("a.txt", b"one"), await run.give("a.txt", b"two")

    both = await run.ask(name="a.txt")

    assert both == Failed(
        f"several files are named 'a.txt'; ask for one by its hash: {one.sha256}, {two.sha256}"
    )
    assert await run.ask(name=two.sha256) == Done("two")


async def test_file_of_another_run_is_out_of_reach(run: Run) -> None:
    await run.give("a.txt", b"mine")
    run.files.clear()

    assert await run.ask(name=hashlib.sha256(b"mine").hexdigest()) == Failed(
        "no files came with this request"
    )


async def test_file_that_was_wiped_is_said_to_be_gone(run: Run, nats_server: NatsEndpoint) -> None:
    await run.give("a.txt", b"wiped")
    operator = await nats.connect(nats_server.operator_url, inbox_prefix=inbox_prefix("operator"))
    await operator.jetstream().purge_stream("OBJ_files")
    await operator.close()

    outcome = await run.ask(name="a.txt")

    assert isinstance(outcome, Failed)
    assert "no longer stored" in outcome.sentence
