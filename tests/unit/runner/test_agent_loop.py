"""The agent loop, with a model that says what the test wrote down."""

import asyncio
from itertools import pairwise

import pytest

from headrace.contracts.runs import TokenCount, ToolCalled, ToolReturned
from headrace.runner.errors import LimitReached, ModelFailed
from headrace.runner.limits import RunLimits
from headrace.runner.model import ModelRequest
from headrace.tools import Tool, ToolContext, ToolError, tool
from tests.support.runner_rig import LIMITS, ScriptedTurns, calls, says
from tests.unit.runner.one_run import AGENT, QUESTION, OneRun


class Echo:
    """Says its arguments' text again."""

    def __init__(self) -> None:
        self.got: list[tuple[str, str]] = []

    def tool(self) -> Tool:
        @tool(effect="none")
        async def echo(context: ToolContext, text: str = "nothing") -> str:
            """Say it again."""
            self.got.append((text, context.account_id))
            return text

        return echo


class Lookup:
    """Comes to an end only when as many calls are in hand as there should be, and then in the reverse order."""

    def __init__(self, *, together: int) -> None:
        self._together = together
        self._waiting: list[asyncio.Event] = []
        self.ended: list[str] = []

    def tool(self, *, timeout: float = 30) -> Tool:
        @tool(effect="none", timeout=timeout)
        async def lookup(key: str) -> str:
            """Look up."""
            mine = asyncio.Event()
            self._waiting.append(mine)
            if len(self._waiting) == self._together:
                self._waiting.pop().set()
            await mine.wait()
            self.ended.append(key)
            if self._waiting:
                self._waiting.pop().set()
            return f"found {key}"

        return lookup


async def test_answer_without_tools_ends_the_run() -> None:
    run = OneRun(ScriptedTurns(says("hi")))

    assert await run.answer() == "hi"
    assert run.conversation.current == [QUESTION, {"role": "assistant", "content": "hi"}]


async def test_model_is_asked_with_the_instruction_first() -> None:
    run = OneRun(ScriptedTurns(says("hi")))

    await run.answer()

    assert run.model.requests == [
        ModelRequest("openai/m", ({"role": "system", "content": "Be brief."}, QUESTION), ())
    ]


async def test_text_is_told_as_it_comes() -> None:
    run = OneRun(ScriptedTurns(says("hi")))

    await run.answer()

    assert run.told.texts == ["hi"]


async def test_tools_are_declared_by_name_and_only_those_that_exist() -> None:
    run = OneRun(ScriptedTurns(says("hi")), Lookup(together=1).tool(), Echo().tool())

    await run.answer()

    assert [each["function"]["name"] for each in run.model.requests[0].tools] == ["echo", "lookup"]


async def test_tool_that_the_agent_does_not_have_is_not_there() -> None:
    run = OneRun(ScriptedTurns(calls(("echo", "{}")), says("ok")), Echo().tool())

    await run.answer(AGENT.model_copy(update={"tools": ()}))

    assert run.results == ["error: there is no tool 'echo'; there are: none"]


async def test_tool_gets_its_arguments_and_the_account() -> None:
    echo = Echo()

    await OneRun(ScriptedTurns(calls(("echo", '{"text": "a"}')), says("ok")), echo.tool()).answer()

    assert echo.got == [("a", "acc_1")]


async def test_call_of_a_tool_without_parameters_may_have_no_arguments() -> None:
    @tool(effect="none")
    async def echo() -> str:
        """Say hello."""
        return "hello"

    run = OneRun(ScriptedTurns(calls(("echo", "")), says("ok")), echo)

    await run.answer()

    assert run.results == ["hello"]


async def test_tj_1_empty_arguments_of_a_tool_with_parameters_are_never_taken_for_none() -> None:
    echo = Echo()
    run = OneRun(ScriptedTurns(calls(("echo", " ")), says("ok")), echo.tool())

    assert await run.answer() == "ok"
    assert (run.results, echo.got) == (["error: the arguments were empty; nothing was done"], [])


