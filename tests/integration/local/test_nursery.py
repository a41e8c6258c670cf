"""The nursery: what it forks is like what `python -m` runs, whatever dies."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.local import nursery as nursery_module
from headrace.local.leftovers import Record, command_line, remember, remembered, sweep
from headrace.local.nursery import Forked, Nursery
from headrace.local.process import ChildSpec, Process, Stage
from headrace.local.supervisor import Child, Supervisor
from tests.support.eventually import eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a nursery")

PROGRAM = """
import asyncio, gc, json, os, random, secrets, signal, sys, time, uuid

print(json.dumps({
    "chance": [random.random(), secrets.token_hex(), str(uuid.uuid4()), random.SystemRandom().random()],
    "pid": os.getpid(),
    "argv": sys.argv,
    "name": __name__,
    "command": open("/proc/self/cmdline").read().rstrip(chr(0)).split(chr(0)),
    "environment": dict(os.environ),
    "parent": os.getppid(),
    "leads_its_group": os.getpgrp() == os.getpid(),
    "threads": len(os.listdir("/proc/self/task")),
    "files": [os.readlink(f"/proc/self/fd/{fd}") for fd in range(3)] + os.listdir("/proc/self/fd")[3:-1],
    "handlers": [str(signal.getsignal(number)) for number in range(1, 32)],
    "collects": gc.isenabled(),
    "folder": os.getcwd(),
    "loop": asyncio._get_running_loop(),
}), flush=True)
exec(os.environ["HEADRACE_THEN"])
"""
SLEEP = "time.sleep(300)"
SUPERVISED = """
import asyncio, os, sys
from pathlib import Path
from headrace.local.nursery import Nursery
from headrace.local.process import ChildSpec, Stage
from headrace.local.supervisor import Supervisor

async def main(folder):
    environment = {"PYTHONPATH": str(folder)}
    settings = {"HEADRACE_THEN": "time.sleep(300)"}

    def spec(name, module, **more):
        command, log = (sys.executable, "-m", module), folder / f"{name}.log"
        return ChildSpec(name, command, log, Stage.SERVICE, environment={**environment, **more})

    nursery = Nursery(environment)
    async with Supervisor(folder / "children.json", print) as supervisor:
        supervisor.add(spec("nursery", "headrace.local.nursery_process"), nursery.begin)
        await nursery.learn()
        child = supervisor.add(spec("one", "program", **settings), nursery.spawn)
        print(type(child.process._started).__name__, flush=True)
        await asyncio.Event().wait()

