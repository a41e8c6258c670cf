"""What a supervisor that was killed may have left running."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from headrace.local.private_file import write_private
from headrace.local.process import Process

_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Record:
    """A child as it is remembered on disk."""

    name: str
    pid: int
    command: tuple[str, ...]
    stop_signal: int

    @classmethod
    def of(cls, process: Process) -> "Record":
        """Describe a running child."""
        spec = process.spec
        return cls(spec.name, process.pid, spec.command, spec.stop_signal)

    def is_running(self) -> bool:
        """Whether the pid still belongs to the same command, and not to a stranger that got it later."""
        return command_line(self.pid) == " ".join(self.command)


def remember(path: Path, processes: Iterable[Process]) -> None:
    """Write down the children that run now."""
    write_private(path, json.dumps([asdict(Record.of(process)) for process in processes], indent=1))


def remembered(path: Path) -> list[Record]:
    """The children written down last, whether they still run or not."""
    if not path.exists():
        return []
    return [Record(**{**entry, "command": tuple(entry["command"])}) for entry in json.loads(path.read_text())]


async def sweep(path: Path, *, grace: float = 10) -> list[str]:
    """Stop the children of an earlier supervisor that are still there.

    Args:
        path: Where they were written down.
        grace: Seconds between the stop signal and SIGKILL.

    Returns:
        The names of those that had to be stopped.
    """
    alive = [record for record in remembered(path) if record.is_running()]
    for record in alive:
        _signal(record, record.stop_signal)
    try:
        async with asyncio.timeout(grace):
            await _gone(alive)
    except TimeoutError:
        for record in alive:
            _signal(record, signal.SIGKILL)
        await _gone(alive)
    return [record.name for record in alive]


def command_line(pid: int) -> str:
    """The command line of any process, joined by blanks; empty where there is no such process."""
    proc = Path("/proc")
    if (proc / "self").exists():
        try:
            return (proc / str(pid) / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode()
        except OSError:
            return ""
    command = ["/bin/ps", "-o", "command=", "-p", str(pid)]
    listing = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  (a pid only)
    return listing.stdout.strip()


async def _gone(records: list[Record]) -> None:
    while any(record.is_running() for record in records):  # noqa: ASYNC110  (strangers' exits send no event)
        await asyncio.sleep(_POLL_SECONDS)


def _signal(record: Record, number: int) -> None:
    if record.is_running():
        with contextlib.suppress(ProcessLookupError):
            os.kill(record.pid, number)
