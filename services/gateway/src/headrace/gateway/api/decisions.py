"""`/v1/runs/{id}/waiting`, `/approve`, `/resolve`: what a person is asked, and what the person says."""

from typing import Annotated

from fastapi import APIRouter, Header

from headrace.contracts.ids import Token
from headrace.contracts.journal import Ask
from headrace.contracts.run_questions import RunReport
from headrace.gateway.auth import KeyDoor, Visitor
from headrace.gateway.commands import Commands, Order
from headrace.gateway.deciding import DecisionsWanted, Verb, decided
from headrace.gateway.reading import RunReader

Key = Annotated[str | None, Header(min_length=1, max_length=255)]


def decisions_router(door: KeyDoor, reader: RunReader, commands: Commands) -> APIRouter:
    """The routes by which people decide."""
    router = APIRouter(prefix="/v1/runs", tags=["decisions"])

    @router.get("/{run_id}/waiting")
    async def waiting(run_id: Token, account: Annotated[str, door.account()]) -> list[Ask]:
        """What a person is asked, with the evidence; empty where the run does not wait."""
        await reader.report(account, run_id)
        return list(await reader.waiting(account, run_id))

    async def decide(
        verb: Verb, run_id: str, wanted: DecisionsWanted, who: Visitor, key: str | None
    ) -> RunReport:
        order = Order(verb, run_id, wanted.model_dump_json(), key)
        report = await reader.report(who.account_id, run_id)
        if not await commands.was_given(order, who):
            journal = await reader.journal(who.account_id, run_id)
            await commands.give(order, who, decided(verb, wanted, report, journal))
        return report

    @router.post("/{run_id}/approve", status_code=202)
    async def approve(
        run_id: Token,
        wanted: DecisionsWanted,
        who: Annotated[Visitor, door.visitor()],
        idempotency_key: Key = None,
    ) -> RunReport:
        """Approve or reject calls that wait for it. The run goes on by itself when everything is decided."""
        return await decide("approve", run_id, wanted, who, idempotency_key)

    @router.post("/{run_id}/resolve", status_code=202)
    async def resolve(
        run_id: Token,
        wanted: DecisionsWanted,
        who: Annotated[Visitor, door.visitor()],
        idempotency_key: Key = None,
    ) -> RunReport:
        """Say of calls that may have happened whether they did, or of one that did that it was undone."""
        return await decide("resolve", run_id, wanted, who, idempotency_key)

    return router
