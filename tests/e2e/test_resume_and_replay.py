"""A run that failed goes on, or is done again, over HTTP; what would be made is told before."""

from typing import Any

import httpx

from headrace.local.smoke_paths import follow_to_end
from tests.fakes.scripted_model import ScriptedModel
from tests.support.eventually import eventually
from tests.support.platform import RunningPlatform

CALCULATE = {"tool_calls": [{"name": "calculate", "arguments": {"expression": "6 * 7"}}]}
REFUSED = {"error": {"status": 401, "message": "no such key"}}


async def failed_run(http: httpx.AsyncClient, model: ScriptedModel) -> str:
    """A run that used a tool and whose provider then refused it."""
    await model.answers(CALCULATE, REFUSED)
    run = (await http.post("/v1/runs", json={"agent": "assistant", "input": "six times seven"})).json()
    end = await follow_to_end(http, run["run_id"])
    assert (end["state"], end["error_code"]) == ("failed", "model_refused")
    return str(run["run_id"])


async def test_failed_run_is_resumed_exactly_as_the_dry_run_said(
    platform: RunningPlatform, scripted_model: ScriptedModel
) -> None:
    async with platform.door.client() as http:
        run_id = await failed_run(http, scripted_model)
        plan = (await http.post(f"/v1/runs/{run_id}/resume?dry_run=true")).json()
        await scripted_model.reset()
        await scripted_model.answers({"text": "42"})

        resumed = await http.post(f"/v1/runs/{run_id}/resume")

        assert resumed.status_code == 202, resumed.text
        whole = await ended(http, run_id, "succeeded")
    assert [(step["kind"], step["seq"]) for step in plan["reused"]] == [("model", 1), ("tool", 2)]
    assert [(step["kind"], step["seq"]) for step in plan["run"]] == [("model", 3)]
    assert [(step["seq"], step["epoch"]) for step in whole["steps"]] == [(1, 1), (2, 1), (3, 2)]
    assert (whole["output"], len(await scripted_model.calls())) == ("42", 1)
    assert [decision["choice"] for decision in whole["decisions"]] == ["resume"]


async def test_failed_run_is_done_again_as_a_new_run_that_cites_it(
    platform: RunningPlatform, scripted_model: ScriptedModel
) -> None:
    async with platform.door.client() as http:
        run_id = await failed_run(http, scripted_model)
        await scripted_model.answers(CALCULATE, {"text": "42"})

        again = (await http.post(f"/v1/runs/{run_id}/replay")).json()

        whole = await ended(http, again["run_id"], "succeeded")
        refused = await http.post(f"/v1/runs/{again['run_id']}/replay")
    assert (whole["replay_of"], whole["output"]) == (run_id, "42")
    assert refused.status_code == 409
    assert "succeeded" in refused.json()["detail"]


async def ended(http: httpx.AsyncClient, run_id: str, state: str) -> dict[str, Any]:
    """The whole run, once it is in a state."""
    found: list[dict[str, Any]] = []

    async def check() -> None:
        report = (await http.get(f"/v1/runs/{run_id}")).json()
        assert report["state"] == state, report
        found.append(report)

    await eventually(check, timeout=30, every=0.1)
    return found[0]
