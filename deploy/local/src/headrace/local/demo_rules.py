"""What the demo model answers: fixed rules over the last messages, no intelligence and no I/O."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.local.demo_wishes import Wish, read_wish

INTRODUCTION = "I am the Headrace demo model, which answers by rules."
"""How every text answer starts, so that nobody takes the rules for intelligence."""

_REPEAT_AT_MOST = 200
"""Characters of a user's message that are repeated."""

_QUOTE_AT_MOST = 2_000
"""Characters of one tool result that are quoted."""

_EXAMPLES = {
    "time": "what time is it?",
    "calc": "12 * (3 + 4)",
    "search": "search for delivery guarantees",
}
_GREETING = re.compile(r"(?:hi|hello|hey|good (?:morning|afternoon|evening))\b[\w\s,!.]{0,30}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the conversation; `tool_name` is set on tool results only."""

    role: str
    text: str
    tool_name: str = ""


@dataclass(frozen=True, slots=True)
class Tool:
    """One declared tool; `parameters` is its JSON Schema."""

    name: str
    parameters: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call that the model asks for."""

    name: str
    arguments: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer: a text, or tool calls and no text."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()


def reply(messages: Sequence[Message], tools: Sequence[Tool]) -> Reply:
    """Answer a conversation.

    Tool results at the end are quoted; a plain wish for a tool becomes a call, or a refusal when no such tool is
    declared; anything else is repeated in short, with what can be tried.
    """
    if results := _results_at_the_end(messages):
        return Reply(_quote(results))
    asked = next((message.text for message in reversed(messages) if message.role == "user"), "").strip()
    if wish := read_wish(asked):
        return _grant(wish, tools)
    if not asked or _GREETING.fullmatch(asked):
        return Reply(f"Hello! {INTRODUCTION} {_what_to_try(tools)}")
    return Reply(f"{INTRODUCTION} You wrote: “{_shorten(asked, _REPEAT_AT_MOST)}” {_what_to_try(tools)}")


def _results_at_the_end(messages: Sequence[Message]) -> list[Message]:
    last_other = max((place for place, message in enumerate(messages) if message.role != "tool"), default=-1)
    return list(messages[last_other + 1 :])


def _quote(results: Sequence[Message]) -> str:
    quotes = [
        f"The tool `{result.tool_name or 'unknown'}` answered: {_shorten(result.text, _QUOTE_AT_MOST) or '(nothing)'}"
        for result in results
    ]
    return "\n\n".join((INTRODUCTION, *quotes))


def _grant(wish: Wish, tools: Sequence[Tool]) -> Reply:
    tool = _best_match(wish.tool, tools)
    if tool is None:
        return Reply(f"{INTRODUCTION} I have no `{wish.tool}` tool. {_declared(tools)}")
    return Reply("", (ToolCall(tool.name, _arguments(wish, tool)),))


def _best_match(word: str, tools: Sequence[Tool]) -> Tool | None:
    """Return the tool of exactly this name, else one with this word in its name, else with these letters."""
    wanted = word.casefold()
    names = [(tool, tool.name.casefold()) for tool in tools]
    exact = [tool for tool, name in names if name == wanted]
    by_word = [tool for tool, name in names if wanted in re.split(r"[\W_]+", name)]
    by_letters = [tool for tool, name in names if wanted in name]
    return next(iter((*exact, *by_word, *by_letters)), None)


def _arguments(wish: Wish, tool: Tool) -> Mapping[str, object]:
    if (ready := _json_object(wish.argument)) is not None:
        return ready
    field = _first_string_property(tool)
    if field is None or not wish.argument:
        return {}
    required = tool.parameters.get("required")
    if wish.if_required and not (isinstance(required, Sequence) and field in required):
        return {}
    return {field: wish.argument}


def _json_object(text: str) -> Mapping[str, object] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _first_string_property(tool: Tool) -> str | None:
    properties = tool.parameters.get("properties")
    if not isinstance(properties, Mapping):
        return None
    return next((str(name) for name, schema in properties.items() if _accepts_text(schema)), None)


def _accepts_text(schema: object) -> bool:
    if not isinstance(schema, Mapping):
        return False
    kind = schema.get("type")
    choices = schema.get("anyOf")
    return (
        kind == "string"
        or (isinstance(kind, Sequence) and "string" in kind)
        or (isinstance(choices, Sequence) and any(_accepts_text(choice) for choice in choices))
    )


def _what_to_try(tools: Sequence[Tool]) -> str:
    if not tools:
        return f"{_declared(tools)} Give the agent one, then try “use <tool> <text or JSON>”."
    examples = [example for word, example in _EXAMPLES.items() if _best_match(word, tools)]
    quoted = ", ".join(f"“{example}”" for example in (*examples, f"use {tools[0].name} <text or JSON>"))
    return f"{_declared(tools)} Try {quoted}."


def _declared(tools: Sequence[Tool]) -> str:
    if not tools:
        return "No tools are declared."
    return f"The declared tools are {', '.join(f'`{tool.name}`' for tool in tools)}."


def _shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit].rstrip()}…"
