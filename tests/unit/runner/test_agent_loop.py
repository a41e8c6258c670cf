"""The agent loop, with a model that says what the test wrote down."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any, ClassVar

import pytest

from headrace.contracts.agents import AgentRevision
from headrace.contracts.runs import RunNews, TokenCount, ToolCalled, ToolReturned
from headrace.runner.agent_loop import AgentLoop, Conversation
from headrace.runner.errors import LimitReached, ModelFailed
from headrace.runner.limits import RunLimits
from headrace.runner.model import ModelRequest, ModelTurn, ToolCall
from headrace.runner.teller import Teller
from headrace.runner.tools.base import Tool, ToolError

AGENT = AgentRevision(
    agent_id="agent_1",
    account_id="acc_1",
    revision=1,
    name="assistant",
    instruction="Be brief.",
    model="openai/m",
    tools=("lookup", "echo", "not_there"),
)
QUESTION = {"role": "user", "content": "hello"}
TOKENS = TokenCount(input_tokens=10, output_tokens=1)


def says(text: str) -> ModelTurn:
    return ModelTurn(text, (), TOKENS, "openai/m")


def calls(*wanted: tuple[str, str]) -> ModelTurn:
    asked = tuple(ToolCall(f"call_{n}", name, arguments) for n, (name, arguments) in enumerate(wanted))
    return ModelTurn("", asked, TOKENS, "openai/m")


class Scripted:
    """Says its turns one after the other, the last one for ever, and keeps what it was asked."""

    def __init__(self, *turns: ModelTurn) -> None:
        self._turns = list(turns)
        self.asked: list[ModelRequest] = []

    async def call(self, request: ModelRequest, *, on_text: Callable[[str], Awaitable[None]]) -> ModelTurn:
        self.asked.append(request)
        turn = self._turns.pop(0) if self._turns[1:] else self._turns[0]
        if turn.text:
            await on_text(turn.text)
        return turn


class Told(Teller):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.news: list[RunNews] = []

    async def text(self, piece: str) -> None:
        self.texts.append(piece)

    async def tell(self, news: RunNews) -> None:
        self.news.append(news)


class Echo:
    """Says its arguments' text again."""

    name: ClassVar[str] = "echo"
    description: ClassVar[str] = "Says it again."
    parameters: ClassVar[dict[str, Any]] = {"type": "object"}

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, Any], str]] = []

    async def call(self, arguments: dict[str, Any], *, account_id: str) -> str:
        self.got.append((arguments, account_id))
        return str(arguments.get("text"))


class Lookup:
    """Comes to an end only when as many calls are in hand as there should be, and then in the reverse order."""

    name: ClassVar[str] = "lookup"
    description: ClassVar[str] = "Looks up."
    parameters: ClassVar[dict[str, Any]] = {"type": "object"}

    def __init__(self, *, together: int) -> None:
        self._together = together
        self._waiting: list[asyncio.Event] = []
        self.ended: list[str] = []

    async def call(self, arguments: dict[str, Any], *, account_id: str) -> str:  # noqa: ARG002  (a tool's shape)
        mine = asyncio.Event()
        self._waiting.append(mine)
        if len(self._waiting) == self._together:
            self._waiting.pop().set()
        await mine.wait()
        self.ended.append(arguments["key"])
        if self._waiting:
            self._waiting.pop().set()
        return f"found {arguments['key']}"


class Broken(Echo):
    """Cannot do it."""

    async def call(self, arguments: dict[str, Any], *, account_id: str) -> str:  # noqa: ARG002  (a tool's shape)
        raise ToolError("the shelf is empty")


class Run:
    """One run of the agent."""

    def __init__(self, model: Scripted, *tools: Tool, model_calls: int = 25, tool_timeout: float = 5) -> None:
        self.model, self.told = model, Told()
        self.conversation = Conversation("Be brief.", [], [QUESTION])
        self.accounted: list[ModelTurn] = []
        limits = RunLimits(model_calls=model_calls, seconds=60)
        self._loop = AgentLoop(model, {tool.name: tool for tool in tools}, limits, tool_timeout=tool_timeout)

    async def answer(self, agent: AgentRevision = AGENT) -> str:
        async def account(turn: ModelTurn, _: float) -> None:
            self.accounted.append(turn)

        return await self._loop.run(agent, self.conversation, self.told, account=account)

    @property
    def results(self) -> list[str]:
        """What the model read of its tools, in the order in which it reads them."""
        return [each["content"] for each in self.conversation.current if each["role"] == "tool"]


async def test_answer_without_tools_ends_the_run() -> None:
    run = Run(Scripted(says("hi")))

    assert await run.answer() == "hi"
    assert run.conversation.current == [QUESTION, {"role": "assistant", "content": "hi"}]


async def test_model_is_asked_with_the_instruction_first() -> None:
    run = Run(Scripted(says("hi")))

    await run.answer()

    assert run.model.asked == [
        ModelRequest("openai/m", ({"role": "system", "content": "Be brief."}, QUESTION), ())
    ]


async def test_text_is_told_as_it_comes() -> None:
    run = Run(Scripted(says("hi")))

    await run.answer()

    assert run.told.texts == ["hi"]


async def test_tools_are_declared_by_name_and_only_those_that_exist() -> None:
    run = Run(Scripted(says("hi")), Lookup(together=1), Echo())

    await run.answer()

    assert [each["function"]["name"] for each in run.model.asked[0].tools] == ["echo", "lookup"]


