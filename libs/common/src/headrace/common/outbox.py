"""The transactional outbox: a message is a row first, and stays one until every consumer has seen it.

A row leaves the table in one way: the services that must consume the message say that it is in their inbox. (What
has no durable consumer leaves when the stream acknowledges it.) So a stream, or the whole broker, may vanish at
any time: what nobody saw is sent again, and what was seen twice counts once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    ARRAY,
    Column,
    DateTime,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    bindparam,
    delete,
    func,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from headrace.contracts.message import Message
from headrace.contracts.streams import DEDUPE_WINDOW, stream_of

SETTLING_TIME = DEDUPE_WINDOW + timedelta(seconds=2)
"""What is still here after this is looked into. Longer than the broker's window, which would swallow a second copy."""
LONGEST_WAIT = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Parcel:
    """A message, packed for the broker."""

    message_id: str
    stream: str
    subject: str
    headers: dict[str, str]
    body: bytes
    attempts: int = 0

    @classmethod
    def pack(cls, message: Message, headers: dict[str, str]) -> "Parcel":
        """Pack a message with its headers."""
        return cls(
            message_id=message.message_id,
            stream=stream_of(type(message)).name,
            subject=message.subject,
            headers=headers,
            body=message.model_dump_json().encode(),
        )


def outbox_table(metadata: MetaData) -> Table:
    """The outbox of one service's schema."""
    return Table(
        "outbox",
        metadata,
        Column("message_id", Text, primary_key=True),
        Column("stream", String(32), nullable=False),
        Column("subject", Text, nullable=False),
        Column("headers", JSONB, nullable=False),
        Column("body", LargeBinary, nullable=False),
        Column("attempts", Integer, nullable=False, server_default="0"),
        Column("created_at", DateTime(timezone=True), nullable=False),
        Column("due_at", DateTime(timezone=True), nullable=False),
        Index("outbox_due", "due_at"),
    )


class Outbox:
    """The SQL of the outbox."""

    def __init__(self, table: Table) -> None:
        self._table = table
        c = table.c
        self._insert = insert(table).on_conflict_do_nothing()
        locked = (
            select(c.message_id, c.stream, c.subject, c.headers, c.body, c.attempts)
            .limit(bindparam("limit"))
            .with_for_update(skip_locked=True)
        )
        self._take = locked.where(c.due_at <= bindparam("now")).order_by(c.due_at)
        self._page = locked.where(c.message_id > bindparam("after")).order_by(c.message_id)
        self._forget = delete(table).where(c.message_id == func.any(bindparam("ids", type_=ARRAY(Text))))
        self._postpone = (
            update(table)
            .where(c.message_id == bindparam("id"))
            .values(due_at=bindparam("due"), attempts=bindparam("n"))
        )

    async def add(self, connection: AsyncConnection, parcels: Sequence[Parcel], *, now: datetime) -> None:
        """Store messages beside the rows that they tell about."""
        if not parcels:
            return
        rows: list[dict[str, Any]] = [
            {
                "message_id": parcel.message_id,
                "stream": parcel.stream,
                "subject": parcel.subject,
                "headers": parcel.headers,
                "body": parcel.body,
                "created_at": now,
                "due_at": now + SETTLING_TIME,
            }
            for parcel in parcels
        ]
        await connection.execute(self._insert, rows if len(rows) > 1 else rows[0])

    async def take(self, connection: AsyncConnection, *, due_by: datetime, limit: int) -> list[Parcel]:
        """Lock the rows to look into, oldest first; another replica's are left to it."""
        rows = await connection.execute(self._take, {"now": due_by, "limit": limit})
        return [Parcel(*row) for row in rows]

    async def page(self, connection: AsyncConnection, *, after: str, limit: int) -> list[Parcel]:
        """Lock the rows that follow an id, due or not; another replica's are left to it."""
        rows = await connection.execute(self._page, {"after": after, "limit": limit})
        return [Parcel(*row) for row in rows]

    async def forget(self, connection: AsyncConnection, message_ids: Sequence[str]) -> None:
        """Delete what every consumer has seen."""
        await connection.execute(self._forget, {"ids": list(message_ids)})

    async def postpone(
        self, connection: AsyncConnection, parcels: Sequence[Parcel], *, now: datetime
    ) -> None:
        """Look again later, at growing distances, at what was sent once more."""
        later = [
            {
                "id": parcel.message_id,
                "n": parcel.attempts + 1,
                "due": now + min(SETTLING_TIME * 2 ** min(parcel.attempts, 8), LONGEST_WAIT),
            }
            for parcel in parcels
        ]
        if later:
            await connection.execute(self._postpone, later)

    async def depth(self, connection: AsyncConnection) -> int:
        """How many messages wait to be seen."""
        count = await connection.scalar(select(func.count()).select_from(self._table))
        return int(count or 0)
