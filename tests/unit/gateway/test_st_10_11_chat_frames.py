"""ST-10, ST-11: what goes out is valid for the official client, whatever happens in the run."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai import APIError, AsyncOpenAI
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.shared import ErrorObject

from headrace.contracts.runs import (
    RunEvent,
    RunFinished,
    RunNews,
    RunStarted,
    RunWaiting,
    TextDelta,
    ToolCalled,
    ToolReturned,
)
from headrace.gateway.chat_stream import ChatStream
from headrace.gateway.events import Gap, Silence
from tests.unit.gateway.fakes import event

Item = RunNews | Gap | Silence

TEXT = st.text(st.sampled_from('ab \n\r\u2028é{"'), max_size=6)
MIDDLE: st.SearchStrategy[Item] = st.one_of(
    st.builds(RunStarted, attempt=st.integers(1, 3), agent_revision=st.just(1), resumes_at=st.integers(1, 4)),
    st.builds(TextDelta, text=TEXT, step=st.integers(0, 4)),
    st.builds(ToolCalled, call_id=TEXT, name=TEXT, arguments=TEXT, step=st.integers(0, 4)),
    st.builds(ToolReturned, call_id=TEXT, name=TEXT, result=TEXT, step=st.integers(0, 4)),
    st.just(Gap(1, 3)),
    st.just(Silence()),
)
STATES = st.sampled_from(["succeeded", "failed", "cancelled", "refused"])
LAST: st.SearchStrategy[Item] = st.one_of(
    st.builds(
        RunFinished, state=STATES, output=TEXT, error_code=st.none() | st.just("x"), error=st.none() | TEXT
    ),
    st.builds(
        RunWaiting, state=st.sampled_from(["waiting_approval", "waiting_review"]), tools=st.just(("t",))
    ),
)
RATE_LIMITED = RunFinished(
    state="failed", error_code="model_failed", error="the model answered 429: slow down"
)


def chat(items: Sequence[Item]) -> ChatStream:
    async def following() -> AsyncIterator[RunEvent | Gap | Silence]:
        for place, item in enumerate(items):
            yield item if isinstance(item, Gap | Silence) else event(1, place, item)

    return ChatStream(following(), "run_1", "assistant", 1_893_456_000)


async def sent(items: Sequence[Item]) -> list[str]:
    return [each async for each in chat(items).frames(include_usage=True)]


def read(frames: Sequence[str]) -> list[dict[str, Any]]:
    """The chunks before `[DONE]`, without comments."""
    said = [frame for frame in frames if not frame.startswith(":")]
    assert said[-1] == "data: [DONE]\n\n"
    return [json.loads(frame.removeprefix("data: ")) for frame in said[:-1]]


@given(middle=st.lists(MIDDLE, max_size=8), last=LAST)
def test_st_10_every_choice_has_its_index_and_every_chunk_is_valid(middle: list[Item], last: Item) -> None:
    chunks = [chunk for chunk in read(asyncio.run(sent([*middle, last]))) if "error" not in chunk]

    for chunk in chunks:
        ChatCompletionChunk.model_validate(chunk, strict=True)
        assert [choice["index"] for choice in chunk["choices"]] in ([0], [])


async def test_st_10_whole_answer_has_its_index() -> None:
    answer = chat([RunFinished(state="succeeded", output="one")])

    whole = answer.completion(await answer.end())

    assert ChatCompletion.model_validate(whole, strict=True).choices[0].index == 0
    assert whole["choices"][0]["index"] == 0


@given(middle=st.lists(MIDDLE, max_size=8), last=LAST)
def test_st_11_error_comes_last_and_is_valid(middle: list[Item], last: Item) -> None:
    chunks = read(asyncio.run(sent([*middle, last])))

    errors = [chunk for chunk in chunks if "error" in chunk]
    is_answer = isinstance(last, RunFinished) and last.state == "succeeded"
    assert len(errors) <= 1 if is_answer else len(errors) == 1
    for error in errors:
        assert error is chunks[-1]
        ErrorObject.model_validate(error["error"], strict=True)
        assert error["error"]["message"]


@pytest.mark.parametrize("pings", [0, 2])
async def test_st_11_official_client_sees_the_failure_after_the_text(pings: int) -> None:
    items: list[Item] = [RunStarted(attempt=1, agent_revision=1), TextDelta(text="one"), RATE_LIMITED]
    items[2:2] = [Silence()] * pings
    body = "".join(await sent(items)).encode()

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=body)

    http: Any = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    async with AsyncOpenAI(api_key="k", base_url="http://door/v1", max_retries=0, http_client=http) as client:
        stream = await client.chat.completions.create(
            model="assistant", messages=[{"role": "user", "content": "hi"}], stream=True
        )
        pieces = [(await anext(stream)).choices[0].delta.content for _ in range(2)]
        with pytest.raises(APIError) as failure:
            await anext(stream)

    assert pieces == ["", "one"]
    assert (failure.value.message, failure.value.code) == (RATE_LIMITED.error, "model_failed")
