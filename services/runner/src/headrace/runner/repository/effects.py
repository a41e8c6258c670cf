"""The ledger's rows: one for each intent, whoever had it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Interval, and_, bindparam, delete, false, func, select, true, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from headrace.contracts.journal import EffectState
from headrace.runner.models import effects, runs
from headrace.runner.repository.runs import Lease
from headrace.runner.steps import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What the ledger has of one intent."""

    account_id: str
    key: str
    tool: str
    state: EffectState
    run_id: str
    place: Place
    epoch: int
    provider_key: str
    result: str | None
    why: str | None
    begun_at: datetime
    settled_at: datetime | None
    is_held: bool
    """Its run is in somebody's hand with the epoch that began it: the call may be on its way right now."""
    is_expired: bool
    """Its trigger can no longer come again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A call that is about to act on the world."""

    key: str
    tool: str
    place: Place
    provider_key: str
    remembers: timedelta


_expires = func.now() + bindparam("remembers", type_=Interval)
_INTEND = (
    insert(effects)
    .values(state="intent", begun_at=func.clock_timestamp(), expires_at=_expires)
    .on_conflict_do_nothing()
    .returning(effects, true().label("is_held"), false().label("is_expired"))
)
_TAKE_OVER = (
    update(effects)
    .where(effects.c.account_id == bindparam("account"), effects.c.key == bindparam("of"))
    .values(
        state="intent",
        run_id=bindparam("by"),
        path=bindparam("at"),
        seq=bindparam("nth"),
        epoch=bindparam("fence"),
        provider_key=bindparam("told"),
        result=None,
        why=None,
        begun_at=func.clock_timestamp(),
        settled_at=None,
        expires_at=_expires,
    )
)


async def intend(connection: AsyncConnection, lease: Lease, intent: Intent) -> Entry | None:
    """Write an intent that nobody had, of a run that is held; `None` where the ledger has one."""
    made = await connection.execute(
        _INTEND,
        {
            "account_id": lease.request.account_id,
            "key": intent.key,
            "tool": intent.tool,
            "run_id": lease.run_id,
            "path": intent.place.path,
            "seq": intent.place.seq,
            "epoch": lease.epoch,
            "provider_key": intent.provider_key,
            "remembers": intent.remembers,
        },
    )
    row = made.first()
    return None if row is None else _entry(row)


async def take_over(connection: AsyncConnection, lease: Lease, intent: Intent) -> None:
    """Make a locked entry this call's own intent."""
    await connection.execute(
        _TAKE_OVER,
        {
            "account": lease.request.account_id,
            "of": intent.key,
            "by": lease.run_id,
            "at": intent.place.path,
            "nth": intent.place.seq,
            "fence": lease.epoch,
            "told": intent.provider_key,
            "remembers": intent.remembers,
        },
    )


_held = func.coalesce(
    and_(runs.c.state == "running", runs.c.epoch == effects.c.epoch, runs.c.lease_until > func.now()), False
)
_SELECT = select(
    effects, _held.label("is_held"), (effects.c.expires_at < func.now()).label("is_expired")
).select_from(effects.outerjoin(runs, runs.c.run_id == effects.c.run_id))
_of_key = and_(effects.c.account_id == bindparam("account"), effects.c.key == bindparam("of"))
_LOCK = select(effects.c.key).where(_of_key).with_for_update()
_OF_KEY = _SELECT.where(_of_key)
_OF_KEYS = _SELECT.where(
    effects.c.account_id == bindparam("account"), effects.c.key.in_(bindparam("keys", expanding=True))
)


async def locked(connection: AsyncConnection, account_id: str, key: str) -> Entry | None:
    """An entry, locked until the transaction ends.

    It is read when it is locked: one statement that waits for the lock would see the run that had the entry before.
    """
    values = {"account": account_id, "of": key}
    await connection.execute(_LOCK, values)
    row = (await connection.execute(_OF_KEY, values)).first()
    return None if row is None else _entry(row)


async def of_keys(connection: AsyncConnection, account_id: str, keys: Sequence[str]) -> dict[str, Entry]:
    """The entries of some keys."""
    if not keys:
        return {}
    rows = await connection.execute(_OF_KEYS, {"account": account_id, "keys": list(keys)})
    return {row.key: _entry(row) for row in rows}


def _entry(row: Any) -> Entry:
    return Entry(
        account_id=row.account_id,
        key=row.key,
        tool=row.tool,
        state=row.state,
        run_id=row.run_id,
        place=Place(row.path, row.seq),
        epoch=row.epoch,
        provider_key=row.provider_key,
        result=row.result,
        why=row.why,
        begun_at=row.begun_at,
        settled_at=row.settled_at,
        is_held=row.is_held,
        is_expired=row.is_expired,
    )


_SETTLE = (
    update(effects)
    .where(
        effects.c.account_id == bindparam("account"),
        effects.c.key == bindparam("of"),
        effects.c.run_id == bindparam("by"),
        effects.c.epoch == bindparam("since"),
        effects.c.state.in_(("intent", "skipped")),
    )
    .values(
        state=bindparam("to"),
        result=bindparam("given"),
        why=bindparam("reason"),
        settled_at=func.clock_timestamp(),
    )
)


async def settle(
    connection: AsyncConnection,
    entry: Entry,
    to: EffectState,
    *,
    result: str | None = None,
    why: str | None = None,
) -> bool:
    """Say how an intent ended; `False` where it is no longer the intent that was seen."""
    done = await connection.execute(
        _SETTLE,
        {
            "account": entry.account_id,
            "of": entry.key,
            "by": entry.run_id,
            "since": entry.epoch,
            "to": to,
            "given": result,
            "reason": why,
        },
    )
    return bool(done.rowcount)


_UNDO = (
    update(effects)
    .where(
        effects.c.account_id == bindparam("account"),
        effects.c.key == bindparam("of"),
        effects.c.state == "confirmed",
    )
    .values(state="undone", result=None, why=bindparam("reason"), settled_at=func.clock_timestamp())
)


async def undo(connection: AsyncConnection, account_id: str, key: str, *, why: str) -> bool:
    """Say that what was done was taken back; `False` where it was not done."""
    done = await connection.execute(_UNDO, {"account": account_id, "of": key, "reason": why})
    return bool(done.rowcount)


_EXPIRED = (
    select(effects.c.account_id, effects.c.key)
    .where(effects.c.expires_at < func.now(), effects.c.state.not_in(("intent", "skipped")))
    .limit(bindparam("limit"))
    .with_for_update(skip_locked=True)
    .cte("expired")
)
_FORGET = delete(effects).where(
    effects.c.account_id == _EXPIRED.c.account_id, effects.c.key == _EXPIRED.c.key
)


async def forget_expired(connection: AsyncConnection, *, limit: int) -> int:
    """Delete entries whose trigger can no longer come again; what may have happened is kept until somebody says."""
    return int((await connection.execute(_FORGET, {"limit": limit})).rowcount)
