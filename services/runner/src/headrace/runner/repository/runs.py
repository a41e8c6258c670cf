"""Runs: recorded, taken with a lease, renewed, parked, ended. The database's own clock decides whose lease is live."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Interval,
    Text,
    and_,
    bindparam,
    case,
    cast,
    exists,
    func,
    literal_column,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from headrace.common.errors import NotFound
from headrace.contracts.run_questions import RunReport
from headrace.contracts.runs import FINAL_STATES, RunFinished, RunRequested, RunState
from headrace.runner.errors import LeaseLost, NotRecordedYet
from headrace.runner.models import runs, steps

JOURNAL_VERSION = 1
"""How the loop numbers its steps. A journal of another version cannot be gone on with."""

_FINAL = tuple(sorted(FINAL_STATES))


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to act on a run until somebody takes it with a higher epoch."""

    run_id: str
    epoch: int
    """Rises with each taking; fences writes, and numbers events."""
    attempt: int
    """Takings since a step was last finished, without those that only waited for a server."""
    request: RunRequested
    revision: int | None = None
    """The agent's revision that the run is pinned to, if it is."""
    history_upto: int | None = None
    """The last message of the session that the run reads, once it is pinned."""
    journal_version: int = JOURNAL_VERSION


def _row(request: RunRequested, state: RunState) -> dict[str, Any]:
    return {
        "run_id": request.run_id,
        "account_id": request.account_id,
        "agent_id": request.agent_id,
        "agent_revision": request.agent_revision,
        "session_id": request.session_id,
        "door": request.door,
        "lane": request.lane,
        "trigger": request.trigger,
        "request": request.model_dump(mode="json"),
        "state": state,
        "replay_of": request.replay_of,
        "requested_at": request.requested_at,
    }


_RECORD = insert(runs).on_conflict_do_nothing()


async def record(connection: AsyncConnection, request: RunRequested) -> None:
    """Store a run that was asked for, before it is let in; whichever message comes first makes the row."""
    await connection.execute(_RECORD, _row(request, RunState.REQUESTED))


_until = func.now() + bindparam("lease", type_=Interval)
_over = func.now() - cast(literal_column("'1 ms'"), Interval)
_PROGRESSED = exists().where(
    steps.c.run_id == runs.c.run_id, steps.c.epoch == runs.c.epoch, steps.c.state == "done"
)
_TAKE = (
    insert(runs)
    .values(attempt=1, epoch=1, lease_until=_until, holder=bindparam("by"), journal_version=JOURNAL_VERSION)
    .on_conflict_do_update(
        index_elements=["run_id"],
        set_={
            "state": RunState.RUNNING,
            "attempt": case((_PROGRESSED, 1), else_=runs.c.attempt + 1),
            "epoch": runs.c.epoch + 1,
            "lease_until": _until,
            "holder": bindparam("by"),
            "journal_version": func.coalesce(runs.c.journal_version, JOURNAL_VERSION),
        },
        where=or_(
            runs.c.state == RunState.REQUESTED,
            and_(runs.c.state == RunState.RUNNING, runs.c.lease_until < func.now()),
        ),
    )
    .returning(
        runs.c.epoch, runs.c.attempt, runs.c.agent_revision, runs.c.history_upto, runs.c.journal_version
    )
)


async def take(
    connection: AsyncConnection, request: RunRequested, *, lease: timedelta, holder: str | None = None
) -> Lease | None:
    """Take a run that nobody has, making its row if need be; `None` when it has ended, waits or is in hand."""
    row = await connection.execute(_TAKE, {**_row(request, RunState.RUNNING), "lease": lease, "by": holder})
    taken = row.first()
    if taken is None:
        return None
    return Lease(request.run_id, taken.epoch, taken.attempt, request, *taken[2:])