async def test_tool_that_the_agent_does_not_have_is_not_there() -> None:
    run = Run(Scripted(calls(("echo", "{}")), says("ok")), Echo())

    await run.answer(AGENT.model_copy(update={"tools": ()}))

    assert run.results == ["error: there is no tool 'echo'; there are: none"]


async def test_tool_gets_its_arguments_and_the_account() -> None:
    echo = Echo()

    await Run(Scripted(calls(("echo", '{"text": "a"}')), says("ok")), echo).answer()

    assert echo.got == [({"text": "a"}, "acc_1")]


async def test_call_without_arguments_is_a_call_with_none() -> None:
    echo = Echo()

    await Run(Scripted(calls(("echo", "")), says("ok")), echo).answer()

    assert echo.got == [({}, "acc_1")]


async def test_tools_of_a_turn_run_together_and_their_results_keep_their_order() -> None:
    lookup = Lookup(together=3)
    keys = ("a", "b", "c")
    run = Run(Scripted(calls(*(("lookup", f'{{"key": "{key}"}}') for key in keys)), says("ok")), lookup)

    await run.answer()

    assert lookup.ended == ["c", "b", "a"]
    assert run.results == ["found a", "found b", "found c"]


async def test_results_name_the_calls_they_answer() -> None:
    run = Run(Scripted(calls(("echo", "{}"), ("echo", "{}")), says("ok")), Echo())

    await run.answer()

    asked, *answered = run.conversation.current[1:4]
    assert [call["id"] for call in asked["tool_calls"]] == [each["tool_call_id"] for each in answered]


async def test_calls_and_results_are_told() -> None:
    run = Run(Scripted(calls(("echo", '{"text": "a"}')), says("ok")), Echo())

    await run.answer()

    assert run.told.news == [
        ToolCalled(call_id="call_0", name="echo", arguments='{"text": "a"}'),
        ToolReturned(call_id="call_0", name="echo", result="a"),
    ]


async def test_unknown_tool_is_answered_with_those_there_are() -> None:
    run = Run(Scripted(calls(("ecko", "{}")), says("ok")), Echo(), Lookup(together=1))

    await run.answer()

    assert run.results == ["error: there is no tool 'ecko'; there are: echo, lookup"]


@pytest.mark.parametrize(
    "arguments",
    ['{"text": ', "text", "[1]", "null", '"a"', "{'text': 1}", "1" * 5_000, "[" * 100_000],
    ids=["cut", "word", "list", "null", "string", "python", "huge number", "deep"],
)
async def test_arguments_that_cannot_be_read_are_never_dispatched(arguments: str) -> None:
    echo = Echo()
    run = Run(Scripted(calls(("echo", arguments)), says("ok")), echo)

    await run.answer()

    assert echo.got == []
    assert run.results[0].startswith("error: the arguments")
    assert run.results[0].endswith("nothing was done")


async def test_tool_that_cannot_is_an_error_for_the_model() -> None:
    run = Run(Scripted(calls(("echo", "{}")), says("ok")), Broken())

    assert await run.answer() == "ok"
    assert run.told.news[-1] == ToolReturned(
        call_id="call_0", name="echo", result="error: the shelf is empty", is_error=True
    )


async def test_slow_tool_is_an_error_for_the_model() -> None:
    stuck = Lookup(together=2)
    run = Run(Scripted(calls(("lookup", '{"key": "a"}')), says("ok")), stuck, tool_timeout=0.01)

    assert await run.answer() == "ok"
    assert run.results == ["error: lookup took longer than 0 s"]


async def test_empty_turn_is_asked_again() -> None:
    run = Run(Scripted(says(" \n"), says("hi")))

    assert await run.answer() == "hi"


async def test_empty_turn_leaves_no_trace_in_what_is_asked_again() -> None:
    run = Run(Scripted(says(""), says("hi")))

    await run.answer()

    assert run.model.asked[0] == run.model.asked[1]


async def test_second_empty_turn_is_a_failure() -> None:
    run = Run(Scripted(says("")))

    with pytest.raises(ModelFailed, match="answered with nothing, twice"):
        await run.answer()

    assert len(run.model.asked) == 2


async def test_run_that_never_answers_stops_at_its_ceiling() -> None:
    run = Run(Scripted(calls(("echo", "{}"))), Echo(), model_calls=25)

    with pytest.raises(LimitReached, match="made 25 model calls"):
        await run.answer()

    assert len(run.model.asked) == 25


async def test_every_call_is_accounted_also_an_empty_one() -> None:
    turns = [says(""), calls(("echo", "{}")), says("hi")]
    run = Run(Scripted(*turns), Echo())

    await run.answer()

    assert run.accounted == turns
    assert run.conversation.tokens == TokenCount(input_tokens=30, output_tokens=3)


async def test_each_call_reads_what_the_last_one_read_and_more() -> None:
    run = Run(Scripted(*[calls(("echo", "{}"), ("echo", "{}"))] * 3, says("ok")), Echo())

    await run.answer()

    read = [request.messages for request in run.model.asked]
    assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(read))
    assert [len(messages) for messages in read] == [2, 5, 8, 11]


async def test_each_call_declares_the_same_tools() -> None:
    run = Run(Scripted(calls(("echo", "{}")), says("ok")), Lookup(together=1), Echo())

    await run.answer()

    assert run.model.asked[0].tools == run.model.asked[1].tools
