"""A person's path: over HTTP through the broker to a model, and back as a stream."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from openai import APIStatusError, AsyncOpenAI

from tests.fakes.scripted_model import ScriptedModel, Step
from tests.support.platform import RunningPlatform


def client(platform: RunningPlatform) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{platform.door.url}/v1", api_key=platform.door.api_key, max_retries=0)


async def ask(platform: RunningPlatform, text: str, **more: Any) -> Any:
    async with client(platform) as openai:
        return await openai.chat.completions.create(
            model="assistant", messages=[{"role": "user", "content": text}], **more
        )


async def test_answer_is_streamed_piece_by_piece(
    platform: RunningPlatform, scripted_model: ScriptedModel
) -> None:
    await scripted_model.answers(Step(text="one two three four", chunks=4, hold="middle", hold_after=2))
    pieces: list[str] = []
    async with client(platform) as openai:
        stream = await openai.chat.completions.create(
            model="assistant",
            messages=[{"role": "user", "content": "count"}],
            stream=True,
            stream_options={"include_usage": True},
        )
        async for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                pieces.append(chunk.choices[0].delta.content)
                if "".join(pieces).startswith("one two"):
                    await scripted_model.release("middle")
            usage = chunk.usage

    assert "".join(pieces) == "one two three four"
    assert len(pieces) > 1
    assert usage is not None
    assert usage.completion_tokens > 0


async def test_whole_answer_carries_text_usage_and_run(
    platform: RunningPlatform, scripted_model: ScriptedModel
) -> None:
    await scripted_model.answers(Step(text="forty-two"))

    answer = await ask(platform, "what is the answer?")

    assert answer.choices[0].message.content == "forty-two"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.id.startswith("chatcmpl-")


async def test_tool_is_called_and_its_result_read(
    platform: RunningPlatform, scripted_model: ScriptedModel
) -> None:
    call = {"name": "calculate", "arguments": {"expression": "6 * 7"}}
    await scripted_model.answers({"tool_calls": [call]}, {"text": "it is 42"})

    answer = await ask(platform, "what is 6 times 7?")

    assert answer.choices[0].message.content == "it is 42"
    [_, second] = await scripted_model.calls(settled=2)
    assert second.messages[-1]["role"] == "tool"
    assert second.messages[-1]["content"] == "42"


async def test_unreadable_tool_arguments_go_back_to_the_model(
    platform: RunningPlatform, scripted_model: ScriptedModel
) -> None:
    bad = {"name": "calculate", "arguments": '{"expression": "6 *'}
    unknown = {"name": "delete_everything", "arguments": {}}
    await scripted_model.answers({"tool_calls": [bad]}, {"tool_calls": [unknown]}, {"text": "sorry"})

    answer = await ask(platform, "go on")

    assert answer.choices[0].message.content == "sorry"
    calls = await scripted_model.calls(settled=3)
    assert "not JSON" in calls[1].messages[-1]["content"]
    assert "there is no tool 'delete_everything'" in calls[2].messages[-1]["content"]


async def test_session_remembers_earlier_turns(
    platform: RunningPlatform, scripted_model: ScriptedModel
) -> None:
    await scripted_model.answers(Step(text="hello Ada"), Step(text="you are Ada"))
    async with platform.door.client() as http:
        for text in ("I am Ada", "who am I?"):
            body = {"agent": "assistant", "input": text, "session_id": "s-remember"}
            run = (await http.post("/v1/runs", json=body)).json()
            await finished(http, run["run_id"])

    said = [
        m["content"] for m in (await scripted_model.calls(settled=2))[1].messages if m["role"] != "system"
    ]
    assert said == ["I am Ada", "hello Ada", "who am I?"]


async def test_events_resume_after_last_event_id(
    platform: RunningPlatform, scripted_model: ScriptedModel
) -> None:
    await scripted_model.answers(Step(text="a b c d"))
    async with platform.door.client() as http:
        run = (await http.post("/v1/runs", json={"agent": "assistant", "input": "abc"})).json()
        everything = await finished(http, run["run_id"])
        rest = await finished(http, run["run_id"], after=everything[1][0])

    assert everything[0][1] == "run.started"
    assert rest == everything[2:]
    assert everything[-1][2]["output"] == "a b c d"


async def test_same_idempotency_key_is_the_same_run(
    platform: RunningPlatform, scripted_model: ScriptedModel
) -> None:
    await scripted_model.answers(Step(text="once"))
    body = {"agent": "assistant", "input": "only once, please"}
    async with platform.door.client() as http:
        answers = await asyncio.gather(
            *(http.post("/v1/runs", json=body, headers={"Idempotency-Key": "k-1"}) for _ in range(5))
        )
        other = await http.post(
            "/v1/runs", json={**body, "input": "else"}, headers={"Idempotency-Key": "k-1"}
        )
        runs = {answer.json()["run_id"] for answer in answers}
        await finished(http, next(iter(runs)))

    assert len(runs) == 1
    assert other.status_code == 422
    assert len(await scripted_model.calls(settled=1)) == 1


async def test_provider_that_fails_for_a_while_is_asked_again(
    platform: RunningPlatform, scripted_model: ScriptedModel
) -> None:
    await scripted_model.answers({"error": {"status": 500, "message": "away"}}, {"text": "back"})

    answer = await ask(platform, "are you there?")

    assert answer.choices[0].message.content == "back"
    assert len(await scripted_model.calls(settled=2)) == 2


async def test_provider_that_refuses_is_a_problem_not_a_retry(
    platform: RunningPlatform, scripted_model: ScriptedModel
) -> None:
    await scripted_model.answers({"error": {"status": 401, "message": "wrong key"}})

    with pytest.raises(APIStatusError) as failure:
        await ask(platform, "hello")

    assert failure.value.status_code == 502
    assert failure.value.body["code"] == "model_refused"  # type: ignore[index]  # the vendor types it as object
    assert len(await scripted_model.calls(settled=1)) == 1


async def test_cancel_ends_the_run_for_its_caller(
    platform: RunningPlatform, scripted_model: ScriptedModel
) -> None:
    await scripted_model.answers(Step(text="never", hold="cancelled"))
    async with platform.door.client() as http:
        run = (await http.post("/v1/runs", json={"agent": "assistant", "input": "wait"})).json()
        await scripted_model.wait_held("cancelled")
        await http.post(f"/v1/runs/{run['run_id']}/cancel")
        events = await finished(http, run["run_id"])

    assert events[-1][2]["state"] == "cancelled"


async def finished(
    http: httpx.AsyncClient, run_id: str, after: str | None = None
) -> list[tuple[str, str, Any]]:
    """All events of a run to its end: `(id, kind, data)`."""
    events: list[tuple[str, str, Any]] = []
    headers = {} if after is None else {"Last-Event-ID": after}
    async with http.stream("GET", f"/v1/runs/{run_id}/events", headers=headers) as answer:
        fields: dict[str, str] = {}
        async for line in answer.aiter_lines():
            if not line and "data" in fields:
                events.append((fields.get("id", ""), fields["event"], json.loads(fields["data"])))
                fields = {}
            elif not line.startswith(":"):
                name, _, value = line.partition(": ")
                fields[name] = value
    return events
