"""The three ways in that the smoke test walks, each from its door to the end of the run."""

import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx
from openai import AsyncOpenAI
from standardwebhooks.webhooks import Webhook

WAIT_SECONDS = 60.0


class SmokeError(Exception):
    """A path did not lead to an answer; the sentence says where it ended."""


@dataclass(frozen=True, slots=True)
class Platform:
    """A running deployment, as its first user sees it."""

    url: str
    api_key: str

    def client(self) -> httpx.AsyncClient:
        """HTTP with the key."""
        headers = {"Authorization": f"Bearer {self.api_key}"}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=WAIT_SECONDS)


async def chat(platform: Platform, text: str = "What time is it?") -> dict[str, Any]:
    """Chat as the official client does; answers the text, and milliseconds to the first token and in all."""
    begun = time.perf_counter()
    first: float | None = None
    parts: list[str] = []
    async with AsyncOpenAI(
        base_url=f"{platform.url}/v1", api_key=platform.api_key, max_retries=0, timeout=WAIT_SECONDS
    ) as client:
        stream = await client.chat.completions.create(
            model="assistant", messages=[{"role": "user", "content": text}], stream=True
        )
        async for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                first = first or time.perf_counter()
                parts.append(chunk.choices[0].delta.content)
    if first is None:
        raise SmokeError("the chat answered nothing")
    return {"text": "".join(parts), "first_token_ms": _ms(begun, first), "total_ms": _ms(begun)}


async def webhook(platform: Platform, *, event_id: str = "evt_smoke") -> dict[str, Any]:
    """Open an address, send one signed event, and follow the run that it starts."""
    async with platform.client() as http:
        opened = await _json(http.post("/v1/webhooks", json={"agent": "assistant", "name": "smoke"}))
        body = json.dumps({"type": "order.created", "data": {"order": 7}})
        now = datetime.now(UTC)
        signature = Webhook(opened["secret"]).sign(msg_id=event_id, timestamp=now, data=body)
        begun = time.perf_counter()
        taken = await _json(
            http.post(
                opened["url"],
                content=body,
                headers={
                    "content-type": "application/json",
                    "webhook-id": event_id,
                    "webhook-timestamp": str(int(now.timestamp())),
                    "webhook-signature": signature,
                },
            )
        )
        accepted = _ms(begun)
        end = await follow_to_end(http, taken["run_id"])
        return {
            "run_id": taken["run_id"],
            "state": end["state"],
            "accepted_ms": accepted,
            "total_ms": _ms(begun),
        }


async def schedule(platform: Platform) -> dict[str, Any]:
    """Schedule the agent every second, and follow the first run that is fired."""
    async with platform.client() as http:
        wanted = {"agent": "assistant", "name": "smoke", "every_seconds": 1, "prompt": "What time is it?"}
        made = await _json(http.post("/v1/schedules", json=wanted))
        begun = time.perf_counter()
        try:
            run_id = await _first_fire(http, made["schedule_id"])
            end = await follow_to_end(http, run_id)
            return {"run_id": run_id, "state": end["state"], "total_ms": _ms(begun)}
        finally:
            await http.delete(f"/v1/schedules/{made['schedule_id']}")


async def _first_fire(http: httpx.AsyncClient, schedule_id: str) -> str:
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        for each in await _json(http.get("/v1/schedules")):
            if each["schedule_id"] == schedule_id and each["last_run_id"]:
                return str(each["last_run_id"])
    raise SmokeError(f"schedule {schedule_id} did not fire within {WAIT_SECONDS:.0f} s")


async def follow_to_end(
    http: httpx.AsyncClient, run_id: str, *, seconds: float = WAIT_SECONDS
) -> dict[str, Any]:
    """Follow a run's events, over as many connections as it takes; answers the data of `run.finished`.

    Raises:
        SmokeError: It did not end within so many seconds.
    """
    deadline = time.monotonic() + seconds
    last: str | None = None
    while time.monotonic() < deadline:
        headers = {} if last is None else {"Last-Event-ID": last}
        try:
            async for name, event_id, data in _events(http, run_id, headers):
                last = event_id or last
                if name == "run.finished":
                    return data
        except httpx.TransportError:
            continue
    raise SmokeError(f"run {run_id} did not end within {seconds:.0f} s")


async def _events(
    http: httpx.AsyncClient, run_id: str, headers: dict[str, str]
) -> AsyncIterator[tuple[str, str | None, dict[str, Any]]]:
    async with http.stream("GET", f"/v1/runs/{run_id}/events", headers=headers) as answer:
        if answer.status_code != 200:
            return
        name, event_id = "", None
        async for line in answer.aiter_lines():
            field, _, value = line.partition(": ")
            match field:
                case "event":
                    name = value
                case "id":
                    event_id = value
                case "data":
                    yield name, event_id, json.loads(value)
                    name, event_id = "", None
                case _:
                    pass


async def _json(asked: Any) -> Any:
    answer: httpx.Response = await asked
    if answer.status_code >= 400:
        raise SmokeError(f"{answer.request.url} answered {answer.status_code}: {answer.text[:300]}")
    return answer.json()


def _ms(begun: float, end: float | None = None) -> float:
    return round(((end or time.perf_counter()) - begun) * 1_000, 1)
