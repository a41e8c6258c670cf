"""Sessions and their messages: what a run reads of a conversation, and what it leaves there."""

from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from headrace.contracts.runs import RunRequested
from headrace.runner.models import messages, sessions


async def last_seq(connection: AsyncConnection, account_id: str, session_id: str) -> int:
    """The number of a session's last message; 0 where it has none."""
    last = await connection.scalar(
        select(sessions.c.last_seq).where(
            sessions.c.account_id == account_id, sessions.c.session_id == session_id
        )
    )
    return int(last or 0)


async def history(
    connection: AsyncConnection, account_id: str, session_id: str, *, upto: int, but: str
) -> list[Any]:
    """The bodies of a session's messages up to a number, in order, but those of one run."""
    rows = await connection.execute(
        select(messages.c.body)
        .where(
            messages.c.account_id == account_id,
            messages.c.session_id == session_id,
            messages.c.seq <= upto,
            messages.c.run_id != but,
        )
        .order_by(messages.c.seq)
    )
    return list(rows.scalars())


async def remember(
    connection: AsyncConnection, request: RunRequested, bodies: list[dict[str, Any]], *, now: datetime
) -> None:
    """Write what a run said into its session, all of it or nothing, in place of what it left there before."""
    if request.session_id is None or not bodies:
        return
    session = {"account_id": request.account_id, "session_id": request.session_id}
    await connection.execute(delete(messages).where(messages.c.run_id == request.run_id))
    made = insert(sessions).values(**session, last_seq=len(bodies), begun_at=now, spoken_at=now)
    last = await connection.scalar(
        made.on_conflict_do_update(
            index_elements=["account_id", "session_id"],
            set_={
                "last_seq": sessions.c.last_seq + len(bodies),
                "spoken_at": func.greatest(sessions.c.spoken_at, now),
            },
        ).returning(sessions.c.last_seq)
    )
    first = int(last or 0) - len(bodies)
    rows = [
        {
            **session,
            "seq": first + place,
            "run_id": request.run_id,
            "place": place,
            "body": body,
            "stored_at": now,
        }
        for place, body in enumerate(bodies, start=1)
    ]
    await connection.execute(insert(messages), rows)
