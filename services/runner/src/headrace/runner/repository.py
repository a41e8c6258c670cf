"""All SQL of the runner. Every write to a run that is in hand is conditional on its epoch: a zombie's write fails."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import and_, bindparam, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from headrace.common.errors import NotFound
from headrace.contracts.run_questions import RunReport
from headrace.contracts.runs import FINAL_STATES, RunFinished, RunRequested, RunState
from headrace.runner.errors import LeaseLost, NotRecordedYet
from headrace.runner.models import messages, runs

_FINAL = tuple(sorted(FINAL_STATES))


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to act on a run until somebody takes it with a higher epoch."""

    run_id: str
    epoch: int
    """Rises with each taking; fences writes, and numbers events."""
    attempt: int
    """Takings that counted: those that only waited for a server did not."""
    request: RunRequested
    revision: int | None
    """The agent's revision that the run is pinned to, if it is."""


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
        "requested_at": request.requested_at,
    }


_RECORD = insert(runs).on_conflict_do_nothing()


async def record(connection: AsyncConnection, request: RunRequested) -> None:
    """Store a run that was asked for, before it is let in; whichever message comes first makes the row."""
    await connection.execute(_RECORD, _row(request, RunState.REQUESTED))


_taking: Any = insert(runs).values(attempt=1, epoch=1, lease_until=bindparam("until"))
_TAKE = _taking.on_conflict_do_update(
    index_elements=["run_id"],
    set_={
        "state": RunState.RUNNING,
        "attempt": runs.c.attempt + 1,
        "epoch": runs.c.epoch + 1,
        "lease_until": _taking.excluded.lease_until,
    },
    where=and_(
        runs.c.state.not_in(_FINAL), or_(runs.c.lease_until.is_(None), runs.c.lease_until < bindparam("now"))
    ),
).returning(runs.c.epoch, runs.c.attempt, runs.c.agent_revision)


async def take(
    connection: AsyncConnection, request: RunRequested, *, now: datetime, lease: timedelta
) -> Lease | None:
    """Take a run that nobody has, making its row if need be; `None` when it is finished or in somebody's hand."""
    row = await connection.execute(
        _TAKE, {**_row(request, RunState.RUNNING), "until": now + lease, "now": now}
    )
    taken = row.first()
    if taken is None:
        return None
    return Lease(request.run_id, taken.epoch, taken.attempt, request, taken.agent_revision)


_ABANDONED = (
    select(runs.c.request)
    .where(runs.c.state == RunState.RUNNING, runs.c.lease_until < bindparam("now"))
    .order_by(runs.c.lease_until)
    .limit(1)
    .with_for_update(skip_locked=True)
)


async def find_abandoned(connection: AsyncConnection, *, now: datetime) -> RunRequested | None:
    """A run whose runner fell silent, if there is one; locked until the transaction ends."""
    request = await connection.scalar(_ABANDONED, {"now": now})
    return None if request is None else RunRequested.model_validate(request)


_held = and_(
    runs.c.run_id == bindparam("id"), runs.c.epoch == bindparam("fence"), runs.c.state == RunState.RUNNING
)
_RENEW = update(runs).where(_held).values(lease_until=bindparam("until"))
_RELEASE = update(runs).where(_held).values(lease_until=bindparam("until"), attempt=bindparam("counted"))
_PIN = update(runs).where(_held).values(agent_revision=bindparam("revision"))
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


async def renew(connection: AsyncConnection, lease: Lease, *, until: datetime) -> None:
    """Hold on to a run.

    Raises:
        LeaseLost: Somebody else has it, or it was cancelled.
    """
    await _fenced(connection, _RENEW, lease, until=until)


async def release(connection: AsyncConnection, lease: Lease, *, until: datetime, attempt: int) -> None:
    """Leave a run to whoever takes it after `until`, with so many attempts counted. See `renew` for errors."""
    await _fenced(connection, _RELEASE, lease, until=until, counted=attempt)


async def pin(connection: AsyncConnection, lease: Lease, *, revision: int) -> None:
    """Keep the agent's revision for this run. See `renew` for errors."""
    await _fenced(connection, _PIN, lease, revision=revision)


async def finish(connection: AsyncConnection, lease: Lease, end: RunFinished, *, now: datetime) -> None:
    """End a run. See `renew` for errors."""
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


async def _fenced(connection: AsyncConnection, statement: Any, lease: Lease, **values: Any) -> None:
    done = await connection.execute(statement, {"id": lease.run_id, "fence": lease.epoch, **values})
    if done.rowcount != 1:
        raise LeaseLost(f"run {lease.run_id} is no longer held with epoch {lease.epoch}")


async def end_from_outside(
    connection: AsyncConnection, run_id: str, account_id: str, end: RunFinished, *, now: datetime
) -> int | None:
    """End a run whoever holds it, whose epoch rises so that the holder's writes fail.

    Returns:
        The run's new epoch, or `None` when it had ended before.

    Raises:
        NotRecordedYet: The account has no such run, or its record is still on the way.
    """
    ended = await connection.execute(
        update(runs)
        .where(runs.c.run_id == run_id, runs.c.account_id == account_id, runs.c.state.not_in(_FINAL))
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
    epoch = ended.scalar_one_or_none()
    if (
        epoch is None
        and await connection.scalar(select(runs.c.run_id).where(runs.c.run_id == run_id)) is None
    ):
        raise NotRecordedYet(f"run {run_id} is not recorded yet", after=1)
    return None if epoch is None else int(epoch)


async def report(connection: AsyncConnection, account_id: str, run_id: str) -> RunReport:
    """Where a run stands.

    Raises:
        NotFound: The account has no such run (yet).
    """
    found = await connection.execute(
        select(runs).where(runs.c.run_id == run_id, runs.c.account_id == account_id)
    )
    row = found.mappings().first()
    if row is None:
        raise NotFound(f"there is no run {run_id}")
    return RunReport.model_validate(dict(row))


async def history(connection: AsyncConnection, account_id: str, session_id: str) -> list[dict[str, Any]]:
    """The messages of a session in order, in the shape that models read."""
    rows = await connection.execute(
        select(messages.c.body)
        .where(messages.c.account_id == account_id, messages.c.session_id == session_id)
        .order_by(messages.c.seq)
    )
    return list(rows.scalars())


async def remember(
    connection: AsyncConnection, request: RunRequested, bodies: list[dict[str, Any]], *, now: datetime
) -> None:
    """Append what a run said to its session, once per run and place; runs of one session take turns."""
    if request.session_id is None or not bodies:
        return
    where = (messages.c.account_id == request.account_id, messages.c.session_id == request.session_id)
    key = f"{request.account_id}/{request.session_id}"
    await connection.execute(select(func.pg_advisory_xact_lock(func.hashtext(key))))
    last = await connection.scalar(select(func.coalesce(func.max(messages.c.seq), 0)).where(*where))
    rows = [
        {
            "account_id": request.account_id,
            "session_id": request.session_id,
            "seq": (last or 0) + place,
            "run_id": request.run_id,
            "place": place,
            "body": body,
            "stored_at": now,
        }
        for place, body in enumerate(bodies, start=1)
    ]
    await connection.execute(insert(messages).on_conflict_do_nothing(), rows)
