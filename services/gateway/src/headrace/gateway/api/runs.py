"""`/v1/runs`: start a run, look at it, follow it, cancel it."""

import json
import re
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from headrace.common.clock import Clock
from headrace.common.errors import Invalid
from headrace.common.files import Files
from headrace.contracts.ids import SessionId, Sha256, Token
from headrace.contracts.run_questions import RunReport
from headrace.contracts.runs import ChatMessage, Door, RunState
from headrace.contracts.text import Text
from headrace.gateway.api.sse import PING, EventStream, frame
from headrace.gateway.auth import Caller, KeyDoor, Visitor
from headrace.gateway.commands import Commands, Order
from headrace.gateway.events import EventLog, Gap, Silence
from headrace.gateway.reading import RunReader, RunWithJournal
from headrace.gateway.starting import Started, Wish, start_run

_EVENT_ID = re.compile(r"[0-9]{1,18}")


class RunWanted(BaseModel):
    """A run that a program asks for."""

    model_config = ConfigDict(extra="forbid")

    agent: Text = Field(min_length=1, max_length=128, description="Name or id of the agent.")
    input: Text | list[ChatMessage] = Field(
        min_length=1, description="A text, or the messages of a conversation."
    )
    session_id: SessionId | None = None
    files: list[Sha256] = Field(default=[], max_length=20, description="Hashes of files that you uploaded.")


class RunAccepted(BaseModel):
    """A run that was asked for, and where to follow it."""

    run_id: str
    state: RunState
    url: str
    events_url: str
    replay_of: str | None = None


def accepted(started: Started, response: Response, *, replay_of: str | None = None) -> RunAccepted:
    """The answer to whoever asked for a run."""
    url = f"/v1/runs/{started.run_id}"
    response.headers["Location"] = url
    return RunAccepted(
        run_id=started.run_id,
        state=RunState.REQUESTED,
        url=url,
        events_url=f"{url}/events",
        replay_of=replay_of,
    )


def runs_router(
    door: KeyDoor, events: EventLog, reader: RunReader, commands: Commands, clock: Clock, *, files: Files
) -> APIRouter:
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
        hashes = tuple(dict.fromkeys(wanted.files))
        wish = Wish(Door.API, wanted.agent, tuple(said), wanted.session_id, idempotency_key, hashes)
        return accepted(await start_run(wish, caller, clock, files), response)

    @router.get("/{run_id}")
    async def look(
        run_id: Token,
        account: Annotated[str, door.account()],
        *,
        journal: Annotated[bool, Query(description="`false` for who only asks whether it is over.")] = True,
    ) -> RunWithJournal | RunReport:
        """Where a run stands, with every step of its journal, what was decided, and what a person is asked."""
        if journal:
            return await reader.with_journal(account, run_id)
        return await reader.report(account, run_id)

    @router.get("/{run_id}/events", response_class=EventStream, status_code=200)
    async def follow(
        run_id: Token,
        account: Annotated[str, door.account()],
        last_event_id: Annotated[str | None, Header()] = None,
    ) -> EventStream:
        """Follow a run as server-sent events, from the start or after `Last-Event-ID`, to its end."""
        await reader.report(account, run_id)
        if last_event_id is not None and not _EVENT_ID.fullmatch(last_event_id):
            raise Invalid("Last-Event-ID must be the id of an event of this run")
        after = -1 if last_event_id is None else int(last_event_id)
        return EventStream(frames_of(events, account, run_id, after), run_id=run_id)

    @router.post("/{run_id}/cancel", status_code=202)
    async def cancel(run_id: Token, who: Annotated[Visitor, door.visitor()]) -> RunReport:
        """Cancel a run. What it did is not undone; it does nothing more."""
        report = await reader.report(who.account_id, run_id)
        if not report.state.is_final:
            await commands.give(Order("cancel", run_id), who)
        return report

    return router


async def frames_of(events: EventLog, account_id: str, run_id: str, after: int) -> AsyncIterator[str]:
    """A run's events as server-sent events; each has an id, so that who reconnects with it gets exactly the rest."""
    data: dict[str, Any]
    async for item in events.follow(account_id, run_id, after=after):
        match item:
            case Silence():
                yield PING
            case Gap():
                data = {"after": item.after, "before": item.before}
                yield frame(json.dumps(data), event="gap", event_id=item.before - 1)
            case _:
                data = {
                    "run_id": run_id,
                    "seq": item.seq,
                    "at": item.at.isoformat(),
                    **item.news.model_dump(mode="json"),
                }
                yield frame(json.dumps(data), event=item.news.kind, event_id=item.seq)
