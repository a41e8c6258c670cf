"""The broker is disposable: its streams, or all its data, vanish under load; nothing is lost and nothing doubled."""

import asyncio
import os
import shutil
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import nats
import nats.errors
import nats.js.errors

from headrace.contracts.streams import STREAMS
from headrace.local.smoke_paths import follow_to_end
from tests.chaos import invariants
from tests.fakes.scripted_model import ScriptedModel
from tests.support.eventually import eventually
from tests.support.platform import RunningPlatform

RUNS = 40


async def test_js_8_every_stream_is_deleted_under_load_and_is_made_again_and_refilled(
    platform: RunningPlatform, scripted_model: ScriptedModel
) -> None:
    async def delete_streams() -> None:
        client = await nats.connect(platform.plan.operator_nats_url, inbox_prefix="_INBOX.operator")
        try:
            for stream in STREAMS:
                try:
                    await client.jetstream().delete_stream(stream.name)
                except nats.js.errors.NotFoundError:
                    continue
        finally:
            await client.close()

    await survives(platform, scripted_model, "streams", delete_streams, times=3)


async def test_js_7_broker_loses_its_whole_data_folder_under_load(
    platform: RunningPlatform, scripted_model: ScriptedModel
) -> None:
    async def wipe() -> None:
        pid = platform.pid("nats")
        os.kill(pid, signal.SIGKILL)
        await asyncio.to_thread(shutil.rmtree, platform.home.root / "nats" / "jetstream", ignore_errors=True)

    await survives(platform, scripted_model, "folder", wipe, times=1)


async def test_js_7_broker_forgets_what_it_acknowledged_since_a_while_ago_under_load(
    platform: RunningPlatform, scripted_model: ScriptedModel, tmp_path: Path
) -> None:
    data, copy = platform.home.root / "nats" / "jetstream", tmp_path / "copy"

    async def keep_or_go_back() -> None:
        """Copy the data, or put the copy in its place, while the broker stands still; then it dies."""
        pid = platform.pid("nats")
        os.kill(pid, signal.SIGSTOP)
        if not copy.exists():
            await asyncio.to_thread(shutil.copytree, data, copy)
            os.kill(pid, signal.SIGCONT)
            return
        await asyncio.to_thread(shutil.rmtree, data)
        await asyncio.to_thread(shutil.copytree, copy, data)
        os.kill(pid, signal.SIGKILL)

    await survives(platform, scripted_model, "minute", keep_or_go_back, times=2)


async def survives(
    platform: RunningPlatform,
    model: ScriptedModel,
    name: str,
    harm: Callable[[], Awaitable[None]],
    *,
    times: int,
) -> None:
    """Ask for runs without pause, do harm in between, and count at the model, in the tables and in the ledger."""
    await model.script(default={"text": "fine", "first_delay": 0.05})
    prompts = [f"{name} {number}" for number in range(RUNS)]
    async with platform.door.client() as http:
        asking = asyncio.create_task(ask_one_after_the_other(http, prompts))
        for part in range(1, times + 1):
            await reached(model, RUNS * part // (times + 2))
            await harm()
        run_ids = await asking
        ends = [await follow_to_end(http, run_id) for run_id in run_ids]

    assert [end["output"] for end in ends] == ["fine"] * RUNS
    await invariants.every_run_ended_once(platform, run_ids)
    await invariants.no_run_called_the_model_twice(model, prompts)
    await invariants.usage_equals_calls(platform, run_ids)
    await invariants.nothing_is_left_in_an_outbox(platform)


async def ask_one_after_the_other(http: httpx.AsyncClient, prompts: list[str]) -> list[str]:
    run_ids: list[str] = []
    for prompt in prompts:
        answer = await http.post("/v1/runs", json={"agent": "assistant", "input": prompt})
        assert answer.status_code == 202, answer.text
        run_ids.append(answer.json()["run_id"])
        await asyncio.sleep(0.02)
    return run_ids


async def reached(model: ScriptedModel, calls: int) -> None:
    """Wait until the model has been called that often, so that harm falls into the middle."""

    async def check() -> None:
        assert (await model.stats()).calls >= calls

    await eventually(check, timeout=60)
