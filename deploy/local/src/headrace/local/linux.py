"""What only Linux can do about processes; elsewhere `bound_to` does nothing and the rest is not used."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_ARG_START = 48
"""The place of `arg_start` in proc(5)'s list of the fields of `/proc/<pid>/stat`; `arg_end` follows."""
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def bound_to(parent: int) -> Callable[[], None] | None:
    """What a new child runs so that it gets SIGTERM when its parent dies, even by SIGKILL.

    Linux means by "parent" the thread that forked: children are started from the main thread only. It must come
    after the change of user, which forgets it.
    """
    if _LIBC is None:
        return None
    prctl = _LIBC.prctl

    def bind() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    return bind


@contextmanager
def adopting() -> Iterator[None]:
    """While the block runs, a process below this one that loses its parent becomes this one's own child."""
    if _LIBC is None:
        raise OSError("only Linux knows adoption")
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 0)


def thread_count() -> int:
    """The threads of this process, those of native libraries among them."""
    return len(list(Path("/proc/self/task").iterdir()))


def show_command(command: Sequence[str]) -> None:
    """Make `ps` and `/proc/<pid>/cmdline` show another command line for this process.

    Raises:
        OSError: It is longer than the one that the process was started with.
    """
    fields = Path("/proc/self/stat").read_text().rpartition(") ")[2].split()
    start, end = (int(field) for field in fields[_ARG_START - 3 : _ARG_START - 1])
    line = b"\0".join(os.fsencode(word) for word in command)
    if len(line) >= end - start:
        raise OSError(f"a command line of {len(line)} bytes does not fit into {end - start}")
    ctypes.memmove(start, line.ljust(end - start, b"\0"), end - start)
