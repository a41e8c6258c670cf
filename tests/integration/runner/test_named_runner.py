"""A runner that starts under the name of a dead one goes on with its runs at once, and leaves everybody else's alone."""

import asyncio
from datetime import timedelta

from headrace.contracts.runs import RunState
from headrace.runner.leases import Leases
from headrace.runner.repository import runs
from headrace.runner.repository.runs import Lease
from tests.support.eventually import eventually
from tests.support.runner_rig import Rig, ScriptedTurns, request, runner_rig, says
from tests.support.servers import PostgresEndpoint


async def taken(rig: Rig, run_id: str, name: str | None) -> Lease:
    """What one life of a runner takes."""
    async with rig.stored.database.transaction() as tx:
        lease = await Leases(rig.stored.database, length=rig.lease, name=name).take(tx, request(run_id))
    assert lease is not None
    return lease


async def free(rig: Rig) -> list[str]:
    """The runs that anybody may take."""
    return [run_id for (run_id,) in await rig.sql("SELECT run_id FROM runs WHERE lease_until < now()")]


async def test_successor_frees_the_runs_of_the_dead_runner_of_its_name_and_no_others(
    postgres_server: PostgresEndpoint,
) -> None:
    async with runner_rig(postgres_server.superuser_url, name="runner-1") as rig:
        await taken(rig, "left", "runner-1")
        await taken(rig, "of-another", "runner-10")
        await taken(rig, "of-nobody", None)
        await rig.take(request("its-own"))

        await rig.leases.inherit()

        assert await free(rig) == ["left"]


async def test_runner_without_a_name_waits_for_leases_to_run_out(postgres_server: PostgresEndpoint) -> None:
    async with runner_rig(postgres_server.superuser_url) as rig:
        await taken(rig, "left", None)

        await rig.leases.inherit()

        assert await free(rig) == []


async def test_run_that_was_let_go_until_later_is_not_hurried_by_a_successor(
    postgres_server: PostgresEndpoint,
) -> None:
    async with runner_rig(postgres_server.superuser_url, name="runner-1") as rig:
        lease = await taken(rig, "waits", "runner-1")
        async with rig.stored.database.transaction() as tx:
            await runs.release(tx.connection, lease, after=timedelta(minutes=1), attempt=1)

        await rig.leases.inherit()

        assert await free(rig) == []


async def test_sweep_of_a_successor_goes_on_with_what_was_left(postgres_server: PostgresEndpoint) -> None:
    model = ScriptedTurns(says("done"))
    long = timedelta(hours=1)
    async with runner_rig(postgres_server.superuser_url, model=model, lease=long, name="runner-1") as rig:
        await taken(rig, "left", "runner-1")

        async def has_ended() -> None:
            assert (await rig.report("left")).state is RunState.SUCCEEDED

        sweeping = asyncio.create_task(rig.sweep.recover())
        await eventually(has_ended)
        sweeping.cancel()