asyncio.run(main(Path(sys.argv[1])))
"""


class Ward:
    """A nursery under supervision, and the program that it forks."""

    def __init__(self, folder: Path) -> None:
        (folder / "program.py").write_text(PROGRAM)
        self.folder = folder
        self.said: list[str] = []
        self.supervisor = Supervisor(folder / "children.json", self.said.append)
        self.environment = {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
        self.nursery = Nursery(self.environment)

    def spec(self, name: str, *, then: str, module: str = "program") -> ChildSpec:
        return ChildSpec(
            name,
            (sys.executable, "-m", module, "serve"),
            self.folder / f"{name}.log",
            Stage.SERVICE,
            environment={**self.environment, "HEADRACE_THEN": then},
        )

    async def begin(self, *modules: str) -> Child:
        """Start the nursery, and see it ready."""
        nursery = ChildSpec(
            "nursery",
            (sys.executable, "-m", "headrace.local.nursery_process"),
            self.folder / "nursery.log",
            Stage.SERVICE,
            environment=self.environment,
        )
        child = self.supervisor.add(nursery, self.nursery.begin)
        await self.nursery.learn(*modules)
        return child

    async def fork(self, name: str = "one", *, then: str = SLEEP) -> Child:
        """Have the supervisor start the program, and see it run."""
        child = self.supervisor.add(self.spec(name, then=then), self.nursery.spawn)
        await self.told(name)
        return child

    async def told(self, name: str, *, times: int = 1) -> dict[str, Any]:
        """What the program found at its latest start."""
        log = self.folder / f"{name}.log"

        async def check() -> None:
            assert log.read_text().count("\n") >= times

        await eventually(check)
        told: dict[str, Any] = json.loads(log.read_text().splitlines()[times - 1])
        return told


def is_forked(child: Child | Process) -> bool:
    process = child.process if isinstance(child, Child) else child
    return process is not None and isinstance(process._started, Forked)


def killed_supervisor(folder: Path) -> list[Record]:
    """Start a supervisor with a nursery as a process of its own, kill it, and answer what it had running."""
    (folder / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-c", SUPERVISED, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as supervisor:
        assert supervisor.stdout is not None
        assert supervisor.stdout.readline() == b"Forked\n"
        children = remembered(folder / "children.json")
        supervisor.kill()
    return children


@pytest.fixture
async def ward(tmp_path: Path) -> AsyncIterator[Ward]:
    made = Ward(tmp_path)
    async with made.supervisor:
        yield made
    made.nursery.close()


async def test_a_forked_program_finds_what_an_executed_one_finds(ward: Ward) -> None:
    await ward.begin("asyncio", "random", "uuid", "secrets")
    await ward.fork("forked")
    ward.supervisor.add(ward.spec("executed", then=SLEEP))

    forked, executed = await ward.told("forked"), await ward.told("executed")

    assert (forked.pop("pid"), executed.pop("pid")) == (
        ward.supervisor.pids["forked"],
        ward.supervisor.pids["executed"],
    )
    assert not set(forked.pop("chance")) & set(executed.pop("chance"))
    assert json.loads(json.dumps(forked).replace("forked.log", "executed.log")) == executed


async def test_two_newborns_share_no_random_number(ward: Ward) -> None:
    await ward.begin("random", "uuid", "secrets")
    await ward.fork("one")
    await ward.fork("two")

    one, two = (await ward.told("one"))["chance"], (await ward.told("two"))["chance"]

    assert not set(one) & set(two)


@pytest.mark.parametrize(
    ("then", "end"),
    [
        ("sys.exit(3)", "exit code 3"),
        ("raise ValueError('told in its log')", "exit code 1"),
        ("pass", "exit code 0"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
        ("os.kill(os.getpid(), signal.SIGTERM)", "SIGTERM"),
    ],
)
async def test_the_supervisor_sees_how_a_forked_program_ended(ward: Ward, then: str, end: str) -> None:
    await ward.begin()
    process = Process(ward.spec("one", then=then), ward.nursery.spawn)

    ended = await process.wait()

    told = "ValueError: told in its log" in (ward.folder / "one.log").read_text()
    assert (is_forked(process), ended, told) == (True, end, "ValueError" in then)


async def test_a_killed_service_is_forked_again(ward: Ward) -> None:
    await ward.begin()
    child = await ward.fork("one")
    killed = ward.supervisor.pids["one"]

    os.kill(killed, signal.SIGKILL)

    again = await ward.told("one", times=2)
    assert (child.last_end, is_forked(child), again["pid"] != killed) == ("SIGKILL", True, True)


async def test_children_outlive_a_killed_nursery_and_the_next_one_forks(ward: Ward) -> None:
    nursery = await ward.begin("uuid")
    child = await ward.fork("one")
    before = ward.supervisor.pids

    os.kill(before["nursery"], signal.SIGKILL)

    async def again() -> None:
        assert ward.supervisor.pids.get("nursery", before["nursery"]) != before["nursery"]

    await eventually(again)
    await ward.nursery.learn()
    other = await ward.fork("two")
    assert (nursery.last_end, ward.supervisor.pids["one"], child.ends) == ("SIGKILL", before["one"], 0)
    assert is_forked(other)


async def test_without_a_nursery_programs_are_executed(ward: Ward) -> None:
    await ward.nursery.learn("uuid")

    child = await ward.fork("one")

    assert not is_forked(child)


async def test_a_program_that_starts_while_the_nursery_imports_is_executed(ward: Ward) -> None:
    (ward.folder / "slow.py").write_text("import time; time.sleep(300)")
    await ward.begin()
    ward.nursery._ask_for(["slow"])

    child = await ward.fork("one")

    assert not is_forked(child)


async def test_a_nursery_whose_import_fails_does_not_hold_up_a_start(ward: Ward) -> None:
    await ward.begin("there_is_no_such_module")

    child = await ward.fork("one")

    assert not is_forked(child)


async def test_a_nursery_with_threads_does_not_fork(ward: Ward) -> None:
    threaded = "import threading, time; threading.Thread(target=time.sleep, args=(300,), daemon=True).start()"
    (ward.folder / "threaded.py").write_text(threaded)
    await ward.begin("threaded")

    child = await ward.fork("one")

    said = (ward.folder / "nursery.log").read_text()
    assert (is_forked(child), said) == (False, "cannot fork: there are 2 threads\n")


async def test_another_environment_than_the_imports_saw_is_executed(ward: Ward) -> None:
    await ward.begin()
    spec = ward.spec("one", then="pass")
    spec = replace(spec, environment={**spec.environment, "TZ": "Asia/Tokyo"})

    process = Process(spec, ward.nursery.spawn)

    assert (await process.wait(), is_forked(process)) == ("exit code 0", False)


async def test_what_an_import_put_into_the_environment_stays(ward: Ward) -> None:
    (ward.folder / "setting.py").write_text("import os; os.environ['OFFLINE'] = 'yes'")
    await ward.begin("setting")
    await ward.fork("one")

    assert (await ward.told("one"))["environment"]["OFFLINE"] == "yes"


async def test_a_newborn_that_nobody_waited_for_ends(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nursery_module, "_BIRTH_SECONDS", 0.1)
    await ward.begin()
    os.kill(ward.supervisor.pids["nursery"], signal.SIGSTOP)
    child = await ward.fork("one")
    os.kill(ward.supervisor.pids["nursery"], signal.SIGCONT)

    other = await ward.fork("two")

    starts = (ward.folder / "one.log").read_text().count("\n")
    assert (is_forked(child), is_forked(other), starts) == (False, True, 1)


async def test_a_forked_leftover_is_recognised_and_stopped(ward: Ward) -> None:
    await ward.begin()
    process = Process(ward.spec("left", then=SLEEP), ward.nursery.spawn)
    await ward.told("left")
    record = ward.folder / "left.json"
    remember(record, [process])

    stopped = await sweep(record, grace=5)

    assert (is_forked(process), stopped, await process.wait()) == (True, ["left"], "SIGTERM")


async def test_nursery_and_forked_children_die_with_a_killed_supervisor(tmp_path: Path) -> None:
    children = killed_supervisor(tmp_path)

    async def gone() -> None:
        assert [command_line(child.pid) for child in children] == ["", ""]

    assert [child.name for child in children] == ["nursery", "one"]
    await eventually(gone)
