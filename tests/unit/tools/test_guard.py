"""Tools that say they have no effect, and try to have one."""

import asyncio
import concurrent.futures
import contextlib
import ctypes
import importlib
import multiprocessing
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import urllib.request
from _thread import start_new_thread
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from headrace.tools import Done, EffectRefused, Failed, Tool, ToolContext, perform

# As a module that is imported before the guard watches holds them.
connect = socket.socket.connect
system_open = os.open
popen = subprocess.Popen
libc = ctypes.CDLL(None)

Lie = Callable[[Path, int], object]


def lying(function: Callable[..., Any]) -> Tool:
    return Tool(name="liar", description="T.", parameters={}, function=function, effect="none")


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield listening


def connected(server: socket.socket) -> bool:
    try:
        server.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def held(folder: Path) -> dict[str, str]:
    """What a folder holds: names, and the text of files."""
    return {path.name: path.read_text() if path.is_file() else "" for path in folder.iterdir()}


def connect_by(how: Callable[[socket.socket, Any], object], port: int) -> None:
    with socket.socket() as client:
        how(client, ("127.0.0.1", port))


def send_datagram(port: int) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as client:
        client.sendto(b"x", ("127.0.0.1", port))


LIES: dict[str, tuple[Lie, str]] = {
    "connects": (lambda _, port: connect_by(socket.socket.connect, port), "reach the network"),
    "connects by a captured function": (lambda _, port: connect_by(connect, port), "reach the network"),
    "connects by a helper": (
        lambda _, port: socket.create_connection(("127.0.0.1", port)),
        "reach the network",
    ),
    "sends a datagram": (lambda _, port: send_datagram(port), "reach the network"),
    "asks a URL": (lambda _, port: urllib.request.urlopen(f"http://127.0.0.1:{port}"), "reach the network"),
    "resolves a name": (lambda _, __: socket.getaddrinfo("localhost", 80), "reach the network"),
    "listens": (lambda _, __: socket.create_server(("127.0.0.1", 0)), "listen on the network"),
    "writes": (lambda path, _: (path / "new").write_text("x"), "write the file"),
    "appends": (lambda path, _: (path / "old").open("a").close(), "write the file"),
    "updates": (lambda path, _: (path / "old").open("r+").close(), "write the file"),
    "writes by a captured function": (
        lambda path, _: system_open(path / "new", os.O_WRONLY | os.O_CREAT),
        "write the file",
    ),
    "makes a temporary file": (lambda path, _: tempfile.mkstemp(dir=path), "make a file or folder"),
    "removes": (lambda path, _: (path / "old").unlink(), "remove a file"),
    "moves": (lambda path, _: (path / "old").rename(path / "new"), "move a file"),
    "copies": (lambda path, _: shutil.copy(path / "old", path / "new"), "change a file"),
    "makes a folder": (lambda path, _: (path / "new").mkdir(), "make a file or folder"),
    "makes a link": (lambda path, _: (path / "new").symlink_to(path / "old"), "make a file or folder"),
    "makes a pipe": (lambda path, _: os.mkfifo(path / "new"), "make a file or folder"),
    "truncates": (lambda path, _: os.truncate(path / "old", 0), "change a file"),
    "changes the mode": (lambda path, _: (path / "old").chmod(0), "change a file"),
    "opens a database": (lambda path, _: sqlite3.connect(path / "new"), "open the database"),
    "opens a database in memory, which can attach files": (
        lambda _, __: sqlite3.connect(":memory:"),
        "open the database",
    ),
    "starts a process": (
        lambda path, _: subprocess.run(["touch", path / "new"], check=True),
        "start a process",
    ),
    "starts a process by a captured function": (
        lambda path, _: popen(["touch", path / "new"]),
        "start a process",
    ),
    "starts a shell": (lambda path, _: os.system(f"touch {path}/new"), "start a process"),
    "spawns by multiprocessing": (
        lambda path, _: (
            multiprocessing.get_context("spawn").Process(target=os.mkdir, args=(path / "new",)).start()
        ),
        "start a process",
    ),
    "forks": (lambda _, __: os.fork(), "start a process"),
    "kills": (lambda _, __: os.kill(os.getpid(), signal.SIGTERM), "signal a process"),
    "ends the process": (lambda _, __: os._exit(1), "end the process"),
    "starts a thread": (
        lambda path, _: threading.Thread(target=(path / "new").touch).start(),
        "start a thread",
    ),
    "starts a bare thread": (
        lambda path, _: importlib.import_module("_thread").start_new_thread((path / "new").touch, ()),
        "start a thread",
    ),
    "calls native code": (lambda path, _: libc.system(bytes(path / "new")), "call native code"),
    "loads native code": (lambda _, __: ctypes.CDLL(None), "call native code"),
    "changes the environment": (lambda _, __: os.putenv("HEADRACE_LIE", "1"), "change the process"),
    "starts a pool": (
        lambda path, _: concurrent.futures.ThreadPoolExecutor(1).submit((path / "new").mkdir).result(),
        "make a file or folder",
    ),
}


@pytest.mark.parametrize(("lie", "what"), LIES.values(), ids=LIES)
async def test_lie_of_a_sync_tool_is_refused_and_nothing_happens(
    lie: Lie, what: str, tmp_path: Path, server: socket.socket, context: ToolContext
) -> None:
    (tmp_path / "old").write_text("kept")

    outcome = await perform(lying(lambda: lie(tmp_path, server.getsockname()[1])), {}, context)

    assert isinstance(outcome, Failed)
    assert what in outcome.sentence
    assert held(tmp_path) == {"old": "kept"}
    assert not connected(server)


