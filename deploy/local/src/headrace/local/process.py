"""One child process: its own group, bound to the life of this process, stopped with a deadline."""

import asyncio
import contextlib
import os
import pwd
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from headrace.local.linux import bound_to
from headrace.local.logs import open_log

_EXIT_POLL_SECONDS = 0.05


class Stage(IntEnum):
    """When a child is stopped in a drain: the lowest stage first, each stage as a whole."""

    SERVICE = 0
    MODEL = 1
    SERVER = 2


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """How a child is started and stopped."""

    name: str
    command: tuple[str, ...]
    log: Path
    stage: Stage
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """All of the child's environment; nothing is inherited."""
    stop_signal: signal.Signals = signal.SIGTERM
    grace: float = 20
    """Seconds between the stop signal and SIGKILL."""
    user: str | None = None
    """The system user it runs as; only root may name one."""


class Started(Protocol):
    """What a way of starting children answers: the part of `subprocess.Popen` that is used here."""

    @property
    def pid(self) -> int:
        """The process id, which is also the id of its process group."""
        ...

    def poll(self) -> int | None:
        """The exit code, or the signal's number below zero; None while it runs."""
        ...

    def send_signal(self, sig: int) -> None:
        """Send a signal, unless it has ended."""
        ...


Spawn = Callable[[ChildSpec, BinaryIO], Started]
"""A way of starting a child whose output goes to a log."""


def execute(spec: ChildSpec, log: BinaryIO, *, stdin: int = subprocess.DEVNULL) -> Started:
    """Run the command as a new program."""
    return subprocess.Popen(  # noqa: S603  (commands are built by this package)
        spec.command,
        env=spec.environment,
        stdin=stdin,
        stdout=log,
        stderr=subprocess.STDOUT,
        process_group=0,
        **_identity(spec.user),
        preexec_fn=bound_to(os.getpid()),  # noqa: PLW1509  (this process has no other threads)
    )


class Process:
    """A started child."""

    def __init__(self, spec: ChildSpec, spawn: Spawn = execute) -> None:
        """Start it.

        Raises:
            OSError: The program is missing or no process can be made.
        """
        self.spec = spec
        self._age_from = time.monotonic()
        with open_log(spec.log) as log:
            self._started = spawn(spec, log)

    @property
    def pid(self) -> int:
        """Its process id, which is also the id of its process group."""
        return self._started.pid

    @property
    def age(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._age_from

    @property
    def exit_reason(self) -> str | None:
        """`exit code 1` or `SIGKILL`; None while it runs."""
        code = self._started.poll()
        if code is None:
            return None
        return f"exit code {code}" if code >= 0 else signal.Signals(-code).name

    async def wait(self) -> str:
        """Wait for the exit, clear away what the child left in its group, and say why it went."""
        while (reason := self.exit_reason) is None:  # noqa: ASYNC110  (an event would take a thread per child)
            await asyncio.sleep(_EXIT_POLL_SECONDS)
        self._kill_group()
        return reason

    async def stop(self) -> None:
        """Ask it to stop; after the grace, or when cancelled, kill it."""
        self._started.send_signal(self.spec.stop_signal)
        try:
            async with asyncio.timeout(self.spec.grace):
                await self.wait()
        except TimeoutError:
            await self.kill()
        except asyncio.CancelledError:
            self.shoot()
            raise

    async def kill(self) -> None:
        """Kill it and its group with SIGKILL, and see it gone."""
        self.shoot()
        await self.wait()

    def shoot(self) -> None:
        """Send SIGKILL to it and its group, without waiting."""
        if self._started.poll() is None:
            self._kill_group()

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


async def run_once(spec: ChildSpec) -> str:
    """Run a command to its end; cancellation kills it.

    Returns:
        Why it ended: `exit code 0` on success.
    """
    process = Process(spec)
    try:
        return await process.wait()
    finally:
        process.shoot()


def _identity(user: str | None) -> dict[str, Any]:
    if user is None:
        return {}
    account = pwd.getpwnam(user)
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
