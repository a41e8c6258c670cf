"""The nursery as the supervisor sees it: services are forked from a child that has imported what they need.

An order goes over a socket: modules to import, or a service to fork. A newborn is orphaned at once and adopted by the
supervisor. So its end and its exit code are the supervisor's to see, as if it had been executed, and the nursery may
die and be started again beside it.
"""

import asyncio
import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO

from headrace.local.linux import adopting
from headrace.local.process import ChildSpec, Started, execute

_SETTINGS = "HEADRACE_"
"""No import reads variables with this prefix; all others must be the same in the nursery and in what it forks."""
_LEARN_SECONDS = 30
_LEARN_POLL_SECONDS = 0.01
_BIRTH_SECONDS = 5


@dataclass(slots=True)
class Forked:
    """A forked child, as `subprocess.Popen` would show it."""

    pid: int
    returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, or the signal's number below zero; None while it runs."""
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if ended else None
        return self.returncode

    def send_signal(self, sig: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, sig)


class Nursery:
    """Starts children by fork where it can, and by execution where it cannot.

    Args:
        environment: What the nursery is started with, and so what every import sees.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._modules: list[str] = []
        self._line: socket.socket | None = None
        self._awaited = 0
        """Orders to import that it has not carried out yet."""

    def begin(self, spec: ChildSpec, log: BinaryIO) -> Started:
        """Start the nursery itself, or the next one after its death, which is asked to import the same again."""
        self.close()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        self._line = ours
        with theirs:
            started = execute(spec, log, stdin=theirs.fileno())
        self._ask_for(self._modules)
        return started

    async def learn(self, *modules: str) -> None:
        """Have modules imported, and wait until they are, or the nursery is dead, or half a minute is over."""
        self._modules += modules
        self._ask_for(modules)
        with suppress(TimeoutError):
            async with asyncio.timeout(_LEARN_SECONDS):
                while self._awaited:
                    await asyncio.sleep(_LEARN_POLL_SECONDS)
                    self._listen()

    def spawn(self, spec: ChildSpec, log: BinaryIO) -> Started:
        """Fork a `python -m` command; execute it where the nursery is away, at work, or cannot be like it."""
        self._listen()
        if not self._awaited and self._can_be(spec):
            with suppress(OSError):
                return self._fork(spec, log)
        return execute(spec, log)

    def close(self) -> None:
        """Hang up, on which the nursery ends."""
        self._awaited = 0
        if self._line:
            self._line.close()
            self._line = None

    def _can_be(self, spec: ChildSpec) -> bool:
        others = {name: value for name, value in spec.environment.items() if not name.startswith(_SETTINGS)}
        is_module = spec.command[:2] == (sys.executable, "-m")
        return is_module and spec.user is None and others == self._environment

    def _fork(self, spec: ChildSpec, log: BinaryIO) -> Forked:
        settings = {name: value for name, value in spec.environment.items() if name.startswith(_SETTINGS)}
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, adopting():
            with theirs:
                self._order([spec.command, settings], theirs.fileno(), log.fileno())
            ours.settimeout(_BIRTH_SECONDS)
            if not (pid := ours.recv(32)):
                raise ConnectionError("the nursery did not fork")
            ours.send(b"live")  # who does not hear it ends: nobody would know of it
        return Forked(int(pid))

    def _ask_for(self, modules: Sequence[str]) -> None:
        self._awaited += 1
        try:
            self._order(modules)
        except OSError:
            self.close()

    def _order(self, what: object, *fds: int) -> None:
        if self._line is None:
            raise ConnectionError("there is no nursery")
        socket.send_fds(self._line, [json.dumps(what).encode()], fds)

    def _listen(self) -> None:
        """Hear which orders to import were carried out, or that the nursery has died."""
        try:
            while self._line and self._awaited:
                if not self._line.recv(32):
                    raise ConnectionError("the nursery has died")
                self._awaited -= 1
        except BlockingIOError:
            return
        except OSError:
            self.close()
