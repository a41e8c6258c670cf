"""The guard: what holds a tool of effect `none` to its word.

It stands against mistakes, and against declarations that do not keep what they say. It is no prison for code that
means to get out. It cannot stop:
- system calls of native code: C extensions with sockets or files of their own (libpq, gdbm, gRPC), a foreign function
  that was looked up before;
- writing to what is open already: a descriptor, a connection of a client's pool (a question over the bus is one);
- work given to a thread or process that is there already, other than a thread pool's: a queue, a process pool;
- code run in an empty context, and `_thread.start_new_thread` as it was before `watch` (before Python 3.13);
- a change to what the process holds in memory.
"""

import asyncio
import errno
import functools
import os
import sys
from contextvars import ContextVar
from typing import Any

from headrace.tools import side_doors
from headrace.tools.errors import ToolError
from headrace.tools.refusals import attempted

FORKED = 70
"""Exit status of a forked copy (EX_SOFTWARE of sysexits.h)."""

under_guard: ContextVar[str | None] = ContextVar("headrace_tool_under_guard", default=None)
"""Name of the tool that may not act, in the code that it runs."""

_exit = os._exit


class EffectRefused(ToolError, PermissionError):
    """A tool that declares no effect tried to have one, and did not.

    A PermissionError too, as a system that forbids it would raise: an import then goes on without its cached file.
    """

    def __str__(self) -> str:
        return str(self.strerror)


def refuse(what: str) -> None:
    """Refuse an act to code under guard.

    Raises:
        EffectRefused: The code is under guard.
    """
    tool = under_guard.get()
    if tool is not None:
        raise EffectRefused(
            errno.EPERM, f"the tool `{tool}` declares no effect and tried to {what}; that was refused"
        )


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    what = attempted(event, arguments)
    if what is not None:
        refuse(what)


@functools.cache
def watch() -> None:
    """Refuse from now on, in this process, what code under guard tries to do. Once; it cannot be undone."""
    guarded = under_guard.get

    def hook(event: str, arguments: tuple[Any, ...], audit: Any = _audit) -> None:
        # Called for everything that the process does: the first line decides, and holds no global that may be gone.
        if guarded() is not None:
            audit(event, arguments)

    sys.addaudithook(hook)
    side_doors.close(refuse, guarded=under_guard)


def watch_loop() -> None:
    """The same for the running event loop, where it makes its own system calls."""
    side_doors.close_loop(type(asyncio.get_running_loop()), refuse)


@functools.cache
def forbid_fork() -> None:
    """End every forked copy of this process at once, from now on: it must not go on as a second runner.

    `subprocess` still works, as it replaces the copy by another program, except with `preexec_fn`.
    """
    os.register_at_fork(after_in_child=_end)


def _end() -> None:
    os.write(2, b"a forked copy of a runner ends at once; start another program with subprocess\n")
    _exit(FORKED)
