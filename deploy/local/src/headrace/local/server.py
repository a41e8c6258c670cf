"""What the embedded servers have in common."""

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from headrace.local.logs import tail
from headrace.local.loopback import is_free
from headrace.local.process import ChildSpec, Process

_PING_SECONDS = 0.03


class StartError(Exception):
    """A child does not come up; the sentence says which, why and what to do."""


class EmbeddedServer(ABC):
    """A server of our own on a loopback port, with its data in a folder.

    `start`, `stop` and `kill` are for those who run it themselves, such as tests; the supervisor runs the
    same server from `prepare`, `spec` and `wait_ready`.

    Args:
        folder: Its data and configuration; made where it is missing.
        port: Its TCP port on 127.0.0.1.
        log: Its log file; `<folder>.log` by default.
        durable: False trades safety against power loss for speed.
    """

    name: str
    patience = 30.0
    """Seconds that a start may take."""

    def __init__(self, folder: Path, port: int, *, log: Path | None = None, durable: bool = True) -> None:
        self.folder = folder.absolute()
        self.port = port
        self.log = log or self.folder.with_name(f"{self.folder.name}.log")
        self.durable = durable
        self._process: Process | None = None

    async def prepare(self) -> None:
        """Make the folder and the configuration.

        Raises:
            StartError: The folder cannot be used, or another program has the port and would answer for us.
        """
        if not is_free(self.port):
            raise self._failure("cannot listen: another program has its port")
        await self._set_up()

    @abstractmethod
    async def _set_up(self) -> None: ...

    @abstractmethod
    def spec(self) -> ChildSpec:
        """How the server is run."""

    @abstractmethod
    async def ping(self) -> None:
        """See the server answer.

        Raises:
            ConnectionError: Not yet.
            StartError: It answers, but will never let us in.
        """

    async def wait_ready(self, ended: Callable[[], str | None]) -> None:
        """Wait until the server answers.

        Args:
            ended: Why its process ended, or None while it runs.

        Raises:
            StartError: It ended, or did not answer within its patience.
        """
        try:
            async with asyncio.timeout(self.patience):
                while not await self._answers():
                    if reason := ended():
                        raise self._failure(f"ended at its start with {reason}")
                    await asyncio.sleep(_PING_SECONDS)
        except TimeoutError:
            raise self._failure(f"did not answer within {self.patience:g} s") from None

    async def start(self) -> Self:
        """Run the server as a child of this process, and wait until it answers.

        Raises:
            StartError: It does not come up.
        """
        await self.prepare()
        process = Process(self.spec())
        self._process = process
        try:
            await self.wait_ready(lambda: process.exit_reason)
        except BaseException:
            await self.kill()
            raise
        return self

    @property
    def pid(self) -> int:
        """The process id of the started server."""
        return self._started().pid

    async def stop(self) -> None:
        """Stop the started server cleanly."""
        await self._started().stop()

    async def kill(self) -> None:
        """End the started server as a crash would, with SIGKILL."""
        await self._started().kill()

    def _started(self) -> Process:
        if self._process is None:
            raise RuntimeError(f"{self.name} was not started")
        return self._process

    async def _answers(self) -> bool:
        try:
            await self.ping()
        except ConnectionError:
            return False
        return True

    def _failure(self, what: str) -> StartError:
        return StartError(
            f"{self.name} {what} (port {self.port}, data in {self.folder}).\n{tail(self.log)}\n"
            f"What to do: read {self.log}; free the port or the disk if it says so, then start again."
        )


def plain_environment() -> Mapping[str, str]:
    """The little that a server needs of our environment: none of its secrets."""
    return {name: os.environ[name] for name in ("PATH", "TZ", "TMPDIR") if name in os.environ}
