"""What makes no sense gets a problem document with a sentence, and the platform goes on."""

from typing import Any

import httpx
import pytest

from tests.support.platform import RunningPlatform

CHAT = {"model": "assistant", "messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize(
    ("send", "status", "word"),
    [
        ({"content": b'{"model": "assi', "headers": {"content-type": "application/json"}}, 422, "JSON"),
        ({"json": {**CHAT, "model": "nobody"}}, 404, "there is no agent 'nobody'"),
        ({"json": {**CHAT, "messages": []}}, 422, "messages"),
        ({"json": {**CHAT, "messages": [{"role": "system", "content": "only this"}]}}, 400, "user message"),
        ({"json": {**CHAT, "messages": [{"role": "user", "content": "x" * 1_100_000}]}}, 413, "larger than"),
        ({"json": CHAT, "headers": {"authorization": "Bearer hr_stranger"}}, 401, "not known"),
        ({"json": CHAT, "headers": {"authorization": ""}}, 401, "Authorization"),
        ({"json": CHAT, "headers": {"authorization": "Basic aGk6aGk="}}, 401, "Bearer"),
    ],
    ids=["malformed", "unknown-agent", "empty", "no-user", "oversized", "stranger", "no-key", "basic"],
)
async def test_bad_chat_request_is_refused_with_a_sentence(
    platform: RunningPlatform, send: dict[str, Any], status: int, word: str
) -> None:
    async with platform.door.client() as http:
        answer = await http.post("/v1/chat/completions", **send)

    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert word in answer.json()["detail"]
    assert answer.json()["error"]["message"] == answer.json()["detail"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/runs/unknown"),
        ("GET", "/v1/runs/unknown/events"),
        ("POST", "/v1/runs/unknown/cancel"),
        ("GET", "/v1/agents/unknown"),
        ("DELETE", "/v1/agents/unknown"),
        ("DELETE", "/v1/webhooks/unknown"),
        ("DELETE", "/v1/schedules/unknown"),
        ("GET", "/v1/knowledge/documents/unknown"),
        ("GET", "/nowhere"),
    ],
)
async def test_what_does_not_exist_is_not_found(platform: RunningPlatform, method: str, path: str) -> None:
    async with platform.door.client() as http:
        answer = await http.request(method, path)

    assert answer.status_code == 404, answer.text
    assert answer.json()["detail"]


async def test_agent_is_saved_only_over_the_revision_that_was_read(platform: RunningPlatform) -> None:
    async with platform.door.client() as http:
        made = await http.post("/v1/agents", json={"name": "raced", "instruction": "one"})
        body = {"name": "raced", "instruction": "two"}
        blind = await http.put("/v1/agents/raced", json=body)
        won = await http.put("/v1/agents/raced", json=body, headers={"If-Match": made.headers["etag"]})
        lost = await http.put("/v1/agents/raced", json=body, headers={"If-Match": made.headers["etag"]})
        twice = await http.post("/v1/agents", json={"name": "raced"})
        tool = await http.post("/v1/agents", json={"name": "other", "tools": ["rm"]})

    codes = [r.status_code for r in (made, blind, won, lost, twice, tool)]
    assert codes == [201, 428, 200, 412, 409, 400]
    assert won.json()["revision"] == 2


async def test_signed_event_with_a_wrong_signature_is_refused(platform: RunningPlatform) -> None:
    async with platform.door.client() as http:
        opened = (await http.post("/v1/webhooks", json={"agent": "assistant", "name": "forged"})).json()
    headers = {"webhook-id": "evt_1", "webhook-timestamp": "1", "webhook-signature": "v1,AAAA"}
    async with httpx.AsyncClient() as stranger:
        answer = await stranger.post(opened["url"], content=b"{}", headers=headers)

    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
