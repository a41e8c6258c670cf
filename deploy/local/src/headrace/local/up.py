"""`headrace up`: everything in the foreground, until a signal."""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping

from headrace.local.console import Console
from headrace.local.deployment import Deployment
from headrace.local.leftovers import sweep
from headrace.local.lock import AlreadyRunningError, Lock, held
from headrace.local.plan import DEMO_MODEL, Plan
from headrace.local.ports import choose_ports
from headrace.local.server import StartError
from headrace.local.state import SERVICES, Home, Secrets
from headrace.local.supervisor import Supervisor

_SERVERS = ("nats", "postgres", "valkey")


def run(environment: Mapping[str, str], *, quiet_json: bool) -> int:
    """Start everything, say so, and keep it running; answers the exit code."""
    os.umask(0o077)
    home = Home.of(environment)
    home.make()
    console = Console(quiet_json=quiet_json)
    failures: list[str] = []
    try:
        with held(home.lock) as lock:
            asyncio.run(_serve(home, environment, lock, console))
    except* (AlreadyRunningError, StartError) as group:
        failures = [str(error) for error in _leaves(group)]
    for sentence in failures:
        print(sentence, file=sys.stderr)
    return 1 if failures else 0


async def _serve(home: Home, environment: Mapping[str, str], lock: Lock, console: Console) -> None:
    if stopped := await sweep(home.children):
        console.say(f"stopped what an earlier start had left: {', '.join(stopped)}")
    plan = _plan(home, environment, console)
    lock.sign(plan.url("gateway"))
    async with Supervisor(home.children, console.say) as supervisor:
        work = asyncio.create_task(_work(plan, supervisor, console))
        _stop_on_signals(work, supervisor, console)
        await asyncio.wait([work])
    if not work.cancelled():
        await work


async def _work(plan: Plan, supervisor: Supervisor, console: Console) -> None:
    await Deployment(plan, supervisor, console).start()
    console.ready(plan, supervisor.pids)
    await asyncio.Event().wait()


def _stop_on_signals(work: asyncio.Task[None], supervisor: Supervisor, console: Console) -> None:
    def stop() -> None:
        if work.cancel("asked to stop"):
            console.say("stopping; once more kills")
        else:
            supervisor.kill()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop)


def _plan(home: Home, environment: Mapping[str, str], console: Console) -> Plan:
    fixed = {
        name: int(port) for name in SERVICES if (port := environment.get(f"HEADRACE_{name.upper()}_PORT"))
    }
    names = (*SERVICES, DEMO_MODEL, *_SERVERS)
    ports = choose_ports(home.ports, names, fixed=fixed, say=console.say)
    return Plan(environment, home, Secrets.kept(home.secrets), ports)


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for part in error.exceptions for leaf in _leaves(part)]
    return [error]
