"""The commands that look at a deployment, or act on it, from outside."""

import asyncio
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping

from headrace.local.leftovers import sweep
from headrace.local.lock import holder
from headrace.local.logs import tail
from headrace.local.plan import Plan
from headrace.local.readiness import Readiness, ask
from headrace.local.state import SERVICES, Home, Secrets

_STOP_PATIENCE_SECONDS = 90


def status(environment: Mapping[str, str]) -> int:
    """Print each service's readiness; 0 where all are ready."""
    home = Home.of(environment)
    running = holder(home.lock)
    if not running:
        return _not_running(home)
    plan = _plan(home, environment)
    answers = asyncio.run(_ask_all(plan))
    print(f"Headrace (pid {running.pid}), data in {home.root}\n")
    for name, answer in answers.items():
        state = "ready" if answer.ready else "not ready"
        print(f"  {name:<11}{state:<11}{plan.url(name)}{'' if answer.ready else f'  {answer.detail}'}")
    return 0 if all(answer.ready for answer in answers.values()) else 1


def down(environment: Mapping[str, str]) -> int:
    """Ask the running supervisor to stop, and wait until it has."""
    home = Home.of(environment)
    running = holder(home.lock)
    if not running:
        return _not_running(home)
    os.kill(running.pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_PATIENCE_SECONDS
    while holder(home.lock):
        if time.monotonic() > deadline:
            return _refuse(f"Headrace (pid {running.pid}) still runs after {_STOP_PATIENCE_SECONDS} s.")
        time.sleep(0.1)
    print("Headrace has stopped.")
    return 0


def logs(environment: Mapping[str, str], name: str, *, lines: int, follow: bool) -> int:
    """Print the end of a child's log, and what is added to it from now on if that is wanted."""
    log = Home.of(environment).log(name)
    if not log.exists():
        known = ", ".join(sorted(other.stem for other in log.parent.glob("*.log"))) or "none yet"
        return _refuse(f"There is no log of {name!r}; there are: {known}.")
    if follow:
        os.execvp("tail", ["tail", "-n", str(lines), "-F", str(log)])  # noqa: S606, S607  (the system's own)
    print(tail(log, lines))
    return 0


def connections(environment: Mapping[str, str]) -> int:
    """Print how an operator reaches the servers; these lines hold secrets."""
    home = Home.of(environment)
    if not home.ports.exists():
        return _refuse(f"Nothing was ever started in {home.root}: run `headrace up` first.")
    plan = _plan(home, environment)
    database = plan.superuser_url if plan.owns_postgres else plan.database_url("")
    print(f"psql '{database.replace('+asyncpg', '')}'")
    print(f"nats --server '{plan.operator_nats_url}' stream report")
    print(f"redis-cli -u '{plan.redis_url}'")
    return 0


def destroy(environment: Mapping[str, str], *, yes: bool) -> int:
    """Remove all data, logs and secrets."""
    home = Home.of(environment)
    if not home.secrets.exists():
        return _refuse(f"There is no deployment in {home.root}.")
    if running := holder(home.lock):
        return _refuse(f"Headrace runs (pid {running.pid}): run `headrace down` first.")
    if not yes:
        return _refuse(f"This removes all data in {home.root} for ever: add --yes if you mean it.")
    asyncio.run(sweep(home.children))
    shutil.rmtree(home.root)
    print(f"Removed {home.root}.")
    return 0


def _plan(home: Home, environment: Mapping[str, str]) -> Plan:
    return Plan(environment, home, Secrets.kept(home.secrets), json.loads(home.ports.read_text()))


async def _ask_all(plan: Plan) -> dict[str, Readiness]:
    answers = await asyncio.gather(*(ask(f"{plan.url(name)}/readyz") for name in SERVICES))
    return dict(zip(SERVICES, answers, strict=True))


def _not_running(home: Home) -> int:
    return _refuse(f"Headrace is not running in {home.root}.")


def _refuse(sentence: str) -> int:
    print(sentence, file=sys.stderr)
    return 1
