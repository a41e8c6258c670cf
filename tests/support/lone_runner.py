"""A runner in a process of its own, which a test can stop in the middle of a run: it stands still at a named point.

What its tool does is a line in a file, written by whichever process acts.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from headrace.common import faults
from headrace.common.app import Service
from headrace.common.db import Database, create_engine
from headrace.common.outbox import Outbox
from headrace.contracts.agents import AgentRevision
from headrace.contracts.runs import ChatMessage, RunRequested
from headrace.runner.model import ModelRequest, ModelTurn
from headrace.runner.models import metadata
from headrace.tools import DidNotHappen, Happened, Tool, ToolContext, Verdict, tool
from tests.support.runner_rig import LIMITS, POLICY, Rig, ScriptedTurns, calls, request, says
from tests.support.service_database import ServiceDatabase, SetClock

AGENT = AgentRevision(
    agent_id="assistant",
    account_id="acme",
    revision=1,
    name="assistant",
    instruction="Be brief.",
    tools=("write",),
)


class Clerk(ScriptedTurns):
    """A model that asks for one line to be written, the run's input, and then says that it is done."""

    async def call(self, request: ModelRequest, *, on_text: Callable[[str], Any]) -> ModelTurn:  # noqa: ARG002
        self.requests.append(request)
        last = request.messages[-1]
        if last["role"] == "tool":
            return says("done")
        return calls(("write", f'{{"line": "{last["content"]}"}}'))


class Page:
    """A file in which acts are counted."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.touch()

    @property
    def lines(self) -> list[str]:
        """What was written, and by which process."""
        return self._path.read_text().splitlines()

    def written_by(self, pid: int) -> list[str]:
        """What one process wrote."""
        return [line.partition(" ")[2] for line in self.lines if line.startswith(f"{pid} ")]

    def write(self, line: str) -> None:
        """Write a line at the end, whole."""
        with self._path.open("a") as page:
            page.write(f"{os.getpid()} {line}\n")

    async def look(self, key: str, _: ToolContext) -> Verdict:
        """Whether a line was written under a key."""
        return Happened("written") if any(line.endswith(f" {key}") for line in self.lines) else DidNotHappen()

    def tool(self) -> Tool:
        """The tool that writes a line."""

        @tool(effect="idempotent", key=lambda given, _: given["line"], reconcile=self.look)
        async def write(line: str, context: ToolContext) -> str:
            """Write a line."""
            self.write(f"{line} {context.provider_key}")
            return "written"

        return write


def line(run_id: str) -> RunRequested:
    """A run that writes one line, its own name."""
    return request(run_id, input=(ChatMessage(role="user", content=run_id),))


@asynccontextmanager
async def rig_on(url: str, *tools: Tool, model: ScriptedTurns, lease: timedelta) -> AsyncIterator[Rig]:
    """A runner on a database that is there and stays: its schema was made by somebody else."""

    def nothing(_: Any) -> Any:
        raise NotImplementedError

    async def unpublished(_: Any) -> None:
        """The outbox is looked at instead."""

    engine = create_engine(url, schema="runner", pool_size=10, longest_pause=lease)
    clock = SetClock(datetime.now(UTC))
    outbox = Outbox(metadata.tables["runner.outbox"])
    database = Database(engine, outbox, service="runner", clock=clock, publish=unpublished)
    stored = ServiceDatabase(database, Service("runner", "A runner under test.", metadata, nothing), clock)
    try:
        yield Rig(stored, model, {each.name: each for each in tools}, AGENT, LIMITS, POLICY, lease)
    finally:
        await engine.dispose()


@contextmanager
def lone_runner(
    rig: Rig, page: Path, *, run_id: str, stands_still_at: str, lease: timedelta
) -> Iterator["subprocess.Popen[bytes]"]:
    """Start one that takes a run; it is killed at the end, if it still is there."""
    url = rig.stored.database.engine.url.render_as_string(hide_password=False)
    given = (url, str(page), run_id, stands_still_at, str(lease.total_seconds()))
    process = subprocess.Popen([sys.executable, "-m", "tests.support.lone_runner", *given])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def stood_still(process: "subprocess.Popen[bytes]") -> bool:
    """Wait until it is stopped; false where it ended instead."""
    _, status = await asyncio.to_thread(os.waitpid, process.pid, os.WUNTRACED)
    return os.WIFSTOPPED(status)


class _StandStill:
    """Stops this process at the first passing of a point."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, _drill: Any, name: str) -> None:
        if name == self._name:
            self._name = ""
            os.kill(os.getpid(), signal.SIGSTOP)


async def _run(url: str, page: str, run_id: str, stands_still_at: str, lease: str) -> None:
    faults._drill, faults._pass = Path(page), _StandStill(stands_still_at)  # type: ignore[assignment]
    tools = Page(Path(page)).tool()
    async with rig_on(url, tools, model=Clerk(), lease=timedelta(seconds=float(lease))) as rig:
        keeping = asyncio.create_task(rig.leases.keep())
        await rig.run(line(run_id))
        keeping.cancel()


if __name__ == "__main__":
    asyncio.run(_run(*sys.argv[1:]))
