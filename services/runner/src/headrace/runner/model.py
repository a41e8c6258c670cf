"""What a model is asked and what it answers, whoever the vendor is."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from headrace.contracts.runs import TokenCount


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One call: a model, the messages it reads, and the tools it may ask for."""

    model: str | None
    """A LiteLLM model name; `None` is the platform's default."""
    messages: tuple[dict[str, Any], ...]
    tools: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that the model asked for; the arguments are its own text, and need not be JSON."""

    call_id: str
    name: str
    arguments: str


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

    def as_message(self) -> dict[str, Any]:
        """The turn as later calls read it."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text or None}
        if self.tool_calls:
            message["tool_calls"] = [
                {"id": c.call_id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
                for c in self.tool_calls
            ]
        return message


class Model(Protocol):
    """Calls models."""

    async def call(self, request: ModelRequest, *, on_text: Callable[[str], Awaitable[None]]) -> ModelTurn:
        """Call once, telling text as it comes.

        Raises:
            ModelFailed: It may work later.
            ModelRefused: It never will.
        """
