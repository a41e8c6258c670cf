"""The scripted model plays what its script says: an honest fake is what the other tests rest on."""

import asyncio
from collections.abc import AsyncIterator

import openai
import pytest
from openai.types.chat import ChatCompletionChunk, ChatCompletionFunctionToolParam

from tests.fakes.scripted_model import (
    Failure,
    Rule,
    ScriptedModel,
    ScriptedToolCall,
    Step,
    Totals,
    Usage,
    When,
)

LOOKUP: ChatCompletionFunctionToolParam = {"type": "function", "function": {"name": "lookup"}}


async def _ask(client: openai.AsyncOpenAI, text: str = "hello", *, model: str = "m") -> str | None:
    answer = await client.chat.completions.create(model=model, messages=[{"role": "user", "content": text}])
    return answer.choices[0].message.content


async def _stream(client: openai.AsyncOpenAI, text: str = "hello") -> list[ChatCompletionChunk]:
    return [chunk async for chunk in _chunks(client, text)]


async def _stream_into(seen: list[ChatCompletionChunk], client: openai.AsyncOpenAI) -> None:
    async for chunk in _chunks(client):
        seen.append(chunk)  # noqa: PERF401 (what came before a break is kept)


async def _chunks(client: openai.AsyncOpenAI, text: str = "hello") -> AsyncIterator[ChatCompletionChunk]:
    stream = await client.chat.completions.create(
        model="m",
        messages=[{"role": "user", "content": text}],
        tools=[LOOKUP],
        stream=True,
        stream_options={"include_usage": True},
    )
    async with stream:
        async for chunk in stream:
            yield chunk


def _contents(chunks: list[ChatCompletionChunk]) -> list[str]:
    return [
        chunk.choices[0].delta.content for chunk in chunks if chunk.choices and chunk.choices[0].delta.content
    ]


async def test_without_a_script_the_user_is_echoed(client: openai.AsyncOpenAI) -> None:
    assert await _ask(client, "good day") == "good day"


async def test_stream_has_role_contents_finish_and_usage(
    scripted_model: ScriptedModel, client: openai.AsyncOpenAI
) -> None:
    await scripted_model.answers(Step(text="one two three", chunks=3))

    chunks = await _stream(client)

    assert chunks[0].choices[0].delta.role == "assistant"
    assert _contents(chunks) == ["one ", "two ", "three"]
    assert [chunk.choices[0].finish_reason for chunk in chunks[:-1]] == [None, None, None, None, "stop"]
    assert chunks[-1].usage
    assert chunks[-1].usage.model_dump(include={"prompt_tokens", "completion_tokens", "total_tokens"}) == {
        "prompt_tokens": 2,
        "completion_tokens": 4,
        "total_tokens": 6,
    }
    assert len({(chunk.id, chunk.created, chunk.model) for chunk in chunks}) == 1


async def test_rules_play_their_steps_in_order_and_run_dry(
    scripted_model: ScriptedModel, client: openai.AsyncOpenAI
) -> None:
    await scripted_model.script(
        Rule(when=When(contains="twice"), steps=(Step(text="first"), Step(text="second"))),
        {"when": {"model": "other"}, "steps": [{"text": "always"}], "repeat": True},
        default={"text": "default"},
    )

    assert [await _ask(client, "twice"), await _ask(client, "twice, again")] == ["first", "second"]
    with pytest.raises(openai.InternalServerError, match="script ran dry"):
        await _ask(client, "twice")
    assert [await _ask(client, model="other"), await _ask(client, model="other")] == ["always", "always"]
    assert await _ask(client) == "default"


async def test_last_role_tells_tool_results_from_questions(
    scripted_model: ScriptedModel, client: openai.AsyncOpenAI
) -> None:
    await scripted_model.script(Rule(when=When(last_role="tool"), steps=(Step(text="thanks"),)))

    answer = await client.chat.completions.create(
        model="m",
        messages=[
            {"role": "user", "content": "go"},
            {"role": "tool", "tool_call_id": "call_1", "content": "42"},
        ],
    )

    assert answer.choices[0].message.content == "thanks"


