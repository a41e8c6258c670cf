"""What the scripted model reads in a request to `POST /v1/chat/completions`."""

import json
from dataclasses import dataclass
from typing import Any

_NAMED = frozenset({"model", "messages", "tools", "stream", "stream_options"})


class MalformedRequestError(ValueError):
    """The body is not a chat request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One request; `options` are the fields of its body that have no attribute here."""

    model: str
    messages: list[dict[str, Any]]
    tools: list[str]
    stream: bool
    wants_usage: bool
    options: dict[str, Any]

    @property
    def last_role(self) -> str:
        """The role of the last message."""
        return str(self.messages[-1].get("role", ""))

    @property
    def last_user_text(self) -> str:
        """The text of the last message that a user sent; empty when there is none."""
        asked = (message for message in reversed(self.messages) if message.get("role") == "user")
        return _text(next(asked, {}))

    @property
    def turns(self) -> int:
        """How often the assistant has spoken since the last message that a user sent."""
        roles = [str(message.get("role", "")) for message in self.messages]
        since = len(roles) - roles[::-1].index("user") if "user" in roles else 0
        return roles[since:].count("assistant")

    @property
    def input_tokens(self) -> int:
        """The estimate: one token for four characters of the messages, rounded up."""
        return -(-sum(_characters(message) for message in self.messages) // 4)


def read_chat_request(body: bytes) -> ChatRequest:
    """Read a request's body; raise `MalformedRequestError` when a client could not have meant it."""
    try:
        asked = json.loads(body)
        return ChatRequest(
            model=asked["model"],
            messages=_messages(asked["messages"]),
            tools=[tool["function"]["name"] for tool in asked.get("tools") or ()],
            stream=bool(asked.get("stream")),
            wants_usage=bool((asked.get("stream_options") or {}).get("include_usage")),
            options={name: value for name, value in asked.items() if name not in _NAMED},
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise MalformedRequestError(f"not a chat request: {error!r}") from error


def _messages(messages: Any) -> list[dict[str, Any]]:
    if not isinstance(messages, list) or not messages or not all(isinstance(each, dict) for each in messages):
        raise ValueError("messages must be a list of at least one object")
    return messages


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _characters(message: dict[str, Any]) -> int:
    calls = (call.get("function", {}) for call in message.get("tool_calls") or ())
    return len(_text(message)) + sum(
        len(call.get("name", "")) + len(call.get("arguments", "")) for call in calls
    )
