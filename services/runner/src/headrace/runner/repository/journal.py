"""The journal's rows: written in one statement that the lease fences, and read back in the order of their places."""

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import bindparam, func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from headrace.runner.models import decisions, steps
from headrace.runner.repository.runs import Lease, lost
from headrace.runner.steps import Place, Step

_WRITE = text(
    """
    WITH held AS (
        SELECT run_id FROM runner.runs
        WHERE run_id = :id AND epoch = :fence AND state = 'running' FOR SHARE
    )
    INSERT INTO runner.steps AS step (run_id, path, seq, kind, state, name, epoch, call_id, digest, output, tokens,
                                      effect_key, why, expires_at, started_at, finished_at)
    SELECT held.run_id, path, seq, kind, state, name, :fence, call_id, digest, output, tokens, effect_key, why,
           expires_at, clock_timestamp(), CASE WHEN state = 'intent' THEN NULL ELSE clock_timestamp() END
    FROM held, jsonb_to_recordset(CAST(:rows AS jsonb)) AS row (
        path text, seq int, kind text, state text, name text, call_id text, digest text, output jsonb, tokens jsonb,
        effect_key text, why text, expires_at timestamptz
    )
    ON CONFLICT (run_id, path, seq) DO UPDATE SET
        state = excluded.state, name = excluded.name, epoch = excluded.epoch, digest = excluded.digest,
        output = excluded.output, tokens = excluded.tokens, effect_key = excluded.effect_key, why = excluded.why,
        expires_at = excluded.expires_at, finished_at = excluded.finished_at,
        started_at = CASE WHEN excluded.state = 'intent' THEN excluded.started_at ELSE step.started_at END
    WHERE step.state <> 'done' OR step.epoch = excluded.epoch
    """
)


async def write(connection: AsyncConnection, lease: Lease, written: Sequence[Step]) -> None:
    """Store steps of a run that is held; what is finished stays as it is.

    Raises:
        LeaseLost: Somebody else has the run, or it was ended.
    """
    if not written:
        return
    done = await connection.execute(
        _WRITE,
        {"id": lease.run_id, "fence": lease.epoch, "rows": json.dumps([_row(step) for step in written])},
    )
    if done.rowcount != len(written):
        raise lost(lease)


def _row(step: Step) -> dict[str, Any]:
    return {
        "path": step.place.path,
        "seq": step.place.seq,
        "kind": step.kind,
        "state": step.state,
        "name": step.name,
        "call_id": step.call_id,
        "digest": step.digest,
        "output": step.output,
        "tokens": step.tokens,
        "effect_key": step.effect_key,
        "why": step.why,
        "expires_at": step.expires_at.isoformat() if step.expires_at else None,
    }


_READ = select(steps).where(steps.c.run_id == bindparam("run")).order_by(steps.c.path, steps.c.seq)


async def read(connection: AsyncConnection, run_id: str) -> list[Step]:
    """All steps of a run."""
    rows = await connection.execute(_READ, {"run": run_id})
    return [_step(row) for row in rows]


def _step(row: Any) -> Step:
    return Step(
        place=Place(row.path, row.seq),
        kind=row.kind,
        name=row.name,
        state=row.state,
        epoch=row.epoch,
        call_id=row.call_id,
        digest=row.digest,
        output=row.output,
        tokens=row.tokens,
        effect_key=row.effect_key,
        why=row.why,
        expires_at=row.expires_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
    )


_SETTLE = text(
    """
    UPDATE runner.steps SET state = CAST(:to AS text), output = CAST(:output AS jsonb), why = :why, epoch = :epoch,
           finished_at = CASE WHEN CAST(:to AS text) = 'intent' THEN NULL ELSE clock_timestamp() END
    WHERE run_id = :run AND path = :path AND seq = :seq AND state = :from
    """
)


async def settle(
    connection: AsyncConnection,
    run: Any,
    place: Place,
    *,
    of: str,
    to: str,
    output: dict[str, Any] | None = None,
    why: str | None = None,
) -> bool:
    """Change a step of a locked run by a person's decision; `False` where it is no longer as it was."""
    done = await connection.execute(
        _SETTLE,
        {
            "run": run.run_id,
            "path": place.path,
            "seq": place.seq,
            "epoch": run.epoch,
            "from": of,
            "to": to,
            "output": None if output is None else json.dumps(output),
            "why": why,
        },
    )
    return bool(done.rowcount)


async def is_anything_asked(connection: AsyncConnection, run_id: str) -> bool:
    """Whether a decision is still missing."""
    asked = await connection.scalar(
        select(func.count())
        .select_from(steps)
        .where(
            steps.c.run_id == run_id,
            (steps.c.state == "doubt") | ((steps.c.kind == "approval") & (steps.c.state == "intent")),
        )
    )
    return bool(asked)


async def decided(connection: AsyncConnection, row: dict[str, Any]) -> None:
    """Note who decided what."""
    await connection.execute(decisions.insert(), row)


async def decisions_of(connection: AsyncConnection, run_id: str) -> list[Any]:
    """What people decided about a run, in order."""
    rows = await connection.execute(
        select(decisions).where(decisions.c.run_id == run_id).order_by(decisions.c.decided_at)
    )
    return list(rows)
