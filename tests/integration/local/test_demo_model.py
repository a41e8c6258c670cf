"""The demo model over HTTP, as OpenAI's own client sees it."""

import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator

import httpx
import httpx2
import openai
import pytest
import pytest_asyncio

from headrace.local.demo_model import create_app
from headrace.local.demo_rules import INTRODUCTION

CLOCK: openai.types.chat.ChatCompletionFunctionToolParam = {
    "type": "function",
    "function": {
        "name": "current_time",
        "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}, "required": ["zone"]},
    },
}


@pytest_asyncio.fixture
async def client() -> AsyncIterator[openai.AsyncOpenAI]:
    http = httpx2.AsyncClient(transport=httpx2.ASGITransport(create_app()))
    async with openai.AsyncOpenAI(
        base_url="http://demo/v1", api_key="none", http_client=http, max_retries=0
    ) as client:
        yield client


async def test_answer_is_whole_without_streaming(client: openai.AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(
        model="any", messages=[{"role": "user", "content": "abcde"}]
    )

    choice = answer.choices[0]
    assert answer.model == "headrace-demo"
    assert (choice.index, choice.finish_reason, choice.message.role) == (0, "stop", "assistant")
    assert choice.message.content
    assert choice.message.content.startswith(INTRODUCTION)
    assert answer.usage
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (
        2,
        -(-len(choice.message.content) // 4),
    )


async def test_streamed_words_make_the_same_text(client: openai.AsyncOpenAI) -> None:
    asked: list[openai.types.chat.ChatCompletionMessageParam] = [
        {"role": "user", "content": "A line.\n\n  Another."}
    ]
    whole = await client.chat.completions.create(model="any", messages=asked)

    stream = await client.chat.completions.create(
        model="any", messages=asked, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]

    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert deltas[0].role == "assistant"
    assert "".join(delta.content or "" for delta in deltas) == whole.choices[0].message.content
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage == whole.usage


async def test_streamed_tool_call_is_complete(client: openai.AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(
        model="any", messages=[{"role": "user", "content": "what time is it?"}], tools=[CLOCK], stream=True
    )
    choices = [chunk.choices[0] async for chunk in stream]

    call = next(choice.delta.tool_calls[0] for choice in choices if choice.delta.tool_calls)
    assert call.id
    assert call.function
    assert (call.index, call.type, call.function.name) == (0, "function", "current_time")
    assert json.loads(call.function.arguments or "") == {"zone": "UTC"}
    assert choices[-1].finish_reason == "tool_calls"


async def test_tool_result_is_quoted_under_the_name_of_its_tool(client: openai.AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(
        model="any",
        messages=[
            {"role": "user", "content": [{"type": "text", "text": "what time is it?"}]},
            {
                "role": "assistant",
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "current_time", "arguments": "{}"},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "noon"},
        ],
        tools=[CLOCK],
    )

    assert answer.choices[0].message.content == f"{INTRODUCTION}\n\nThe tool `current_time` answered: noon"


async def test_forbidden_tools_are_not_called(client: openai.AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(
        model="any", messages=[{"role": "user", "content": "time"}], tools=[CLOCK], tool_choice="none"
    )

    assert answer.choices[0].message.tool_calls is None


async def test_request_without_messages_is_refused_in_the_shape_of_openai(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        await client.chat.completions.create(model="any", messages=[])

    assert refused.value.type == "invalid_request_error"


async def test_unknown_path_is_refused_in_the_shape_of_openai(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as refused:
        await client.embeddings.create(model="any", input="text")

    assert refused.value.body == {
        "message": "Not Found",
        "type": "invalid_request_error",
        "param": None,
        "code": None,
    }


async def test_models_are_listed(client: openai.AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == ["headrace-demo"]


def test_command_serves_on_its_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-m", "headrace.local.demo_model", "--port", str(port)])
    try:
        with httpx.Client(transport=httpx.HTTPTransport(retries=6)) as http:
            health = http.get(f"http://127.0.0.1:{port}/healthz")
    finally:
        process.terminate()
        process.wait(10)

    assert health.json() == {"status": "ok"}