async def test_tool_calls_are_whole_without_streaming(
    scripted_model: ScriptedModel, client: openai.AsyncOpenAI
) -> None:
    calls = (
        ScriptedToolCall(name="lookup", arguments={"id": 7}),
        ScriptedToolCall(name="lookup", arguments="{brok"),
    )
    await scripted_model.answers(Step(text="Looking.", tool_calls=calls))

    answer = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "go"}])

    choice = answer.choices[0]
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", "Looking.")
    assert choice.message.tool_calls
    asked = [call.function for call in choice.message.tool_calls if call.type == "function"]
    assert [(call.name, call.arguments) for call in asked] == [("lookup", '{"id": 7}'), ("lookup", "{brok")]
    assert len({call.id for call in choice.message.tool_calls}) == 2


async def test_streamed_tool_calls_come_in_parts(
    scripted_model: ScriptedModel, client: openai.AsyncOpenAI
) -> None:
    calls = (
        ScriptedToolCall(name="lookup", arguments={"id": 7}),
        ScriptedToolCall(name="ping", id="call_mine"),
    )
    await scripted_model.answers(Step(tool_calls=calls, chunks=2))

    chunks = await _stream(client)

    parts = [part for chunk in chunks if chunk.choices for part in chunk.choices[0].delta.tool_calls or ()]
    functions = [(part.index, part.function.name, part.function.arguments) for part in parts if part.function]
    assert functions == [
        (0, "lookup", ""),
        (0, None, '{"id'),
        (0, None, '": 7}'),
        (1, "ping", ""),
        (1, None, "{"),
        (1, None, "}"),
    ]
    assert [part.id for part in parts if part.index == 1] == ["call_mine", None, None]
    assert chunks[-2].choices[0].finish_reason == "tool_calls"


async def test_error_has_status_shape_and_retry_after(
    scripted_model: ScriptedModel, client: openai.AsyncOpenAI
) -> None:
    await scripted_model.answers(Step(error=Failure(status=429, retry_after=2, message="slow down")))

    with pytest.raises(openai.RateLimitError) as refused:
        await _ask(client)

    assert refused.value.response.headers["retry-after"] == "2"
    assert refused.value.body == {
        "message": "slow down",
        "type": "requests",
        "param": None,
        "code": "rate_limit_exceeded",
    }


async def test_empty_answer_has_no_content(scripted_model: ScriptedModel, client: openai.AsyncOpenAI) -> None:
    await scripted_model.answers({"empty": True}, {"empty": True})

    assert await _ask(client) is None
    assert _contents(await _stream(client)) == []


