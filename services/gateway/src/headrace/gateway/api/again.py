"""`/v1/runs/{id}/resume` and `/replay`: going on with a run, and doing it again."""

from typing import Annotated

from fastapi import APIRouter, Header, Query, Response

from headrace.common.clock import Clock
from headrace.contracts.ids import Token
from headrace.contracts.journal import ResumePlan
from headrace.contracts.run_questions import RunReport
from headrace.gateway.api.runs import RunAccepted, accepted
from headrace.gateway.auth import KeyDoor, Visitor
from headrace.gateway.commands import Commands, Order
from headrace.gateway.errors import ReplayRefused
from headrace.gateway.planning import Planner
from headrace.gateway.reading import RunReader
from headrace.gateway.starting import Replay, replay_started, start_replay

Key = Annotated[str | None, Header(min_length=1, max_length=255)]


def again_router(
    door: KeyDoor, reader: RunReader, planner: Planner, commands: Commands, clock: Clock
) -> APIRouter:
    """The routes by which a run is resumed or replayed."""
    router = APIRouter(prefix="/v1/runs", tags=["runs"])

    @router.post(
        "/{run_id}/resume",
        status_code=202,
        responses={200: {"model": ResumePlan, "description": "With `dry_run`: what resuming would do."}},
    )
    async def resume(
        run_id: Token,
        response: Response,
        who: Annotated[Visitor, door.visitor()],
        *,
        dry_run: Annotated[bool, Query(description="Say what would be done, and do nothing.")] = False,
        idempotency_key: Key = None,
    ) -> RunReport | ResumePlan:
        """Go on with a run that failed, from its first unfinished step; finished steps are not paid again."""
        if dry_run:
            response.status_code = 200
            return await planner.resume(who.account_id, run_id)
        order = Order("resume", run_id, idempotency_key=idempotency_key)
        if not await commands.was_given(order, who):
            await planner.resume(who.account_id, run_id)
            await commands.give(order, who)
        return await reader.report(who.account_id, run_id)

    @router.post("/{run_id}/replay", status_code=202)
    async def replay(
        run_id: Token,
        response: Response,
        who: Annotated[Visitor, door.visitor()],
        *,
        force: Annotated[
            bool, Query(description="Replay although something might be done twice; who did so is recorded.")
        ] = False,
        idempotency_key: Key = None,
    ) -> RunAccepted:
        """Do a run again from its input, as a new run in a fresh session. What it did is not done twice."""
        wanted = Replay(run_id, idempotency_key)
        async with door.transaction() as tx:
            started = await replay_started(tx, wanted, who)
        if started is None:
            plan = await planner.replay(who.account_id, run_id)
            if not plan.allowed and not force:
                raise ReplayRefused(plan.why, plan.tools)
            forced_by = who.by if force else None
            async with door.transaction() as tx:
                started = await start_replay(tx, wanted, who, plan.request, clock, forced_by=forced_by)
        return accepted(started, response, replay_of=run_id)

    return router
