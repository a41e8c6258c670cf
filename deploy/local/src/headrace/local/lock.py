"""One supervisor per home folder."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO


@dataclass(frozen=True, slots=True)
class Holder:
    """The supervisor that runs."""

    pid: int
    url: str = ""
    """Where its gateway answers; empty for the moment in which it is not known yet."""


class AlreadyRunningError(Exception):
    """Another supervisor holds the lock."""


class Lock:
    """A lock that is held, and that its process loses when it dies, however it dies."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def sign(self, url: str) -> None:
        """Let others read who holds the lock, and where the gateway answers."""
        self._file.seek(0)
        self._file.truncate()
        json.dump(asdict(Holder(os.getpid(), url)), self._file)
        self._file.flush()


@contextmanager
def held(path: Path) -> Iterator[Lock]:
    """Hold the lock while the block runs.

    Raises:
        AlreadyRunningError: Another process holds it.
    """
    with path.open("a+") as file:
        if not _take(file):
            other = _read(file)
            raise AlreadyRunningError(f"Headrace is already running (pid {other.pid}) at {other.url}")
        lock = Lock(file)
        lock.sign("")
        yield lock


def holder(path: Path) -> Holder | None:
    """Who holds the lock; None where nobody does."""
    if not path.exists():
        return None
    with path.open("a+") as file:
        return None if _take(file) else _read(file)


def _take(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(file: TextIO) -> Holder:
    file.seek(0)
    return Holder(**json.load(file))