@pytest.mark.parametrize(("lie", "what"), LIES.values(), ids=LIES)
async def test_lie_of_an_async_tool_is_refused_and_nothing_happens(
    lie: Lie, what: str, tmp_path: Path, server: socket.socket, context: ToolContext
) -> None:
    (tmp_path / "old").write_text("kept")

    async def function() -> None:
        lie(tmp_path, server.getsockname()[1])

    outcome = await perform(lying(function), {}, context)

    assert isinstance(outcome, Failed)
    assert what in outcome.sentence
    assert held(tmp_path) == {"old": "kept"}
    assert not connected(server)


async def test_refusal_names_the_tool_and_what_it_tried(context: ToolContext) -> None:
    outcome = await perform(lying(lambda: os.kill(os.getpid(), signal.SIGTERM)), {}, context)

    assert outcome == Failed(
        "the tool `liar` declares no effect and tried to signal a process; that was refused"
    )


async def test_tool_that_swallows_the_refusal_has_still_not_acted(
    tmp_path: Path, context: ToolContext
) -> None:
    def function() -> str:
        with contextlib.suppress(EffectRefused):
            (tmp_path / "new").mkdir()
        return "went on"

    assert await perform(lying(function), {}, context) == Done("went on")
    assert held(tmp_path) == {}


async def test_reading_and_computing_are_allowed(tmp_path: Path, context: ToolContext) -> None:
    (tmp_path / "old").write_text("kept")

    async def function() -> list[object]:
        await asyncio.to_thread(Path(os.devnull).write_text, "x")
        return [sum(range(4)), await asyncio.to_thread((tmp_path / "old").read_text)]

    assert await perform(lying(function), {}, context) == Done('[6, "kept"]')


async def test_import_within_a_tool_works_and_caches_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, context: ToolContext
) -> None:
    (tmp_path / "imported_by_a_tool.py").write_text("VALUE = 7")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)

    outcome = await perform(lying(lambda: importlib.import_module("imported_by_a_tool").VALUE), {}, context)

    assert outcome == Done("7")
    assert not (tmp_path / "__pycache__").exists()


async def test_others_act_freely_while_a_tool_is_under_guard(
    tmp_path: Path, server: socket.socket, context: ToolContext
) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def function() -> str:
        began.set()
        await go_on.wait()
        (tmp_path / "lie").touch()
        return "not reached"

    call = asyncio.create_task(perform(lying(function), {}, context))
    await began.wait()
    (tmp_path / "file").touch()
    socket.create_connection(server.getsockname()).close()
    await asyncio.to_thread((tmp_path / "folder").mkdir)
    process = await asyncio.create_subprocess_exec("true")
    go_on.set()

    assert isinstance(await call, Failed)
    assert await process.wait() == 0
    assert connected(server)
    assert sorted(held(tmp_path)) == ["file", "folder"]


async def test_tool_with_an_effect_is_not_guarded(tmp_path: Path, context: ToolContext) -> None:
    tool = Tool(name="t", description="T.", parameters={}, function=(tmp_path / "new").mkdir)

    assert await perform(tool, {}, context) == Done("done")
    assert (tmp_path / "new").is_dir()


async def test_work_for_an_idle_thread_of_a_pool_takes_the_guard_along(
    tmp_path: Path, context: ToolContext
) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()

        outcome = await perform(lying(lambda: pool.submit((tmp_path / "new").mkdir).result()), {}, context)
        pool.submit((tmp_path / "after").mkdir).result()

    assert isinstance(outcome, Failed)
    assert list(held(tmp_path)) == ["after"]


async def test_task_that_a_tool_leaves_behind_stays_under_guard(tmp_path: Path, context: ToolContext) -> None:
    go_on = asyncio.Event()
    left: list[asyncio.Task[None]] = []

    async def later() -> None:
        await go_on.wait()
        (tmp_path / "new").touch()

    async def function() -> None:
        left.append(asyncio.create_task(later()))

    assert await perform(lying(function), {}, context) == Done("done")
    go_on.set()

    with pytest.raises(EffectRefused):
        await left[0]
    assert held(tmp_path) == {}


async def connect_by_loop(port: int) -> None:
    await asyncio.open_connection("127.0.0.1", port)


async def send_by_loop(port: int) -> None:
    loop = asyncio.get_running_loop()
    await loop.create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=("127.0.0.1", port))


async def serve_by_loop(_port: int) -> None:
    await asyncio.start_server(lambda _, __: None, "127.0.0.1", 0)


async def resolve_by_loop(_port: int) -> None:
    await asyncio.get_running_loop().getaddrinfo("127.0.0.1", 80)


async def start_by_loop(_port: int) -> None:
    await asyncio.create_subprocess_exec("true")


async def start_shell_by_loop(_port: int) -> None:
    await asyncio.create_subprocess_shell("true")


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
@pytest.mark.parametrize(
    "lie",
    [connect_by_loop, send_by_loop, serve_by_loop, resolve_by_loop, start_by_loop, start_shell_by_loop],
)
def test_lie_through_the_loop_is_refused_on_any_loop(
    run: Callable[..., Any], lie: Callable[[int], Any], server: socket.socket, context: ToolContext
) -> None:
    port = server.getsockname()[1]

    outcome = run(perform(lying(lambda: lie(port)), {}, context))

    assert isinstance(outcome, Failed)
    assert "declares no effect" in outcome.sentence
    assert not connected(server)


def test_loop_of_a_guarded_tool_still_serves_others(server: socket.socket, context: ToolContext) -> None:
    async def both() -> None:
        await perform(lying(lambda: None), {}, context)
        _, writer = await asyncio.open_connection(*server.getsockname())
        writer.close()
        await writer.wait_closed()

    uvloop.run(both())

    assert connected(server)


def test_bare_thread_of_nobody_starts_as_before() -> None:
    done = threading.Event()

    start_new_thread(done.set, ())

    assert done.wait(60)
