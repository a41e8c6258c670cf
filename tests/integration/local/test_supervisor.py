"""The supervisor, with small real processes as children."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.local.leftovers import Record, command_line, remember, remembered, sweep
from headrace.local.process import ChildSpec, Process, Stage
from headrace.local.supervisor import Supervisor
from tests.support.eventually import eventually

DEAF = "trap '' TERM; echo up; while :; do sleep 0.05; done"
SUPERVISED = """
import asyncio, sys
from pathlib import Path
from headrace.local.process import ChildSpec, Stage
from headrace.local.supervisor import Supervisor

async def main(folder):
    async with Supervisor(folder / "children.json", print) as supervisor:
        for name in ("one", "two"):
            supervisor.add(ChildSpec(name, ("/bin/sh", "-c", "sleep 300 & wait"), folder / f"{name}.log", Stage.SERVICE))
        print("started", flush=True)
        await asyncio.Event().wait()

asyncio.run(main(Path(sys.argv[1])))
"""


class Family:
    """Makes small children for a supervisor that writes into a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[str] = []
        self.supervisor = Supervisor(folder / "children.json", self.said.append)

    def spec(self, name: str, script: str, *, stage: Stage = Stage.SERVICE, grace: float = 20) -> ChildSpec:
        command = ("/bin/sh", "-c", script)
        environment = {"PATH": os.defpath}
        log = self.folder / f"{name}.log"
        return ChildSpec(name, command, log, stage, environment=environment, grace=grace)

    def farewell(self, name: str, stage: Stage) -> ChildSpec:
        """A child that, asked to stop, takes a moment and then writes its name down."""
        bye = f"sleep 0.2; echo {name} >> {self.folder}/farewells; exit 0"
        return self.spec(name, f"trap '{bye}' TERM; echo up; while :; do sleep 0.05; done", stage=stage)

    async def up(self, name: str) -> None:
        """Wait until a child has printed something."""

        async def check() -> None:
            assert (self.folder / f"{name}.log").stat().st_size

        await eventually(check)


def killed_supervisor(folder: Path) -> list[Record]:
    """Start a supervisor as a process of its own, kill it, and answer what it had running."""
    command = [sys.executable, "-c", SUPERVISED, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as supervisor:
        assert supervisor.stdout is not None
        assert supervisor.stdout.readline() == b"started\n"
        children = remembered(folder / "children.json")
        supervisor.kill()
    return children


@pytest.fixture
def family(tmp_path: Path) -> Family:
    return Family(tmp_path)


async def test_a_child_that_died_is_started_again(family: Family) -> None:
    async with family.supervisor as supervisor:
        first = supervisor.add(family.spec("one", "exec sleep 300"))
        killed = supervisor.pids["one"]
        os.kill(killed, signal.SIGKILL)

        async def again() -> None:
            assert supervisor.pids.get("one", killed) != killed

        await eventually(again)
        assert first.last_end == "SIGKILL"

    assert family.said == ["one ended (SIGKILL); starting it again in 0.25 s"]


async def test_a_child_that_keeps_dying_waits_longer_each_time(family: Family) -> None:
    async with family.supervisor as supervisor:
        supervisor.add(family.spec("one", "exit 3"))

        async def thrice() -> None:
            assert len(family.said) == 3

        await eventually(thrice)

    assert family.said == [
        f"one ended (exit code 3); starting it again in {delay} s" for delay in ("0.25", "0.5", "1")
    ]


async def test_a_drain_stops_services_then_the_model_then_servers(family: Family) -> None:
    async with family.supervisor as supervisor:
        for name, stage in (("server", Stage.SERVER), ("model", Stage.MODEL), ("service", Stage.SERVICE)):
            supervisor.add(family.farewell(name, stage))
            await family.up(name)

    assert (family.folder / "farewells").read_text().split() == ["service", "model", "server"]
    assert (supervisor.pids, family.said) == ({}, [])


async def test_a_child_that_does_not_stop_is_killed_after_its_grace(family: Family) -> None:
    async with family.supervisor as supervisor:
        deaf = family.spec("deaf", DEAF, grace=0.2)
        child = supervisor.add(deaf)
        await family.up("deaf")

    assert child.last_end == "SIGKILL"


async def test_a_kill_ends_a_drain_at_once(family: Family) -> None:
    async with family.supervisor as supervisor:
        deaf = family.spec("deaf", DEAF, grace=300)
        child = supervisor.add(deaf)
        await family.up("deaf")
        supervisor.kill()

    assert child.last_end == "SIGKILL"


async def test_what_a_dead_child_left_in_its_group_is_cleared_away(family: Family) -> None:
    spec = family.spec("parent", f"sleep 300 & echo $! > {family.folder}/orphan; exit 0")
    process = Process(spec)

    await process.wait()

    orphan = int((family.folder / "orphan").read_text())

    async def gone() -> None:
        assert command_line(orphan) == ""

    await eventually(gone)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ties a child's life to its parent's")
async def test_children_die_with_a_killed_supervisor(tmp_path: Path) -> None:
    children = killed_supervisor(tmp_path)

    async def gone() -> None:
        assert not [child.name for child in children if child.is_running()]

    assert [child.name for child in children] == ["one", "two"]
    await eventually(gone)


async def test_what_an_earlier_supervisor_left_is_stopped(family: Family) -> None:
    left = [Process(family.farewell("polite", Stage.SERVICE)), Process(family.spec("deaf", DEAF))]
    for process in left:
        await family.up(process.spec.name)
    remember(family.folder / "children.json", left)

    stopped = await sweep(family.folder / "children.json", grace=1)

    assert stopped == ["polite", "deaf"]
    assert [await process.wait() for process in left] == ["exit code 0", "SIGKILL"]


async def test_a_stranger_that_got_an_old_pid_is_left_alone(family: Family) -> None:
    process = Process(family.spec("stranger", "exec sleep 300"))
    record = family.folder / "children.json"
    record.write_text(
        f'[{{"name": "gateway", "pid": {process.pid}, "command": ["python", "gateway"], "stop_signal": 15}}]'
    )

    stopped = await sweep(record)

    assert (stopped, process.exit_reason) == ([], None)
    await process.kill()
