"""`/v1/runs`: start a run, look at it, follow it, cancel it."""

import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Response
from pydantic import BaseModel, ConfigDict, Field

from headrace.common.clock import Clock
from headrace.common.errors import Invalid, NotFound
from headrace.common.rpc import Rpc
from headrace.contracts.ids import SessionId, Token, new_id
from headrace.contracts.run_questions import FindRun, RunReport
from headrace.contracts.runs import ChatMessage, Door, RunControl, RunState
from headrace.contracts.text import Text
from headrace.gateway import repository
from headrace.gateway.api.sse import PING, EventStream, frame
from headrace.gateway.auth import Caller, KeyDoor
from headrace.gateway.events import EventLog, Gap, Silence
from headrace.gateway.starting import Wish, start_run


class RunWanted(BaseModel):
    """A run that a program asks for."""

    model_config = ConfigDict(extra="forbid")

    agent: Text = Field(min_length=1, max_length=128, description="Name or id of the agent.")
    input: Text | list[ChatMessage] = Field(
        min_length=1, description="A text, or the messages of a conversation."
    )
    session_id: SessionId | None = None


class RunAccepted(BaseModel):
    """A run that was asked for, and where to follow it."""

    run_id: str
    state: RunState
    url: str
    events_url: str


def runs_router(door: KeyDoor, events: EventLog, rpc: Rpc, clock: Clock) -> APIRouter:
    """The routes under `/v1/runs`."""
    router = APIRouter(prefix="/v1/runs", tags=["runs"])

    @router.post("", status_code=202)
    async def start(
        wanted: RunWanted,
        response: Response,
        caller: Annotated[Caller, door.dependency()],
        idempotency_key: Annotated[str | None, Header(min_length=1, max_length=255)] = None,
    ) -> RunAccepted:
        """Start a run. With an `Idempotency-Key`, asking again answers the same run."""
        said = (
            [ChatMessage(role="user", content=wanted.input)]
            if isinstance(wanted.input, str)
            else wanted.input
        )
        wish = Wish(Door.API, wanted.agent, tuple(said), wanted.session_id, idempotency_key)
        started = await start_run(wish, caller, clock)
        url = f"/v1/runs/{started.run_id}"
        response.headers["Location"] = url
        return RunAccepted(
            run_id=started.run_id, state=RunState.REQUESTED, url=url, events_url=f"{url}/events"
        )

    async def find(run_id: str, account: str) -> RunReport:
        """Where a run stands: the runner knows, or it was only just asked for."""
        try:
            return await rpc.ask(FindRun(account_id=account, run_id=run_id))
        except NotFound:
            async with door.transaction() as tx:
                asked = await repository.request_of(tx.connection, account, run_id)
            if asked is None:
                raise NotFound(f"there is no run {run_id}") from None
            return RunReport(
                run_id=run_id,
                account_id=account,
                agent_id=asked["agent_id"],
                session_id=None,
                door=asked["door"],
                state=RunState.REQUESTED,
                attempt=0,
                requested_at=asked["requested_at"],
            )

    @router.get("/{run_id}")
    async def look(run_id: Token, account: Annotated[str, door.account()]) -> RunReport:
        """Where a run stands."""
        return await find(run_id, account)

    @router.get("/{run_id}/events", response_class=EventStream, status_code=200)
    async def follow(
        run_id: Token,
        account: Annotated[str, door.account()],
        last_event_id: Annotated[str | None, Header()] = None,
    ) -> EventStream:
        """Follow a run as server-sent events, from the start or after `Last-Event-ID`, to its end."""
        await find(run_id, account)
        if last_event_id is not None and not last_event_id.isdigit():
            raise Invalid("Last-Event-ID must be the id of an event of this run")
        after = -1 if last_event_id is None else int(last_event_id)
        return EventStream(_frames(events, account, run_id, after), run_id=run_id)

    @router.post("/{run_id}/cancel", status_code=202)
    async def cancel(run_id: Token, account: Annotated[str, door.account()]) -> RunReport:
        """Cancel a run. What it did is not undone; it does nothing more."""
        report = await find(run_id, account)
        if not report.state.is_final:
            command = RunControl(run_id=run_id, verb="cancel", account_id=account, command_id=new_id())
            async with door.transaction() as tx:
                await tx.send(command)
        return report

    return router


async def _frames(events: EventLog, account_id: str, run_id: str, after: int) -> AsyncIterator[str]:
    async for item in events.follow(account_id, run_id, after=after):
        match item:
            case Silence():
                yield PING
            case Gap():
                yield frame(json.dumps({"after": item.after, "before": item.before}), event="gap")
            case _:
                data: dict[str, Any] = {
                    "run_id": run_id,
                    "seq": item.seq,
                    "at": item.at.isoformat(),
                    **item.news.model_dump(mode="json"),
                }
                yield frame(json.dumps(data), event=item.news.kind, event_id=item.seq)