async def test_usage_and_finish_reason_are_overridden(
    scripted_model: ScriptedModel, client: openai.AsyncOpenAI
) -> None:
    usage = Usage.model_validate(
        {"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 64}}
    )
    await scripted_model.answers(
        Step(text="cut sho", usage=usage, finish_reason="length"), Step(text="x", usage=None)
    )

    counted, silent = await _stream(client), await _stream(client)

    assert counted[-1].usage
    assert counted[-1].usage.prompt_tokens_details
    assert (counted[-1].usage.total_tokens, counted[-1].usage.prompt_tokens_details.cached_tokens) == (
        105,
        64,
    )
    assert counted[-2].choices[0].finish_reason == "length"
    assert silent[-1].choices[0].finish_reason == "stop"
    assert (await scripted_model.stats()).output_tokens == 6


async def test_error_in_band_follows_the_chunks(
    scripted_model: ScriptedModel, client: openai.AsyncOpenAI
) -> None:
    await scripted_model.answers(Step(text="half", error=Failure(message="overloaded"), in_band_error=True))
    seen: list[ChatCompletionChunk] = []

    with pytest.raises(openai.APIError, match="overloaded"):
        await _stream_into(seen, client)

    assert "".join(_contents(seen)) == "half"


async def test_connection_is_cut_after_so_many_chunks(
    scripted_model: ScriptedModel, client: openai.AsyncOpenAI
) -> None:
    await scripted_model.answers(Step(text="abcdefgh", chunks=4, cut_after=2))
    seen: list[ChatCompletionChunk] = []

    with pytest.raises(openai.APIConnectionError):
        await _stream_into(seen, client)

    assert _contents(seen) == ["ab", "cd"]
    [call] = await scripted_model.calls(settled=1)
    assert (call.outcome, call.output_tokens) == ("cut_by_script", 1)


async def test_whole_answer_is_cut_too(scripted_model: ScriptedModel, client: openai.AsyncOpenAI) -> None:
    await scripted_model.answers(Step(text="never whole", cut_after=0))

    with pytest.raises(openai.APIConnectionError):
        await _ask(client)


async def test_held_answer_waits_for_its_release(
    scripted_model: ScriptedModel, client: openai.AsyncOpenAI
) -> None:
    await scripted_model.answers(Step(text="at last", hold="gate"))

    async with asyncio.TaskGroup() as group:
        asking = group.create_task(_ask(client))
        assert await scripted_model.wait_held("gate") == 1
        assert not asking.done()
        assert await scripted_model.release("gate") == 1

    assert asking.result() == "at last"
    assert await scripted_model.release("gate") == 0


async def test_hold_in_the_middle_keeps_the_chunks_before_it(
    scripted_model: ScriptedModel, client: openai.AsyncOpenAI
) -> None:
    await scripted_model.answers(Step(text="abcd", chunks=4, hold="middle", hold_after=2))
    chunks = _chunks(client)

    before = [await anext(chunks) for _ in range(3)]
    await scripted_model.wait_held("middle")
    await scripted_model.release("middle")
    after = [chunk async for chunk in chunks]

    assert (_contents(before), _contents(after)) == (["a", "b"], ["c", "d"])


@pytest.mark.parametrize("held_after", [None, 1])
async def test_client_that_leaves_is_noticed(
    scripted_model: ScriptedModel, client: openai.AsyncOpenAI, held_after: int | None
) -> None:
    await scripted_model.answers(Step(text="abcd", hold="gate", hold_after=held_after))
    asking = asyncio.create_task(_stream(client))
    await scripted_model.wait_held("gate")

    asking.cancel()

    [call] = await scripted_model.calls(settled=1)
    assert call.outcome == "cut_by_client"
    assert await scripted_model.wait_held("gate", at_least=0) == 0


async def test_delays_pass_between_chunks(scripted_model: ScriptedModel, client: openai.AsyncOpenAI) -> None:
    await scripted_model.answers(Step(text="abc", chunks=3, first_delay=0.05, chunk_delay=0.05))
    loop = asyncio.get_running_loop()
    started = loop.time()

    chunks = await _stream(client)

    assert _contents(chunks) == ["a", "b", "c"]
    assert loop.time() - started >= 0.15


async def test_calls_are_written_down(scripted_model: ScriptedModel, client: openai.AsyncOpenAI) -> None:
    await scripted_model.script(
        Rule(when=When(contains="hi"), steps=(Step(text="a"), Step(text="b")), repeat=True)
    )

    await _stream(client, "hi there")
    await client.chat.completions.create(
        model="n",
        temperature=0.5,
        messages=[{"role": "user", "content": [{"type": "text", "text": "other"}]}],
    )

    first, second = await scripted_model.calls(settled=2)
    assert (first.number, first.model, first.tools, first.stream, first.key_tail) == (
        1,
        "m",
        ["lookup"],
        True,
        "abcd",
    )
    assert (first.rule, first.step, first.outcome) == (0, 0, "finished")
    assert (first.input_tokens, first.output_tokens) == (2, 1)
    assert first.messages == [{"role": "user", "content": "hi there"}]
    assert (second.rule, second.step, second.stream, second.options) == (
        None,
        None,
        False,
        {"temperature": 0.5},
    )


async def test_tokens_are_summed_by_model(scripted_model: ScriptedModel, client: openai.AsyncOpenAI) -> None:
    await scripted_model.script(Rule(when=When(contains="fail"), steps=(Step(error=Failure()),)))

    await _ask(client, "a" * 8, model="one")
    await _ask(client, "b" * 9, model="two")
    with pytest.raises(openai.InternalServerError):
        await _ask(client, "fail", model="two")

    assert await scripted_model.stats() == Totals(
        calls=3, input_tokens=5, output_tokens=5, by_model={"one": Totals(1, 2, 2), "two": Totals(2, 3, 3)}
    )


async def test_reset_forgets_calls_and_drops_held_answers(
    scripted_model: ScriptedModel, client: openai.AsyncOpenAI
) -> None:
    await scripted_model.answers(Step(text="abcd", hold="gate", hold_after=1))
    asking = asyncio.create_task(_stream(client))
    await scripted_model.wait_held("gate")

    await scripted_model.reset()

    with pytest.raises(openai.APIConnectionError):
        await asking
    assert (await scripted_model.calls(), await scripted_model.stats()) == ([], Totals())