async def test_tools_of_a_turn_run_together_and_their_results_keep_their_order() -> None:
    lookup = Lookup(together=3)
    asked = calls(*(("lookup", f'{{"key": "{key}"}}') for key in ("a", "b", "c")))
    run = OneRun(ScriptedTurns(asked, says("ok")), lookup.tool())

    await run.answer()

    assert lookup.ended == ["c", "b", "a"]
    assert run.results == ["found a", "found b", "found c"]


async def test_results_name_the_calls_they_answer() -> None:
    run = OneRun(ScriptedTurns(calls(("echo", "{}"), ("echo", "{}")), says("ok")), Echo().tool())

    await run.answer()

    asked, *answered = run.conversation.current[1:4]
    assert [call["id"] for call in asked["tool_calls"]] == [each["tool_call_id"] for each in answered]


async def test_calls_and_results_are_told() -> None:
    run = OneRun(ScriptedTurns(calls(("echo", '{"text": "a"}')), says("ok")), Echo().tool())

    await run.answer()

    assert run.told.news == [
        ToolCalled(call_id="call_0", name="echo", arguments='{"text": "a"}', step=2),
        ToolReturned(call_id="call_0", name="echo", result="a", step=2),
    ]


async def test_tj_7_unknown_tool_is_answered_with_those_there_are() -> None:
    tools = Echo().tool(), Lookup(together=1).tool()
    run = OneRun(ScriptedTurns(calls(("ecko", "{}")), says("ok")), *tools)

    assert await run.answer() == "ok"
    assert run.results == ["error: there is no tool 'ecko'; there are: echo, lookup"]


@pytest.mark.parametrize(
    "arguments",
    ['{"text": ', "text", "[1]", "null", '"a"', "{'text': 1}", "1" * 5_000, "[" * 100_000],
    ids=["cut", "word", "list", "null", "string", "python", "huge number", "deep"],
)
async def test_tj_4_arguments_that_cannot_be_read_are_never_dispatched_and_asked_for_again(
    arguments: str,
) -> None:
    echo = Echo()
    flawed = calls(("echo", arguments), ("echo", '{"text": "whole"}'))
    run = OneRun(ScriptedTurns(flawed, calls(("echo", '{"text": "a"}')), says("ok")), echo.tool())

    assert await run.answer() == "ok"
    assert echo.got == [("a", "acc_1")]
    note = run.model.requests[1].messages[-1]["content"]
    assert note.startswith("[your call of `echo` was not made: the arguments are not ")
    assert note.endswith(". Nothing was done. Please answer again.]")


async def test_word_on_why_it_is_asked_again_is_not_kept() -> None:
    run = OneRun(ScriptedTurns(calls(("echo", "{")), calls(("echo", "{}")), says("ok")), Echo().tool())

    await run.answer()

    first, again, after = (request.messages for request in run.model.requests)
    assert (again[:-1], after[:-2]) == (first, first)
    assert [message["role"] for message in after] == ["system", "user", "assistant", "tool"]


async def test_tj_8_second_turn_that_cannot_be_read_is_a_failure_with_the_first_cause() -> None:
    echo = Echo()
    run = OneRun(ScriptedTurns(calls(("echo", "{")), calls(("echo", "[1]"))), echo.tool())

    with pytest.raises(
        ModelFailed, match=r"first: your call of `echo` was not made: the arguments are not JSON"
    ):
        await run.answer()

    assert (echo.got, len(run.model.requests)) == ([], 2)


async def test_arguments_that_do_not_fit_are_an_error_for_the_model() -> None:
    echo = Echo()
    run = OneRun(ScriptedTurns(calls(("echo", '{"word": "a"}')), says("ok")), echo.tool())

    assert await run.answer() == "ok"
    assert echo.got == []
    assert run.results[0].startswith("error: ")
    assert run.results[0].endswith("; nothing was done")


