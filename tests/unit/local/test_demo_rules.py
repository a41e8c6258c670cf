"""The demo model's rules: which words call which tool, and what is said otherwise."""

import pytest

from headrace.local.demo_rules import INTRODUCTION, Message, Reply, Tool, ToolCall, reply

CLOCK = Tool("current_time", {"type": "object", "properties": {"timezone": {"type": "string"}}})
STRICT_CLOCK = Tool("current_time", {**CLOCK.parameters, "required": ["timezone"]})
CALCULATOR = Tool(
    "calculator", {"properties": {"precision": {"type": "integer"}, "expression": {"type": "string"}}}
)
SEARCH = Tool(
    "knowledge_search", {"properties": {"query": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}
)
SENTIMENT = Tool("sentiment", {"properties": {"text": {"type": ["string", "null"]}}})
PING = Tool("ping", {})
TOOLS = (SENTIMENT, CLOCK, CALCULATOR, SEARCH, PING)


def _said(text: str) -> list[Message]:
    return [Message("system", "You are a helper."), Message("user", text)]


@pytest.mark.parametrize(
    ("asked", "call"),
    [
        ("what time is it?", ToolCall("current_time", {})),
        ("Time", ToolCall("current_time", {})),
        ("hi, what is the current time please", ToolCall("current_time", {})),
        ("what time is it in Europe/Paris?", ToolCall("current_time", {"timezone": "Europe/Paris"})),
        ("12 * (3+4)", ToolCall("calculator", {"expression": "12 * (3+4)"})),
        ("What is 12*3?", ToolCall("calculator", {"expression": "12*3"})),
        ("-3 + 4 =", ToolCall("calculator", {"expression": "-3 + 4"})),
        ("calculate 2 ** 8, please", ToolCall("calculator", {"expression": "2 ** 8"})),
        (
            "please calculate the area of a circle.",
            ToolCall("calculator", {"expression": "the area of a circle"}),
        ),
        ("search for dead letters", ToolCall("knowledge_search", {"query": "dead letters"})),
        ("Can you find ack_wait?", ToolCall("knowledge_search", {"query": "ack_wait"})),
        ("look up streams please", ToolCall("knowledge_search", {"query": "streams"})),
        ("search the docs for acks", ToolCall("knowledge_search", {"query": "acks"})),
        (
            "According to the docs, how long is ack_wait?",
            ToolCall("knowledge_search", {"query": "how long is ack_wait"}),
        ),
        ("What is kept, according to our docs?", ToolCall("knowledge_search", {"query": "What is kept"})),
        (
            'use calculator {"expression": "1+1", "precision": 2}',
            ToolCall("calculator", {"expression": "1+1", "precision": 2}),
        ),
        ("Use the `sentiment` tool on I like it", ToolCall("sentiment", {"text": "I like it"})),
        ("use search to read about runs", ToolCall("knowledge_search", {"query": "read about runs"})),
        ("use ping", ToolCall("ping", {})),
        ("use ping with pleasure", ToolCall("ping", {})),
        ("use sentiment [1, 2]", ToolCall("sentiment", {"text": "[1, 2]"})),
    ],
)
def test_plain_wish_calls_the_tool(asked: str, call: ToolCall) -> None:
    assert reply(_said(asked), TOOLS) == Reply("", (call,))


@pytest.mark.parametrize(
    "asked",
    [
        "what is the time limit of a run?",
        "how many times?",
        "what is 42?",
        "I have 3 apples",
        "we search a lot",
        "",
    ],
)
def test_no_plain_wish_calls_no_tool(asked: str) -> None:
    assert reply(_said(asked), TOOLS).tool_calls == ()


def test_time_zone_is_given_to_a_clock_that_requires_one() -> None:
    assert reply(_said("time"), [STRICT_CLOCK]).tool_calls == (ToolCall("current_time", {"timezone": "UTC"}),)


@pytest.mark.parametrize(
    ("asked", "missing"),
    [("time", "time"), ("1 + 1", "calc"), ("search for x", "search"), ("use rocket now", "rocket")],
)
def test_tool_that_is_not_declared_is_refused(asked: str, missing: str) -> None:
    answer = reply(_said(asked), [PING])

    assert answer == Reply(f"{INTRODUCTION} I have no `{missing}` tool. The declared tools are `ping`.")


@pytest.mark.parametrize("greeting", ["Hello!", "hi", "good morning, Headrace", ""])
def test_greeting_is_returned(greeting: str) -> None:
    assert reply(_said(greeting), ()).text.startswith(f"Hello! {INTRODUCTION} No tools are declared.")


def test_other_words_are_repeated_with_what_can_be_tried() -> None:
    answer = reply(_said("Tell me a story"), [CALCULATOR])

    assert answer == Reply(
        f"{INTRODUCTION} You wrote: “Tell me a story” The declared tools are `calculator`. "
        "Try “12 * (3 + 4)”, “use calculator <text or JSON>”."
    )


def test_long_words_are_repeated_in_short() -> None:
    assert "“" + "a" * 200 + "…”" in reply(_said("a" * 100_000), ()).text


def test_tool_results_at_the_end_are_quoted() -> None:
    messages = [
        *_said("time"),
        Message("assistant", ""),
        Message("tool", "12:00", "current_time"),
        Message("tool", "", "ping"),
    ]

    assert reply(messages, TOOLS) == Reply(
        f"{INTRODUCTION}\n\nThe tool `current_time` answered: 12:00\n\nThe tool `ping` answered: (nothing)"
    )


def test_older_tool_results_are_not_quoted() -> None:
    messages = [Message("tool", "12:00", "current_time"), Message("user", "use ping")]

    assert reply(messages, TOOLS).tool_calls == (ToolCall("ping", {}),)


def test_conversation_without_a_user_is_greeted() -> None:
    assert reply([Message("system", "Be brief.")], ()).text.startswith("Hello!")
