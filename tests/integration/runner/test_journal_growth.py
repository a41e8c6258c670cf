"""A journal grows with what is said, and not with its square: nothing is stored at each call that was stored before."""

import json
import random
from dataclasses import dataclass

from headrace.contracts.runs import RunState
from headrace.runner.limits import RunLimits
from headrace.tools import Tool, tool
from tests.support.runner_rig import Rig, ScriptedTurns, calls, request, runner_rig, says
from tests.support.servers import PostgresEndpoint

RESULT_BYTES = 5_000
TABLES = ("runs", "steps", "effects", "sessions", "messages", "outbox")


@dataclass(frozen=True)
class Size:
    """What a conversation takes up in Postgres, in bytes."""

    rows: int
    """The rows themselves, as stored."""
    tables: int
    """With indexes, dead rows, and pages that are not full."""


def noise(seed: int) -> str:
    """A page of text that hardly compresses, the same for the same seed."""
    return random.Random(seed).randbytes(RESULT_BYTES // 2).hex()


def look_up() -> Tool:
    @tool(effect="none")
    async def look_up(page: int) -> str:
        """Look a page up."""
        return noise(page)

    return look_up


async def size_of(postgres: PostgresEndpoint, *, model_calls: int) -> Size:
    """Hold a conversation in a database of its own, and measure it."""
    pages = [calls(("look_up", json.dumps({"page": page}))) for page in range(1, model_calls)]
    limits = RunLimits(model_calls=120, tokens=1_000_000, seconds=900)
    model = ScriptedTurns(*pages, says("done"))
    asked = request(session_id="s-1")
    async with runner_rig(postgres.superuser_url, model=model, tools=[look_up()], limits=limits) as rig:
        report = await rig.run(asked)

        assert (report.state, len(model.requests)) == (RunState.SUCCEEDED, model_calls)
        assert model.requests[-1].estimated_tokens() > (model_calls - 1) * RESULT_BYTES / 4
        return Size(
            rows=await total(rig, "(SELECT coalesce(sum(pg_column_size(row)), 0) FROM {0} row)"),
            tables=await total(rig, "pg_total_relation_size('{0}')"),
        )


async def total(rig: Rig, measure: str) -> int:
    """A measure, summed over the tables that a run writes to."""
    ((sum_of_all,),) = await rig.sql("SELECT " + " + ".join(measure.format(table) for table in TABLES))
    return int(sum_of_all)


async def test_se_17_conversation_of_a_hundred_calls_completes_and_its_journal_is_small_and_linear(
    postgres_server: PostgresEndpoint,
) -> None:
    half = await size_of(postgres_server, model_calls=50)
    whole = await size_of(postgres_server, model_calls=100)

    assert whole.tables < 10_000_000
    assert 100 * RESULT_BYTES < whole.rows < 5_000_000
    assert 1.7 < whole.rows / half.rows < 2.3
