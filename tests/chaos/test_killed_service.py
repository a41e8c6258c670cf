"""Any service dies by SIGKILL while runs are under way; after its restart they complete."""

import asyncio

import pytest

from headrace.local.readiness import ask
from headrace.local.smoke_paths import follow_to_end, schedule, webhook
from tests.chaos import invariants
from tests.fakes.scripted_model import Rule, ScriptedModel, When
from tests.support.eventually import eventually
from tests.support.platform import RunningPlatform

SERVICES = ("gateway", "usage", "runner", "rag", "webhooks", "scheduler")


@pytest.mark.parametrize("service", SERVICES)
async def test_pending_run_completes_after_kill(
    platform: RunningPlatform, scripted_model: ScriptedModel, service: str
) -> None:
    prompt = f"survive the death of {service}"
    await scripted_model.script(
        Rule(when=When(contains=prompt), steps=({"text": "done", "hold": service}, {"text": "done"}))
    )
    async with platform.door.client() as http:
        run = (await http.post("/v1/runs", json={"agent": "assistant", "input": prompt})).json()
        await scripted_model.wait_held(service)

        died = platform.kill(service)
        await scripted_model.release(service)

        end = await follow_to_end(http, run["run_id"])
    await is_back(platform, service, died)
    assert (end["state"], end["output"]) == ("succeeded", "done")
    await invariants.every_run_ended_once(platform, [run["run_id"]])


async def test_run_that_was_asked_for_while_usage_was_dead_is_admitted(
    platform: RunningPlatform, scripted_model: ScriptedModel
) -> None:
    await scripted_model.script(default={"text": "admitted late"})
    died = platform.kill("usage")
    async with platform.door.client() as http:
        run = (await http.post("/v1/runs", json={"agent": "assistant", "input": "knock"})).json()
        end = await follow_to_end(http, run["run_id"])

    assert end["output"] == "admitted late"
    await is_back(platform, "usage", died)


async def test_webhook_that_was_accepted_becomes_one_run_although_the_service_died(
    platform: RunningPlatform, scripted_model: ScriptedModel
) -> None:
    await scripted_model.script(default={"text": "read"})
    walking = asyncio.create_task(webhook(platform.door, event_id="evt_killed"))
    await a_delivery_is_stored(platform, "evt_killed")

    died = platform.kill("webhooks")

    walked = await walking
    assert walked["state"] == "succeeded"
    await invariants.every_run_ended_once(platform, [walked["run_id"]])
    await is_back(platform, "webhooks", died)


async def test_document_is_indexed_although_rag_died(
    platform: RunningPlatform, scripted_model: ScriptedModel
) -> None:
    await scripted_model.script(default={"text": "unused"})
    died = platform.kill("rag")
    async with platform.door.client() as http:
        text = {"title": "Tides", "text": "The spring tide follows the full moon by two days."}
        document = (await http.post("/v1/knowledge/almanac/documents", json=text)).json()

        async def indexed() -> None:
            answer = await http.get(f"/v1/knowledge/documents/{document['document_id']}")
            assert answer.status_code == 200
            assert answer.json()["state"] == "indexed"

        await eventually(indexed, timeout=90, every=0.2)
        found = (await http.post("/v1/knowledge/search", json={"query": "when is spring tide?"})).json()

    assert found[0]["title"] == "Tides"
    await is_back(platform, "rag", died)


async def a_delivery_is_stored(platform: RunningPlatform, event_id: str) -> None:
    async def check() -> None:
        rows = await platform.rows("webhooks", "SELECT event_id FROM deliveries")
        assert event_id in [row["event_id"] for row in rows]

    await eventually(check, timeout=30, every=0.005)


async def test_schedule_fires_after_the_scheduler_died(
    platform: RunningPlatform, scripted_model: ScriptedModel
) -> None:
    await scripted_model.script(default={"text": "fired"})
    died = platform.kill("scheduler")
    await is_back(platform, "scheduler", died)

    fired = await schedule(platform.door)

    assert fired["state"] == "succeeded"


async def is_back(platform: RunningPlatform, service: str, died: int) -> None:
    """The supervisor started it again, and it is ready."""

    async def check() -> None:
        assert platform.pid(service) != died
        assert (await ask(f"{platform.plan.url(service)}/readyz")).ready

    await eventually(check, timeout=90, every=0.2)
