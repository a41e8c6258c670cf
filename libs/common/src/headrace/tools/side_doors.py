"""Acts that Python tells no audit hook of: the functions themselves are replaced by ones that ask first."""

import _posixsubprocess
import _thread
import asyncio
import functools
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context, ContextVar, copy_context
from types import ModuleType
from typing import Any

Refuse = Callable[[str], None]

_FUNCTIONS: tuple[tuple[ModuleType, str, str], ...] = (
    (_posixsubprocess, "fork_exec", "start a process"),
    (_thread, "start_new", "start a thread"),
    (_thread, "start_new_thread", "start a thread"),
    (threading, "_start_new_thread", "start a thread"),
    (os, "mkfifo", "make a file or folder"),
    (os, "mknod", "make a file or folder"),
    (os, "_exit", "end the process"),
    (os, "abort", "end the process"),
    (signal, "raise_signal", "signal a process"),
    (signal, "alarm", "signal a process"),
    (signal, "setitimer", "signal a process"),
)

_LOOP_METHODS: tuple[tuple[str, str], ...] = (
    ("create_connection", "reach the network"),
    ("create_datagram_endpoint", "reach the network"),
    ("create_unix_connection", "reach the network"),
    ("getaddrinfo", "reach the network"),
    ("getnameinfo", "reach the network"),
    ("create_server", "listen on the network"),
    ("create_unix_server", "listen on the network"),
    ("subprocess_exec", "start a process"),
    ("subprocess_shell", "start a process"),
)


def close(refuse: Refuse, *, guarded: ContextVar[str | None]) -> None:
    """Put the question before every function that has no audit event, and the guard into thread pools."""
    for module, name, words in _FUNCTIONS:
        if hasattr(module, name):
            setattr(module, name, _asking(getattr(module, name), refuse, words))
    _carry_into_pools(guarded)


def close_loop(loop: type[asyncio.AbstractEventLoop], refuse: Refuse) -> None:
    """Put the question, once, before the methods of a loop that makes its own system calls, as uvloop does.

    Those of asyncio's loops go through `socket` and `subprocess`, which are audited.
    """
    if issubclass(loop, asyncio.BaseEventLoop):
        return
    for name, words in _LOOP_METHODS:
        method = getattr(loop, name, None)
        if method is not None and not hasattr(method, "__wrapped__"):
            setattr(loop, name, _asking(method, refuse, words))


def _asking(original: Callable[..., Any], refuse: Refuse, words: str) -> Callable[..., Any]:
    @functools.wraps(original)
    def asking(*args: Any, **kwargs: Any) -> Any:
        refuse(words)
        return original(*args, **kwargs)

    return asking


def _carry_into_pools(guarded: ContextVar[str | None]) -> None:
    """Work that goes to a pool's thread takes the guard along; the thread itself is the pool's, and has none."""
    original = ThreadPoolExecutor.submit

    def submit(
        pool: ThreadPoolExecutor, call: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Future[Any]:
        if guarded.get() is None:
            return original(pool, call, *args, **kwargs)
        carried = functools.partial(copy_context().run, call, *args, **kwargs)
        return Context().run(original, pool, carried)

    setattr(ThreadPoolExecutor, "submit", submit)  # noqa: B010  (mypy knows that a method should stay as it is)
