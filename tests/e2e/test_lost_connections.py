"""ST-5, ST-15: a connection that is lost, at whatever moment, costs its caller no run and no second one."""

import asyncio
import json
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.fakes.scripted_model import ScriptedModel, Step
from tests.support.eventually import eventually
from tests.support.platform import RunningPlatform

CHAT = {"model": "assistant", "stream": True, "messages": [{"role": "user", "content": "go on without me"}]}
RUN = {"agent": "assistant", "input": "go on without me"}


async def state_of(http: httpx.AsyncClient, run_id: str) -> Any:
    return (await http.get(f"/v1/runs/{run_id}", params={"journal": "false"})).json()


async def send_and_hang_up(platform: RunningPlatform, path: str, body: object, key: str) -> None:
    """Send a whole request, and close the connection before a byte of the answer was read."""
    door = urlsplit(platform.door.url)
    content = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {door.netloc}\r\nAuthorization: Bearer {platform.door.api_key}\r\n"
        f"Idempotency-Key: {key}\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    _, writer = await asyncio.open_connection(door.hostname, door.port)
    writer.write(head.encode() + content)
    await writer.drain()
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("path", ["chat", "events"])
async def test_st_5_run_whose_reader_left_at_the_first_event_comes_to_its_end(
    platform: RunningPlatform, scripted_model: ScriptedModel, path: str
) -> None:
    await scripted_model.answers(Step(text="one two", chunks=2, hold="gone", hold_after=1))
    async with platform.door.client() as http:
        if path == "chat":
            run_id = await first_bytes_of(http, "POST", "/v1/chat/completions", json=CHAT)
        else:
            run_id = (await http.post("/v1/runs", json=RUN)).json()["run_id"]
            await first_bytes_of(http, "GET", f"/v1/runs/{run_id}/events")
        await scripted_model.wait_held("gone")
        await scripted_model.release("gone")

        async def ended() -> None:
            report = await state_of(http, run_id)
            assert (report["state"], report["output"]) == ("succeeded", "one two")

        await eventually(ended, timeout=30)


async def first_bytes_of(http: httpx.AsyncClient, method: str, path: str, **more: Any) -> str:
    """Read the first bytes of a stream and leave; answers the run."""
    async with http.stream(method, path, **more) as answer:
        assert answer.status_code == 200
        assert await anext(answer.aiter_bytes())
        return answer.headers["x-headrace-run-id"]


async def test_st_15_run_whose_answer_was_lost_is_found_by_its_key(
    platform: RunningPlatform, scripted_model: ScriptedModel
) -> None:
    await scripted_model.answers(Step(text="once", hold="running"))
    await send_and_hang_up(platform, "/v1/runs", RUN, "st-15-run")
    await scripted_model.wait_held("running")
    async with platform.door.client() as http:
        again = await http.post("/v1/runs", json=RUN, headers={"Idempotency-Key": "st-15-run"})
        report = await state_of(http, again.json()["run_id"])
        await scripted_model.release("running")

    assert (again.status_code, report["state"]) == (202, "running")
    assert len(await scripted_model.calls(settled=1)) == 1


async def test_st_15_chat_whose_answer_was_lost_is_joined_by_its_key(
    platform: RunningPlatform, scripted_model: ScriptedModel
) -> None:
    await scripted_model.answers(Step(text="one two three", chunks=3, hold="middle", hold_after=1))
    await send_and_hang_up(platform, "/v1/chat/completions", CHAT, "st-15-chat")
    await scripted_model.wait_held("middle")
    pieces: list[str] = []
    async with (
        platform.door.client() as http,
        http.stream(
            "POST", "/v1/chat/completions", json=CHAT, headers={"Idempotency-Key": "st-15-chat"}
        ) as answer,
    ):
        async for line in answer.aiter_lines():
            if line.startswith("data: {"):
                choice = json.loads(line.removeprefix("data: "))["choices"][0]
                pieces.append(choice["delta"].get("content") or "")
            if "".join(pieces).strip() == "one":
                await scripted_model.release("middle")

    assert "".join(pieces) == "one two three"
    assert len(await scripted_model.calls(settled=1)) == 1
