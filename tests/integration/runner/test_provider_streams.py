"""What providers do to a stream, through LiteLLM and over HTTP: they fail in band, cut calls, and say `stop` too early."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import SecretStr

from headrace.common.delivery import DeliveryPolicy
from headrace.contracts.runs import RunStarted, RunState, TextDelta
from headrace.runner.llm import LiteLlm
from headrace.runner.settings import ModelSettings
from headrace.tools import Tool, tool
from tests.fakes.scripted_model import Failure, ScriptedModel, ScriptedToolCall, Step
from tests.support.runner_rig import Rig, request, runner_rig
from tests.support.servers import PostgresEndpoint

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
"""LiteLLM warns of its own code."""

WHOLE = '{"city": "San Francisco"}'
CUT = '{"city": "San Fra'
OVERLOADED = Failure(status=503, message="overloaded")


class Weather:
    """Counts what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def tool(self) -> Tool:
        @tool(effect="unsafe")
        async def weather(city: str = "anywhere") -> str:
            """Look at the weather."""
            self.asked.append(city)
            return "sunny"

        return weather


def real(base_url: str) -> Any:
    """LiteLLM as the runner calls it, with another server for a provider."""
    settings = ModelSettings(model="openai/scripted", api_base=base_url, api_key=SecretStr("scripted"))
    return LiteLlm(settings, timeout=30)


@asynccontextmanager
async def asking(
    postgres: PostgresEndpoint, base_url: str, *tools: Tool, attempts: int = 2
) -> AsyncIterator[Rig]:
    """A runner whose model is at an address."""
    policy = DeliveryPolicy(attempts=attempts, first_delay=0.0, longest_delay=0.0)
    model = real(base_url)
    async with runner_rig(postgres.superuser_url, model=model, tools=tools, policy=policy) as rig:
        yield rig


async def steps(rig: Rig, run_id: str) -> list[tuple[str, str]]:
    return [(step.kind, step.state) for step in (await rig.journal(run_id)).steps]


def texts(rig: Rig) -> list[str]:
    """What was told in each taking."""
    takings: list[str] = []
    for event in sorted(rig.told.events, key=lambda event: event.seq):
        if isinstance(event.news, RunStarted):
            takings.append("")
        elif isinstance(event.news, TextDelta):
            takings[-1] += event.news.text
    return takings


async def test_st_6_error_in_band_before_anything_was_said_is_tried_again(
    postgres_server: PostgresEndpoint, scripted_model: ScriptedModel
) -> None:
    await scripted_model.answers(Step(text="", error=OVERLOADED, in_band_error=True), Step(text="done"))
    asked = request()
    async with asking(postgres_server, scripted_model.base_url) as rig:
        postponed = await rig.run(asked)
        failed = await steps(rig, asked.run_id)
        report = await rig.run(asked)

        assert texts(rig) == ["", "done"]
    assert (postponed.state, failed) == (RunState.RUNNING, [("model", "failed")])
    assert (report.state, report.output) == (RunState.SUCCEEDED, "done")
    assert (await scripted_model.stats()).calls == 2


async def test_st_6_error_in_band_is_the_failure_of_the_run_and_never_its_text(
    postgres_server: PostgresEndpoint, scripted_model: ScriptedModel
) -> None:
    await scripted_model.answers(Step(text="half an answer", error=OVERLOADED, in_band_error=True))
    asked = request(session_id="s-1")
    async with asking(postgres_server, scripted_model.base_url, attempts=1) as rig:
        report = await rig.run(asked)

        said = [body for (body,) in await rig.sql("SELECT body FROM messages ORDER BY seq")]
        assert texts(rig) == ["half an answer"]
        assert await steps(rig, asked.run_id) == [("model", "failed")]
    assert (report.state, report.error_code, report.output) == (RunState.FAILED, "model_failed", "")
    assert report.error is not None
    assert "overloaded" in report.error
    assert [(each["role"], "half" in each["content"]) for each in said] == [
        ("user", False),
        ("assistant", False),
    ]


async def test_st_6_what_was_said_before_an_error_in_band_is_superseded_and_not_kept(
    postgres_server: PostgresEndpoint, scripted_model: ScriptedModel
) -> None:
    await scripted_model.answers(
        Step(text="half an answer", error=OVERLOADED, in_band_error=True), Step(text="a whole one")
    )
    asked = request()
    async with asking(postgres_server, scripted_model.base_url) as rig:
        await rig.run(asked)
        report = await rig.run(asked)

        again = [event.news for event in rig.told.events if isinstance(event.news, RunStarted)]
        superseded, stands = texts(rig)
    assert [(start.attempt, start.resumes_at) for start in again] == [(1, 1), (2, 1)]
    assert (report.state, report.output, stands) == (RunState.SUCCEEDED, "a whole one", "a whole one")
    assert superseded
    assert "half an answer".startswith(superseded)


async def test_st_7_stop_in_place_of_tool_calls_still_dispatches_the_tools(
    postgres_server: PostgresEndpoint, scripted_model: ScriptedModel
) -> None:
    call = ScriptedToolCall(name="weather", arguments=WHOLE)
    await scripted_model.answers(
        Step(text="I look", tool_calls=(call,), finish_reason="stop"), Step(text="done")
    )
    weather = Weather()
    async with asking(postgres_server, scripted_model.base_url, weather.tool()) as rig:
        report = await rig.run(request())

    assert (report.state, report.output, weather.asked) == (RunState.SUCCEEDED, "done", ["San Francisco"])