async def test_tool_that_cannot_is_an_error_for_the_model() -> None:
    @tool(effect="none")
    async def echo() -> str:
        """Say it again."""
        raise ToolError("the shelf is empty")

    run = OneRun(ScriptedTurns(calls(("echo", "{}")), says("ok")), echo)

    assert await run.answer() == "ok"
    assert run.told.news[-1] == ToolReturned(
        call_id="call_0", name="echo", result="error: the shelf is empty", is_error=True, step=2
    )


async def test_slow_tool_is_an_error_for_the_model() -> None:
    stuck = Lookup(together=2).tool(timeout=0.01)
    run = OneRun(ScriptedTurns(calls(("lookup", '{"key": "a"}')), says("ok")), stuck)

    assert await run.answer() == "ok"
    assert run.results == ["error: the tool `lookup`: it did not end within 0.01 seconds"]


async def test_empty_turn_is_asked_again() -> None:
    run = OneRun(ScriptedTurns(says(" \n"), says("hi")))

    assert await run.answer() == "hi"


async def test_empty_turn_leaves_no_trace_in_what_is_asked_again() -> None:
    run = OneRun(ScriptedTurns(says(""), says("hi")))

    await run.answer()

    assert run.model.requests[0] == run.model.requests[1]


async def test_second_empty_turn_is_a_failure() -> None:
    run = OneRun(ScriptedTurns(says(""), says("")))

    with pytest.raises(ModelFailed, match="first: the answer was empty"):
        await run.answer()

    assert len(run.model.requests) == 2


async def test_every_call_is_accounted_also_an_empty_one() -> None:
    model = ScriptedTurns(says("", tokens=10), calls(("echo", "{}")), says("hi", tokens=5))
    run = OneRun(model, Echo().tool())

    await run.answer()

    assert [row.tokens for row in run.booked] == [
        TokenCount(input_tokens=10, output_tokens=1),
        TokenCount(input_tokens=1, output_tokens=1),
        TokenCount(input_tokens=5, output_tokens=1),
    ]
    assert len({(row.path, row.seq) for row in run.booked}) == 3
    assert run.conversation.tokens == TokenCount(input_tokens=16, output_tokens=3)


async def test_each_call_reads_what_the_last_one_read_and_more() -> None:
    run = OneRun(ScriptedTurns(*[calls(("echo", "{}"), ("echo", "{}"))] * 3, says("ok")), Echo().tool())

    await run.answer()

    read = [request.messages for request in run.model.requests]
    assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(read))
    assert [len(messages) for messages in read] == [2, 5, 8, 11]


async def test_each_call_declares_the_same_tools() -> None:
    run = OneRun(ScriptedTurns(calls(("echo", "{}")), says("ok")), Lookup(together=1).tool(), Echo().tool())

    await run.answer()

    assert run.model.requests[0].tools == run.model.requests[1].tools


@pytest.mark.parametrize(
    ("limits", "made", "sentence"),
    [
        (LIMITS, 25, "made 25 model calls, and may make 25"),
        (RunLimits(model_calls=25, tokens=7, seconds=900), 4, "used 8 tokens, and may use 7"),
        (RunLimits(model_calls=25, tokens=100, seconds=0), 0, "took 0 s, and may take 0 s"),
    ],
    ids=["calls", "tokens", "seconds"],
)
async def test_run_that_never_answers_stops_at_its_ceiling_and_so_does_the_next_taking_at_once(
    limits: RunLimits, made: int, sentence: str
) -> None:
    run = OneRun(ScriptedTurns(*[calls(("echo", "{}"))] * 30), Echo().tool(), limits=limits)
    with pytest.raises(LimitReached, match=sentence):
        await run.answer()
    asked = len(run.model.requests)

    with pytest.raises(LimitReached, match=sentence):
        await run.again().answer()

    assert (asked, len(run.model.requests)) == (made, made)
