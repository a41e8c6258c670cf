"""What a model is asked and what it answers, whoever the vendor is."""

import json
import math
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from headrace.contracts.runs import TokenCount
from headrace.runner.errors import JournalMismatch

CHARACTERS_PER_TOKEN = 4
"""The estimate where a provider reports nothing."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One call: a model, the messages it reads, and the tools it may ask for."""

    model: str | None
    """A LiteLLM model name; `None` is the platform's default."""
    messages: tuple[dict[str, Any], ...]
    tools: tuple[dict[str, Any], ...]

    def noting(self, flaw: str) -> "ModelRequest":
        """The same call, with a word on why the last turn could not be used; the word is not kept."""
        word = {"role": "user", "content": f"[{flaw}. Nothing was done. Please answer again.]"}
        return replace(self, messages=(*self.messages, word))

    def estimated_tokens(self) -> int:
        """Input tokens by the length of the text, for where nobody counted them."""
        return math.ceil(sum(len(json.dumps(each)) for each in self.messages) / CHARACTERS_PER_TOKEN)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that the model asked for; the arguments are its own text, and need not be JSON."""

    call_id: str
    name: str
    arguments: str

    def read_arguments(self) -> dict[str, Any]:
        """The arguments as an object. They are never guessed; only none at all are an empty object.

        Raises:
            ValueError: They are not a JSON object; the sentence says why.
        """
        try:
            arguments = json.loads(self.arguments.strip() or "{}")
        except (ValueError, RecursionError) as error:  # also a number of 5,000 digits, or 100,000 brackets
            raise ValueError(f"the arguments are not JSON ({error})") from error
        if not isinstance(arguments, dict):
            raise ValueError("the arguments are not a JSON object")  # noqa: TRY004  (a value, not a type, of ours)
        return arguments


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """All that the model said in one call."""

    text: str
    tool_calls: tuple[ToolCall, ...]
    tokens: TokenCount
    model: str

    @property
    def is_empty(self) -> bool:
        """Neither text nor a tool."""
        return not self.text.strip() and not self.tool_calls

    @property
    def flaw(self) -> str | None:
        """Why the turn cannot be used, if it cannot: the first cause."""
        if self.is_empty:
            return "the answer was empty"
        for call in self.tool_calls:
            try:
                call.read_arguments()
            except ValueError as error:
                return f"your call of `{call.name}` was not made: {error}"
        return None

    def as_message(self) -> dict[str, Any]:
        """The turn as later calls read it."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text or None}
        if self.tool_calls:
            message["tool_calls"] = [
                {
                    "id": c.call_id,
                    "type": "function",
                    "function": {"name": _accepted(c.name), "arguments": c.arguments.strip() or "{}"},
                }
                for c in self.tool_calls
            ]
        return message

    def as_output(self) -> dict[str, Any]:
        """The turn as the journal keeps it."""
        return {
            "text": self.text,
            "model": self.model,
            "tool_calls": [[call.call_id, call.name, call.arguments] for call in self.tool_calls],
        }

    @classmethod
    def of(cls, output: dict[str, Any], tokens: dict[str, Any] | None) -> "ModelTurn":
        """The turn that the journal has.

        Raises:
            JournalMismatch: It is damaged.
        """
        try:
            text, model = _texts(output["text"], output["model"])
            calls = tuple(ToolCall(*_texts(*call)) for call in output["tool_calls"])
            return cls(text, calls, TokenCount.model_validate(tokens or {}), model)
        except (KeyError, TypeError, ValueError) as error:
            raise JournalMismatch("a model call in the journal is damaged; replay the run instead") from error


def _texts(*values: object) -> list[str]:
    if not all(isinstance(value, str) for value in values):
        raise TypeError("it is not text")
    return [str(value) for value in values]


def _accepted(name: str) -> str:
    """A name that providers take back: one that the model made up need not be any."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "_"


class Model(Protocol):
    """Calls models."""

    async def call(self, request: ModelRequest, *, on_text: Callable[[str], Awaitable[None]]) -> ModelTurn:
        """Call once, telling text as it comes.

        Raises:
            ModelFailed: It may work later.
            ModelRefused: It never will.
        """
