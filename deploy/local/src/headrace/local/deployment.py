"""Starts a whole deployment under a supervisor."""

import asyncio
import sys

from headrace.local.console import Console
from headrace.local.logs import tail
from headrace.local.nats_server import NatsServer
from headrace.local.nursery import Nursery
from headrace.local.plan import DEMO_MODEL, Plan
from headrace.local.postgres_roles import prepare_database
from headrace.local.postgres_server import PostgresServer
from headrace.local.readiness import ask
from headrace.local.server import EmbeddedServer, StartError
from headrace.local.state import SERVICES
from headrace.local.supervisor import Child, Supervisor
from headrace.local.valkey_server import ValkeyServer

_HEAVY = ("runner",)
"""Services whose imports take seconds; the others are forked before."""
_LIGHT = tuple(name for name in SERVICES if name not in _HEAVY)
_EVERYWHERE = (
    *("headrace.common.app", "headrace.common.migrate", "asyncpg", "pydantic.v1"),
    *("uvicorn.lifespan.on", "uvicorn.loops.uvloop", "uvicorn.protocols.http.httptools_impl"),
)
"""What every service imports sooner or later."""
_PATIENCE_SECONDS = 120
_ASK_SECONDS = 0.2
_ENDS_TOO_OFTEN = 5


class Deployment:
    """A plan that is being carried out.

    Services come first, since their imports take longest and they wait for their servers by themselves.
    """

    def __init__(self, plan: Plan, supervisor: Supervisor, console: Console) -> None:
        self._plan = plan
        self._supervisor = supervisor
        self._console = console

    async def start(self) -> None:
        """Start everything and wait until it answers.

        Raises:
            StartError: Something does not come up; it is inside an `ExceptionGroup`.
        """
        plan = self._plan
        async with asyncio.TaskGroup() as starts:
            starts.create_task(self._start_servers())
            starts.create_task(self._start_services())
            if plan.model.is_demo:
                demo = self._supervisor.add(plan.demo_model())
                starts.create_task(self._wait(demo, f"http://127.0.0.1:{plan.ports[DEMO_MODEL]}/healthz"))

    async def _start_services(self) -> None:
        spec = self._plan.nursery()
        nursery = Nursery(spec.environment)
        if sys.platform == "linux":
            self._supervisor.add(spec, nursery.begin)
        async with asyncio.TaskGroup() as starts:
            for names in _LIGHT, _HEAVY:
                await nursery.learn(*_EVERYWHERE, *(f"headrace.{name}.service" for name in names))
                for name in names:
                    service = self._supervisor.add(self._plan.service(name), nursery.spawn)
                    starts.create_task(self._wait(service, f"{self._plan.url(name)}/readyz"))

    async def _start_servers(self) -> None:
        async with asyncio.TaskGroup() as starts:
            if self._plan.owns_postgres:
                starts.create_task(self._start_postgres())
            if self._plan.owns_valkey:
                starts.create_task(self._start_valkey())
            if self._plan.owns_nats:
                starts.create_task(self._start_nats())
        await self._apply_topology()

    async def _start_postgres(self) -> None:
        plan = self._plan
        folder, log = plan.home.root / "postgres", plan.home.log("postgres")
        server = PostgresServer(folder, plan.ports["postgres"], plan.secrets.superuser, log=log)
        await self._run(server)
        await prepare_database(server.superuser_url, plan.secrets.postgres)

    async def _start_valkey(self) -> None:
        plan = self._plan
        folder, log = plan.home.root / "valkey", plan.home.log("valkey")
        await self._run(ValkeyServer(folder, plan.ports["valkey"], plan.secrets.valkey, log=log))

    async def _start_nats(self) -> None:
        from headrace.common.access import nats_authorization  # noqa: PLC0415  (slow: let the children start first)

        plan = self._plan
        folder, log = plan.home.root / "nats", plan.home.log("nats")
        authorization = nats_authorization(plan.secrets.nats)
        await self._run(NatsServer(folder, plan.ports["nats"], authorization, log=log))

    async def _apply_topology(self) -> None:
        from headrace.common import topology  # noqa: PLC0415  (slow: let the children start first)

        for drift in await topology.apply(self._plan.operator_nats_url):
            self._console.say(f"the broker differs from what is declared: {drift}")

    async def _run(self, server: EmbeddedServer) -> None:
        await server.prepare()
        child = self._supervisor.add(server.spec())
        await server.wait_ready(lambda: child.last_end)
        self._console.progress(f"{server.name} ready")

    async def _wait(self, child: Child, url: str) -> None:
        name, detail = child.spec.name, "it was not asked"
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while child.ends < _ENDS_TOO_OFTEN:
                    answer = await ask(url)
                    if answer.ready:
                        self._console.progress(f"{name} ready")
                        return
                    detail = answer.detail
                    await asyncio.sleep(_ASK_SECONDS)
                detail = f"it ended {child.ends} times, the last time with {child.last_end}"
        except TimeoutError:
            detail = f"after {_PATIENCE_SECONDS} s: {detail}"
        raise StartError(
            f"{name} does not come up: {detail}.\n{tail(child.spec.log)}\n"
            f"What to do: read {child.spec.log}, and start again."
        )
