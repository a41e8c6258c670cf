"""Sentences that must hold of the platform after anything that was done to it."""

from collections import Counter

from tests.fakes.scripted_model import ScriptedModel
from tests.support.eventually import eventually
from tests.support.platform import RunningPlatform


async def every_run_ended_once(platform: RunningPlatform, run_ids: list[str]) -> None:
    """Each run that was accepted has one row, in one final state, and it succeeded."""
    rows = await platform.rows("runner", "SELECT run_id, state FROM runs")
    states = {row["run_id"]: row["state"] for row in rows}
    assert {run_id: states.get(run_id) for run_id in run_ids} == dict.fromkeys(run_ids, "succeeded")


async def no_run_called_the_model_twice(model: ScriptedModel, prompts: list[str]) -> None:
    """Counted at the model: one call for each prompt."""
    asked = Counter(call.messages[-1]["content"] for call in await model.calls())
    assert {prompt: asked[prompt] for prompt in prompts} == dict.fromkeys(prompts, 1)


async def usage_equals_calls(platform: RunningPlatform, run_ids: list[str]) -> None:
    """The ledger has one row for each run of one call: nothing lost, nothing twice."""

    async def check() -> None:
        rows = await platform.rows("usage", "SELECT run_id FROM model_calls")
        booked = Counter(row["run_id"] for row in rows)
        assert {run_id: booked[run_id] for run_id in run_ids} == dict.fromkeys(run_ids, 1)

    await eventually(check, timeout=60)


async def nothing_is_left_in_an_outbox(platform: RunningPlatform) -> None:
    """Every message was seen by every service that must see it."""

    async def check() -> None:
        waiting = {
            service: [
                row["message_id"] for row in await platform.rows(service, "SELECT message_id FROM outbox")
            ]
            for service in ("gateway", "usage", "runner", "webhooks", "scheduler", "rag")
        }
        assert {service: ids for service, ids in waiting.items() if ids} == {}

    await eventually(check, timeout=90, every=0.5)
