"""Keeps children running, and stops them in order."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from headrace.local.backoff import Backoff
from headrace.local.leftovers import remember
from headrace.local.process import ChildSpec, Process, Spawn, Stage, execute


@dataclass(slots=True)
class Child:
    """A child under supervision."""

    spec: ChildSpec
    spawn: Spawn = execute
    process: Process | None = None
    """None while it waits to be started again."""
    last_end: str | None = None
    """Why its last process ended; None as long as the first one runs."""
    ends: int = 0
    """How often it ended."""


class Supervisor:
    """Starts children, starts them again when they die, and drains them when its `async with` block ends.

    Args:
        record: The file in which the running children are written down, for `leftovers.sweep`.
        say: Takes one line about each death.
    """

    def __init__(self, record: Path, say: Callable[[str], None]) -> None:
        self._record = record
        self._say = say
        self._children: list[Child] = []
        self._keepers = asyncio.TaskGroup()
        self._draining = asyncio.Event()

    async def __aenter__(self) -> Self:
        await self._keepers.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.drain()
        await self._keepers.__aexit__(None, None, None)

    def add(self, spec: ChildSpec, spawn: Spawn = execute) -> Child:
        """Start a child and keep it running.

        Args:
            spec: What to run.
            spawn: How to start it, each time.

        Raises:
            OSError: It cannot be started at all.
        """
        child = Child(spec, spawn)
        self._children.append(child)
        self._start(child)
        self._keepers.create_task(self._keep(child), name=spec.name)
        return child

    @property
    def pids(self) -> dict[str, int]:
        """The process id of each child that runs now."""
        return {child.spec.name: child.process.pid for child in self._children if child.process}

    async def drain(self) -> None:
        """Stop everything, stage by stage; nothing is started again."""
        self._draining.set()
        for stage in Stage:
            async with asyncio.TaskGroup() as stops:
                for child in self._children:
                    if child.spec.stage is stage and child.process:
                        stops.create_task(child.process.stop())

    def kill(self) -> None:
        """Kill everything at once; a drain in progress then ends at once."""
        self._draining.set()
        for child in self._children:
            if child.process:
                child.process.shoot()

    async def _keep(self, child: Child) -> None:
        backoff = Backoff()
        while True:
            lived = await self._outlive(child)
            if self._draining.is_set():
                return
            delay = backoff.after(lived)
            self._say(f"{child.spec.name} ended ({child.last_end}); starting it again in {delay:g} s")
            if await self._drains_within(delay):
                return
            self._start_again(child)

    async def _outlive(self, child: Child) -> float:
        if child.process is None:
            return 0
        child.last_end = await child.process.wait()
        child.ends += 1
        lived, child.process = child.process.age, None
        self._remember()
        return lived

    async def _drains_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._draining.wait(), seconds)
        return self._draining.is_set()

    def _start_again(self, child: Child) -> None:
        try:
            self._start(child)
        except OSError as error:
            child.last_end = str(error)

    def _start(self, child: Child) -> None:
        child.process = Process(child.spec, child.spawn)
        self._remember()

    def _remember(self) -> None:
        remember(self._record, [child.process for child in self._children if child.process])
