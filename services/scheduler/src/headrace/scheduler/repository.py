"""All SQL of the scheduler service."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import Row, Select, bindparam, delete, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from headrace.contracts.ids import AccountId, Token
from headrace.contracts.schedules import CreateSchedule, Schedule
from headrace.scheduler.fire import Fire
from headrace.scheduler.models import fires, schedules


async def add_schedule(
    connection: AsyncConnection, wanted: CreateSchedule, *, next_fire_at: datetime, now: datetime
) -> None:
    """Store a schedule; where its id is taken, leave what has it as it is."""
    adding = insert(schedules).values(
        schedule_id=wanted.schedule_id,
        account_id=wanted.account_id,
        agent_id=wanted.agent_id,
        name=wanted.name,
        every_seconds=wanted.every_seconds,
        prompt=wanted.prompt,
        next_fire_at=next_fire_at,
        created_at=now,
    )
    await connection.execute(adding.on_conflict_do_nothing())


async def find_schedule(
    connection: AsyncConnection, account_id: AccountId, schedule_id: Token
) -> Schedule | None:
    """A schedule of an account."""
    query = _of_account(account_id).where(schedules.c.schedule_id == schedule_id)
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else _schedule(row)


async def list_schedules(connection: AsyncConnection, account_id: AccountId) -> list[Schedule]:
    """The schedules of an account, oldest first."""
    query = _of_account(account_id).order_by(schedules.c.created_at, schedules.c.schedule_id)
    return [_schedule(row) for row in await connection.execute(query)]


async def remove_schedule(connection: AsyncConnection, account_id: AccountId, schedule_id: Token) -> bool:
    """Delete a schedule of an account and what it fired; `False` when the account has none of that id."""
    removal = (
        delete(schedules)
        .where(schedules.c.account_id == account_id, schedules.c.schedule_id == schedule_id)
        .returning(schedules.c.schedule_id)
    )
    if (await connection.execute(removal)).first() is None:
        return False
    await connection.execute(delete(fires).where(fires.c.schedule_id == schedule_id))
    return True


async def lock_due(connection: AsyncConnection, *, now: datetime, limit: int) -> list[Fire]:
    """Lock the schedules that are due, the longest due first; those in another replica's hands are left to it."""
    query = (
        select(schedules)
        .where(schedules.c.next_fire_at <= now)
        .order_by(schedules.c.next_fire_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    return [
        Fire(
            schedule_id=row.schedule_id,
            account_id=row.account_id,
            agent_id=row.agent_id,
            prompt=row.prompt,
            every=timedelta(seconds=row.every_seconds),
            fire_at=row.next_fire_at,
        )
        for row in await connection.execute(query)
    ]


async def add_fires(connection: AsyncConnection, due: Sequence[Fire]) -> list[Fire]:
    """Store fires; answers those that were not stored before."""
    rows = [{"schedule_id": each.schedule_id, "fire_at": each.fire_at, "run_id": each.run_id} for each in due]
    adding = insert(fires).values(rows).on_conflict_do_nothing().returning(fires.c.run_id)
    new = set((await connection.execute(adding)).scalars())
    return [each for each in due if each.run_id in new]


async def move_on(connection: AsyncConnection, next_fires: Sequence[tuple[Token, datetime]]) -> None:
    """Set when schedules fire next."""
    moving = (
        update(schedules)
        .where(schedules.c.schedule_id == bindparam("schedule"))
        .values(next_fire_at=bindparam("instant"))
    )
    await connection.execute(moving, [{"schedule": schedule, "instant": at} for schedule, at in next_fires])


def _of_account(account_id: AccountId) -> Select[tuple[object, ...]]:
    last_run = (
        select(fires.c.run_id)
        .where(fires.c.schedule_id == schedules.c.schedule_id)
        .order_by(fires.c.fire_at.desc())
        .limit(1)
        .scalar_subquery()
    )
    return select(schedules, last_run.label("last_run_id")).where(schedules.c.account_id == account_id)


def _schedule(row: Row[tuple[object, ...]]) -> Schedule:
    return Schedule(
        schedule_id=row.schedule_id,
        account_id=row.account_id,
        agent_id=row.agent_id,
        name=row.name,
        every_seconds=row.every_seconds,
        prompt=row.prompt,
        next_fire_at=row.next_fire_at,
        last_run_id=row.last_run_id,
    )