_ABANDONED = (
    select(runs.c.run_id, runs.c.account_id, runs.c.request)
    .where(runs.c.state == RunState.RUNNING, runs.c.lease_until < func.now())
    .order_by(runs.c.lease_until)
    .limit(1)
    .with_for_update(skip_locked=True)
)


async def find_abandoned(connection: AsyncConnection) -> Any | None:
    """A run whose runner fell silent (`run_id`, `account_id`, `request`); locked until the transaction ends."""
    return (await connection.execute(_ABANDONED)).first()


_held = and_(
    runs.c.run_id == bindparam("id"), runs.c.epoch == bindparam("fence"), runs.c.state == RunState.RUNNING
)
_FENCE = select(runs.c.run_id).where(_held).with_for_update(read=True)
_RELEASE = update(runs).where(_held).values(lease_until=_until, holder=None, attempt=bindparam("counted"))
_PIN = update(runs).where(_held).values(agent_revision=bindparam("revision"), history_upto=bindparam("upto"))
_PARK = update(runs).where(_held).values(state=bindparam("to"), lease_until=None, attempt=0)
_FINISH = (
    update(runs)
    .where(_held)
    .values(
        state=bindparam("to"),
        output=bindparam("said"),
        error_code=bindparam("code"),
        error=bindparam("why"),
        usage=bindparam("used"),
        finished_at=bindparam("at"),
        lease_until=None,
    )
)


async def fence(connection: AsyncConnection, lease: Lease) -> None:
    """See that the run is still held, and that nobody takes it before the transaction ends.

    Raises:
        LeaseLost: Somebody else has it, or it was ended.
    """
    if (await connection.execute(_FENCE, {"id": lease.run_id, "fence": lease.epoch})).first() is None:
        raise lost(lease)


async def release(connection: AsyncConnection, lease: Lease, *, after: timedelta, attempt: int) -> None:
    """Leave a run to whoever takes it after a time, with so many attempts counted. See `fence` for errors."""
    await _fenced(connection, _RELEASE, lease, lease=after, counted=attempt)


async def pin(connection: AsyncConnection, lease: Lease, *, revision: int, history_upto: int) -> None:
    """Keep the agent's revision and the part of the session that this run reads. See `fence` for errors."""
    await _fenced(connection, _PIN, lease, revision=revision, upto=history_upto)


async def park(connection: AsyncConnection, lease: Lease, state: str) -> None:
    """Leave a run to a person's decision. See `fence` for errors."""
    await _fenced(connection, _PARK, lease, to=state)


async def finish(connection: AsyncConnection, lease: Lease, end: RunFinished, *, now: datetime) -> None:
    """End a run. See `fence` for errors."""
    await _fenced(
        connection,
        _FINISH,
        lease,
        to=end.state,
        said=end.output,
        code=end.error_code,
        why=end.error,
        used=end.usage.model_dump(),
        at=now,
    )


async def _fenced(connection: AsyncConnection, statement: Any, held: Lease, **values: Any) -> None:
    done = await connection.execute(statement, {"id": held.run_id, "fence": held.epoch, **values})
    if done.rowcount != 1:
        raise lost(held)


def lost(lease: Lease) -> LeaseLost:
    """The error of a write to a run that is somebody else's."""
    return LeaseLost(f"run {lease.run_id} is no longer held with epoch {lease.epoch}")


_mine = (
    func.unnest(bindparam("ids", type_=ARRAY(Text)), bindparam("epochs", type_=ARRAY(BigInteger)))
    .table_valued("run_id", "epoch", name="mine")
    .render_derived()
)
_live = (
    select(runs.c.run_id)
    .join(_mine, and_(_mine.c.run_id == runs.c.run_id, _mine.c.epoch == runs.c.epoch))
    .where(runs.c.state == RunState.RUNNING)
    .order_by(runs.c.run_id)
    .with_for_update(of=runs)
    .cte("live")
)
_RENEW = (
    update(runs).where(runs.c.run_id == _live.c.run_id).values(lease_until=_until).returning(runs.c.run_id)
)


