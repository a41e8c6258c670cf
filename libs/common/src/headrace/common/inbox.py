"""The inbox: the primary key that makes any number of deliveries count once, and the count of executions begun."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ARRAY,
    Column,
    DateTime,
    Index,
    Integer,
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
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection


def inbox_table(metadata: MetaData) -> Table:
    """What each consumer of one service has settled."""
    return Table(
        "inbox",
        metadata,
        Column("consumer", String(64), primary_key=True),
        Column("message_id", Text, primary_key=True),
        Column("outcome", String(8), nullable=False),
        Column("settled_at", DateTime(timezone=True), nullable=False),
        Index("inbox_settled", "settled_at"),
    )


def attempts_table(metadata: MetaData) -> Table:
    """How often an execution was begun again, for messages whose first one did not settle."""
    return Table(
        "attempts",
        metadata,
        Column("consumer", String(64), primary_key=True),
        Column("message_id", Text, primary_key=True),
        Column("count", Integer, nullable=False),
        Column("begun_at", DateTime(timezone=True), nullable=False),
        Index("attempts_begun", "begun_at"),
    )


class Inbox:
    """The SQL of the inbox."""

    def __init__(self, inbox: Table, attempts: Table) -> None:
        self._inbox, self._attempts = inbox, attempts
        self._first = insert(inbox).on_conflict_do_nothing().returning(inbox.c.message_id)
        again: Any = insert(attempts).values(count=1)
        self._count = again.on_conflict_do_update(
            index_elements=["consumer", "message_id"],
            set_={"count": attempts.c.count + 1, "begun_at": again.excluded.begun_at},
        ).returning(attempts.c.count)
        self._forgive = (
            update(attempts)
            .where(attempts.c.consumer == bindparam("of"), attempts.c.message_id == bindparam("id"))
            .values(count=attempts.c.count - 1)
        )
        self._seen = select(inbox.c.message_id).where(
            inbox.c.consumer == bindparam("consumer"),
            inbox.c.message_id == func.any(bindparam("ids", type_=ARRAY(Text))),
        )

    async def first_time(
        self,
        connection: AsyncConnection,
        consumer: str,
        message_id: str,
        *,
        now: datetime,
        outcome: str = "done",
    ) -> bool:
        """Claim a message in the transaction that acts on it; `False` when it was settled before."""
        row = await connection.execute(
            self._first,
            {"consumer": consumer, "message_id": message_id, "outcome": outcome, "settled_at": now},
        )
        return row.first() is not None

    async def begin_again(
        self, connection: AsyncConnection, consumer: str, message_id: str, *, now: datetime
    ) -> int:
        """Count an execution that follows an unsettled one; answers how many have been counted."""
        row = await connection.execute(
            self._count, {"consumer": consumer, "message_id": message_id, "begun_at": now}
        )
        return int(row.scalar_one())

    async def forgive(self, connection: AsyncConnection, consumer: str, message_id: str) -> None:
        """Take back the count of an execution that only waited for a server."""
        await connection.execute(self._forgive, {"of": consumer, "id": message_id})

    async def unseen(
        self, connection: AsyncConnection, consumer: str, message_ids: Sequence[str]
    ) -> tuple[str, ...]:
        """Of these messages, the ones that the consumer has not settled."""
        rows = await connection.execute(self._seen, {"consumer": consumer, "ids": list(message_ids)})
        seen = set(rows.scalars())
        return tuple(each for each in message_ids if each not in seen)

    async def prune(self, connection: AsyncConnection, *, before: datetime) -> None:
        """Forget what was settled so long ago that no publisher can still hold it."""
        await connection.execute(delete(self._inbox).where(self._inbox.c.settled_at < before))
        await connection.execute(delete(self._attempts).where(self._attempts.c.begun_at < before))
