"""A run in the words of chat completions: what is sent cannot be taken back."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from headrace.contracts.runs import (
    EVENTS_PER_ATTEMPT,
    RunEvent,
    RunFinished,
    RunNews,
    RunStarted,
    RunWaiting,
    TextDelta,
    TokenCount,
    ToolCalled,
    ToolReturned,
)
from headrace.gateway.chat_stream import ChatStream
from headrace.gateway.errors import RunFailed
from headrace.gateway.events import Gap, Silence

START = RunStarted(attempt=1, agent_revision=1)
AGAIN = RunStarted(attempt=2, agent_revision=1)
CALL = ToolCalled(call_id="call_1", name="calculate", arguments="{}")
RESULT = ToolReturned(call_id="call_1", name="calculate", result="42")
TOKENS = TokenCount(input_tokens=3, cached_input_tokens=4, output_tokens=5)
USAGE = {
    "prompt_tokens": 7,
    "completion_tokens": 5,
    "total_tokens": 12,
    "prompt_tokens_details": {"cached_tokens": 4},
}


def text(*pieces: str) -> list[RunNews]:
    return [TextDelta(text=piece) for piece in pieces]


def done(output: str) -> RunFinished:
    return RunFinished(state="succeeded", output=output, usage=TOKENS)


def stream(*told: RunNews | Gap | Silence) -> ChatStream:
    async def following() -> AsyncIterator[RunEvent | Gap | Silence]:
        for place, each in enumerate(told):
            if isinstance(each, Gap | Silence):
                yield each
            else:
                yield RunEvent(
                    run_id="run_1",
                    account_id="acc_1",
                    seq=EVENTS_PER_ATTEMPT + place,
                    at=datetime(2030, 1, 1, tzinfo=UTC),
                    news=each,
                )

    return ChatStream(following(), "run_1", "assistant", 1_893_456_000)


async def frames(*told: RunNews | Gap | Silence, include_usage: bool = False) -> list[str]:
    return [each async for each in stream(*told).frames(include_usage=include_usage)]


async def chunks(*told: RunNews | Gap | Silence, include_usage: bool = False) -> list[dict[str, Any]]:
    """What a client reads before `[DONE]`."""
    *said, last = await frames(*told, include_usage=include_usage)
    assert last == "data: [DONE]\n\n"
    return [json.loads(each.removeprefix("data: ")) for each in said]


def deltas(read: list[dict[str, Any]]) -> list[str]:
    return [choice["delta"].get("content", "") for each in read for choice in each.get("choices", ())]


def error_of(read: list[dict[str, Any]]) -> str | None:
    """The error that the last chunk is, if it is one."""
    code: str | None = read[-1].get("error", {}).get("code")
    return code


async def test_pieces_are_sent_as_they_come() -> None:
    read = await chunks(START, *text("one ", "two"), done("one two"))

    assert deltas(read) == ["", "one ", "two", ""]


async def test_chunk_is_whole() -> None:
    read = await chunks(START, *text("one"), done("one"))

    assert read[1] == {
        "id": "chatcmpl-run_1",
        "object": "chat.completion.chunk",
        "created": 1_893_456_000,
        "model": "assistant",
        "choices": [{"index": 0, "delta": {"content": "one"}, "finish_reason": None, "logprobs": None}],
    }


async def test_first_chunk_says_who_speaks() -> None:
    read = await chunks(START, *text("one"), done("one"))

    assert read[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}


async def test_every_choice_has_an_index() -> None:
    read = await chunks(START, *text("one"), done("one two"), include_usage=True)

    assert {choice["index"] for each in read for choice in each["choices"]} == {0}


async def test_finish_reason_is_on_the_last_choice_only() -> None:
    read = await chunks(START, *text("one"), done("one two"))

    assert [each["choices"][0]["finish_reason"] for each in read] == [None, None, None, "stop"]


async def test_usage_comes_last_when_it_was_asked_for() -> None:
    read = await chunks(START, *text("one"), done("one"), include_usage=True)

    assert (read[-1]["choices"], read[-1]["usage"]) == ([], USAGE)


async def test_usage_is_not_sent_unasked() -> None:
    assert not [each for each in await chunks(START, *text("one"), done("one")) if "usage" in each]


async def test_text_that_was_told_only_at_the_end_is_sent() -> None:
    assert "".join(deltas(await chunks(START, *text("one "), done("one two")))) == "one two"


async def test_silence_is_a_ping() -> None:
    assert (await frames(START, Silence(), done("one")))[1] == ": ping\n\n"


async def test_later_attempt_sends_only_the_continuation() -> None:
    read = await chunks(START, *text("one "), AGAIN, *text("one ", "two ", "three"), done("one two three"))

    assert deltas(read) == ["", "one ", "two three", ""]


async def test_later_attempt_streams_where_nothing_was_sent() -> None:
    read = await chunks(START, AGAIN, *text("one ", "two"), done("one two"))

    assert deltas(read) == ["", "one ", "two", ""]


async def test_answer_that_differs_from_what_was_sent_is_superseded() -> None:
    read = await chunks(START, *text("one"), AGAIN, *text("uno"), done("uno"))

    assert (deltas(read), error_of(read)) == (["", "one"], "superseded")
    assert "/v1/runs/run_1" in read[-1]["error"]["message"]


async def test_text_after_a_gap_waits_for_the_whole_answer() -> None:
    read = await chunks(START, *text("one "), Gap(1, 3), *text("three"), done("one two three"))

    assert deltas(read) == ["", "one ", "two three", ""]


async def test_text_before_a_tool_is_no_part_of_the_answer() -> None:
    read = await chunks(START, *text("let me see "), CALL, RESULT, *text("it is ", "42"), done("it is 42"))

    assert (deltas(read), error_of(read)) == (["", "let me see ", "it is ", "42", ""], None)


async def test_later_attempt_does_not_repeat_the_text_before_a_tool() -> None:
    read = await chunks(
        START, *text("let me see "), CALL, AGAIN, *text("let me see "), CALL, RESULT, *text("42"), done("42")
    )

    assert (deltas(read), error_of(read)) == (["", "let me see ", "42", ""], None)


async def test_failed_run_is_an_error_and_the_stream_still_ends() -> None:
    read = await chunks(
        START, *text("one"), RunFinished(state="failed", error_code="model_failed", error="no answer")
    )

    assert read[-1] == {
        "error": {
            "message": "no answer",
            "type": "model_failed",
            "code": "model_failed",
            "param": None,
        }
    }


async def test_cancelled_run_without_a_reason_says_so() -> None:
    read = await chunks(START, RunFinished(state="cancelled"))

    assert (error_of(read), read[-1]["error"]["message"]) == ("cancelled", "the run was cancelled")


async def test_text_of_several_lines_is_one_frame() -> None:
    sent = await frames(START, *text("one\ntwo\n\n"), done("one\ntwo\n\n"))

    assert [each.count("\n") for each in sent] == [2] * len(sent)


async def test_whole_answer_is_one_completion() -> None:
    chat = stream(START, *text("one"), done("one two"))

    assert chat.completion(await chat.end()) == {
        "id": "chatcmpl-run_1",
        "object": "chat.completion",
        "created": 1_893_456_000,
        "model": "assistant",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "one two", "refusal": None},
                "finish_reason": "stop",
                "logprobs": None,
            }
        ],
        "usage": USAGE,
    }


@pytest.mark.parametrize(
    ("end", "status", "code"),
    [
        (RunFinished(state="refused", error_code="rate_limited", error="too often"), 429, "rate_limited"),
        (RunFinished(state="cancelled"), 409, "cancelled"),
        (RunFinished(state="failed", error_code="model_failed", error="no"), 502, "model_failed"),
    ],
)
async def test_end_without_an_answer_is_an_error_with_its_status(
    end: RunFinished, status: int, code: str
) -> None:
    with pytest.raises(RunFailed) as failed:
        await stream(START, end).end()

    assert (failed.value.status, failed.value.code) == (status, code)
    assert failed.value.headers == {"X-Headrace-Run-Id": "run_1"}


def resumed(at: int) -> RunStarted:
    return RunStarted(attempt=2, agent_revision=1, resumes_at=at)


def said(step: int, *pieces: str) -> list[RunNews]:
    return [TextDelta(text=piece, step=step) for piece in pieces]


def called(step: int) -> ToolCalled:
    return ToolCalled(call_id=f"call_{step}", name="send_email", arguments="{}", step=step)


PARKED = RunWaiting(state="waiting_approval", tools=("send_email", "pay", "pay"))
FAILED = RunFinished(state="failed", error_code="model_failed", error="no answer")


async def test_text_of_finished_steps_stands_and_the_next_is_streamed() -> None:
    read = await chunks(
        START, *said(1, "let me see "), called(2), resumed(3), *said(3, "it is ", "42"), done("it is 42")
    )

    assert (deltas(read), error_of(read)) == (["", "let me see ", "it is ", "42", ""], None)


async def test_finished_answer_is_not_sent_again() -> None:
    read = await chunks(START, *said(1, "one two"), resumed(2), done("one two"))

    assert deltas(read) == ["", "one two", ""]


async def test_text_of_a_step_whose_call_was_not_told_is_no_part_of_the_answer() -> None:
    read = await chunks(START, *said(1, "let me see "), resumed(2), *said(3, "42"), done("42"))

    assert (deltas(read), error_of(read)) == (["", "let me see ", "42", ""], None)


async def test_text_of_an_unfinished_step_is_superseded_and_what_follows_waits() -> None:
    read = await chunks(
        START,
        *said(1, "see "),
        called(2),
        *said(3, "one "),
        resumed(3),
        *said(3, "one ", "two"),
        done("one two"),
    )

    assert deltas(read) == ["", "see ", "one ", "two", ""]


async def test_superseded_text_stays_superseded_when_the_run_is_resumed_once_more() -> None:
    read = await chunks(START, *said(1, "uno"), AGAIN, *said(1, "one"), resumed(2), done("one"))

    assert (deltas(read), error_of(read)) == (["", "uno"], "superseded")


async def test_failure_that_was_resumed_is_not_the_end() -> None:
    events = (
        START,
        *said(1, "see "),
        called(2),
        FAILED,
        resumed(3),
        *said(3, "42"),
        done("42"),
    )

    assert deltas(await chunks(*events)) == ["", "see ", "42", ""]
    assert (await stream(*events).end()).output == "42"


async def test_wait_that_is_over_is_not_the_end() -> None:
    events = (START, *said(1, "may I? "), PARKED, resumed(2), called(2), *said(3, "sent"), done("sent"))

    assert deltas(await chunks(*events)) == ["", "may I? ", "sent", ""]
    assert (await stream(*events).end()).output == "sent"


@pytest.mark.parametrize(
    ("wait", "asked", "verb"),
    [
        (PARKED, "approves a call of send_email, pay", "approve"),
        (RunWaiting(state="waiting_review", tools=()), "says what became of a call of a tool", "resolve"),
    ],
)
async def test_run_that_waits_for_a_person_is_an_error_with_its_address(
    wait: RunWaiting, asked: str, verb: str
) -> None:
    sentence = (
        f"the run waits until a person {asked}: see /v1/runs/run_1/waiting, "
        f"decide with POST /v1/runs/run_1/{verb}, follow /v1/runs/run_1/events"
    )
    read = await chunks(START, *said(1, "may I? "), wait)
    with pytest.raises(RunFailed) as failed:
        await stream(START, wait).end()

    assert (error_of(read), read[-1]["error"]["message"]) == (wait.state, sentence)
    assert (failed.value.status, failed.value.code, failed.value.message) == (409, wait.state, sentence)


async def test_events_that_stop_before_the_end_are_an_error() -> None:
    with pytest.raises(RunFailed, match="ended before the run"):
        await stream(START, *text("one")).end()