async def renew(connection: AsyncConnection, leases: Sequence[Lease], *, lease: timedelta) -> set[str]:
    """Hold on to runs; answers those that are still held."""
    values = {"ids": [each.run_id for each in leases], "epochs": [each.epoch for each in leases]}
    rows = await connection.execute(_RENEW, {**values, "lease": lease})
    return set(rows.scalars())


_LEFT_BEHIND = (
    update(runs)
    .where(
        runs.c.state == RunState.RUNNING,
        func.starts_with(runs.c.holder, bindparam("name")),
        runs.c.holder != bindparam("me"),
    )
    .values(lease_until=_over)
)


async def free_left_behind(connection: AsyncConnection, *, name: str, holder: str) -> int:
    """Let the runs of all holders whose names begin so be taken at once, but for one holder's; answers how many."""
    return int((await connection.execute(_LEFT_BEHIND, {"name": name, "me": holder})).rowcount)


async def locked(connection: AsyncConnection, account_id: str, run_id: str) -> Any:
    """A run's row, locked until the transaction ends.

    Raises:
        NotRecordedYet: The account has no such run, or its record is still on the way.
    """
    found = await connection.execute(
        select(runs).where(runs.c.run_id == run_id, runs.c.account_id == account_id).with_for_update()
    )
    row = found.first()
    if row is None:
        raise NotRecordedYet(f"run {run_id} is not recorded yet", after=1)
    return row


_unanswered = exists().where(
    steps.c.run_id == runs.c.run_id,
    steps.c.kind == "approval",
    steps.c.state == "intent",
    steps.c.expires_at < func.now(),
)
_UNANSWERED = (
    select(runs)
    .where(runs.c.state == RunState.WAITING_APPROVAL, _unanswered)
    .limit(100)
    .with_for_update(skip_locked=True, of=runs)
)


async def find_unanswered(connection: AsyncConnection) -> Sequence[Any]:
    """Runs whose question for approval is older than it is good for; locked until the transaction ends."""
    return (await connection.execute(_UNANSWERED)).all()


async def end_locked(connection: AsyncConnection, row: Any, end: RunFinished, *, now: datetime) -> int:
    """End a locked run, whose epoch rises so that the holder's writes fail; answers the new epoch."""
    ended = await connection.execute(
        update(runs)
        .where(runs.c.run_id == row.run_id)
        .values(
            state=end.state,
            error_code=end.error_code,
            error=end.error,
            usage=end.usage.model_dump(),
            epoch=runs.c.epoch + 1,
            lease_until=None,
            finished_at=now,
        )
        .returning(runs.c.epoch)
    )
    return int(ended.scalar_one())


async def go_on(connection: AsyncConnection, run_id: str) -> None:
    """Let a locked run be taken at once: a person decided."""
    await connection.execute(
        update(runs)
        .where(runs.c.run_id == run_id)
        .values(
            state=RunState.RUNNING,
            attempt=0,
            lease_until=_over,
            error_code=None,
            error=None,
            finished_at=None,
        )
    )


def request_of(row: Any) -> RunRequested:
    """The request of a run's row."""
    return RunRequested.model_validate(row.request)


async def find(connection: AsyncConnection, account_id: str, run_id: str) -> Any:
    """A run's row.

    Raises:
        NotFound: The account has no such run (yet).
    """
    found = await connection.execute(
        select(runs).where(runs.c.run_id == run_id, runs.c.account_id == account_id)
    )
    row = found.first()
    if row is None:
        raise NotFound(f"there is no run {run_id}, or it was only just asked for")
    return row


async def report(connection: AsyncConnection, account_id: str, run_id: str) -> RunReport:
    """Where a run stands. See `find` for errors."""
    row = await find(connection, account_id, run_id)
    return RunReport.model_validate(dict(row._mapping))  # noqa: SLF001  (SQLAlchemy's public name for it)
