"""All SQL of the usage service."""

from datetime import datetime

from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from headrace.contracts.runs import RunRequested
from headrace.contracts.usage import UsageRecorded
from headrace.usage.models import admissions, model_calls

_DECIDE = insert(admissions).on_conflict_do_nothing()
_RECORD = insert(model_calls).on_conflict_do_nothing()


async def record_decision(
    connection: AsyncConnection, request: RunRequested, *, refusal: str | None, now: datetime
) -> None:
    """Store what was decided about a run.

    Args:
        connection: The transaction that also sends the decision.
        request: The run that was asked for.
        refusal: Why it was not let in; `None` when it was.
        now: When.
    """
    await connection.execute(
        _DECIDE,
        {
            "run_id": request.run_id,
            "account_id": request.account_id,
            "agent_id": request.agent_id,
            "door": request.door,
            "lane": request.lane,
            "decision": "admitted" if refusal is None else "refused",
            "reason": refusal,
            "decided_at": now,
        },
    )


async def record_model_call(connection: AsyncConnection, used: UsageRecorded) -> None:
    """Add a row to the ledger; the same call again adds nothing."""
    await connection.execute(
        _RECORD,
        {
            "run_id": used.run_id,
            "path": used.path,
            "seq": used.seq,
            "account_id": used.account_id,
            "agent_id": used.agent_id,
            "model": used.model,
            "input_tokens": used.tokens.input_tokens,
            "cached_input_tokens": used.tokens.cached_input_tokens,
            "output_tokens": used.tokens.output_tokens,
            "is_estimated": used.tokens.is_estimated,
            "latency_ms": used.latency_ms,
            "recorded_at": used.recorded_at,
        },
    )