@pytest.mark.parametrize("finish_reason", ["tool_calls", "stop", "length"])
async def test_tj_2_call_that_was_cut_before_the_finish_reason_is_neither_made_nor_kept(
    postgres_server: PostgresEndpoint, scripted_model: ScriptedModel, finish_reason: str
) -> None:
    cut = ScriptedToolCall(name="weather", arguments=CUT)
    whole = ScriptedToolCall(name="weather", arguments=WHOLE)
    await scripted_model.answers(
        Step(tool_calls=(cut,), finish_reason=finish_reason), Step(tool_calls=(whole,)), Step(text="done")
    )
    weather, asked = Weather(), request()
    async with asking(postgres_server, scripted_model.base_url, weather.tool()) as rig:
        report = await rig.run(asked)

        kept = [
            json.dumps(step.output)
            for step in (await rig.journal(asked.run_id)).steps
            if step.kind == "model"
        ]
    assert (report.state, weather.asked) == (RunState.SUCCEEDED, ["San Francisco"])
    assert ["San Fra" in output.replace("San Francisco", "") for output in kept] == [False, False]


@pytest.mark.parametrize("cut_after", [1, 2, 3])
async def test_tj_2_call_whose_connection_broke_is_neither_made_nor_kept(
    postgres_server: PostgresEndpoint, scripted_model: ScriptedModel, cut_after: int
) -> None:
    call = ScriptedToolCall(name="weather", arguments=WHOLE)
    await scripted_model.answers(
        Step(tool_calls=(call,), chunks=4, cut_after=cut_after), Step(tool_calls=(call,)), Step(text="done")
    )
    weather, asked = Weather(), request()
    async with asking(postgres_server, scripted_model.base_url, weather.tool()) as rig:
        await rig.run(asked)
        after_the_cut = (weather.asked.copy(), await steps(rig, asked.run_id))
        report = await rig.run(asked)

    assert after_the_cut == ([], [("model", "failed")])
    assert (report.state, weather.asked) == (RunState.SUCCEEDED, ["San Francisco"])


STOP = {"finish_reason": "stop"}


def chunk(delta: Mapping[str, object], **choice: object) -> bytes:
    """One event of a stream, as a provider writes it."""
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "scripted",
        "choices": [{"index": 0, "delta": delta, "finish_reason": None, **choice}],
    }
    return b"data: %b\n\n" % json.dumps(body).encode()


def part(arguments: str, **head: object) -> dict[str, object]:
    """A part of one tool call."""
    return {"tool_calls": [{"index": 0, **head, "function": {"name": None, "arguments": arguments}}]}


def opened(name: str) -> dict[str, object]:
    """The beginning of one tool call."""
    function = {"name": name, "arguments": ""}
    return {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]}


@asynccontextmanager
async def provider(*answers: bytes) -> AsyncIterator[str]:
    """A server that answers each request with the next bytes and closes in good order; its base URL."""
    left = list(answers)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        await reader.readexactly(int(head.partition(b"content-length:")[2].split(b"\r\n")[0]))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        writer.write(left.pop(0))
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1")
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


async def test_st_8_stop_on_every_chunk_is_read_to_the_end(postgres_server: PostgresEndpoint) -> None:
    thoughts = [chunk({"reasoning_content": word}, **STOP) for word in ("hm, ", "so")]
    words = [chunk({"content": word}, **STOP) for word in ("one ", "two ", "three")]
    answer = b"".join([*thoughts, *words, b"data: [DONE]\n\n"])
    async with provider(answer) as url, asking(postgres_server, url) as rig:
        report = await rig.run(request())

        assert texts(rig) == ["one two three"]
    assert (report.state, report.output) == (RunState.SUCCEEDED, "one two three")


async def test_st_8_call_that_comes_after_a_stop_is_made_with_all_its_arguments(
    postgres_server: PostgresEndpoint,
) -> None:
    deltas: list[dict[str, object]] = [
        {"reasoning_content": "hm"},
        {"content": "I look"},
        opened("weather"),
        part(CUT),
        part('ncisco"}'),
    ]
    asks = b"".join([*(chunk(delta, **STOP) for delta in deltas), b"data: [DONE]\n\n"])
    says = chunk({"content": "done"}, **STOP) + b"data: [DONE]\n\n"
    weather = Weather()
    async with provider(asks, says) as url, asking(postgres_server, url, weather.tool()) as rig:
        report = await rig.run(request())

    assert (report.state, report.output, weather.asked) == (RunState.SUCCEEDED, "done", ["San Francisco"])


ENDED_EARLY: dict[str, list[dict[str, object]]] = {
    "in the text": [{"content": "half an ans"}],
    "after the call's name": [opened("weather")],
    "in the arguments": [opened("weather"), part(CUT)],
    "before the finish reason": [opened("weather"), part(WHOLE)],
}


@pytest.mark.parametrize("deltas", ENDED_EARLY.values(), ids=ENDED_EARLY)
async def test_tj_2_turn_whose_stream_ended_early_but_in_good_order_is_neither_used_nor_kept(
    postgres_server: PostgresEndpoint, deltas: list[dict[str, object]]
) -> None:
    early = b"".join(chunk(delta) for delta in deltas)
    says = chunk({"content": "done"}, **STOP) + b"data: [DONE]\n\n"
    weather, asked = Weather(), request()
    async with provider(early, says) as url, asking(postgres_server, url, weather.tool()) as rig:
        await rig.run(asked)
        after_the_cut = await steps(rig, asked.run_id)
        report = await rig.run(asked)

    assert (after_the_cut, weather.asked) == ([("model", "failed")], [])
    assert (report.state, report.output) == (RunState.SUCCEEDED, "done")
