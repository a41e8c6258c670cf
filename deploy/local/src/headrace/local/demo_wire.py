"""The part of OpenAI's chat protocol that the demo model speaks: what it reads and what it writes."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import BaseModel, Field

from headrace.local.demo_rules import Message, Reply, Tool

MODEL = "headrace-demo"
"""The name under which the demo model answers, whatever name was asked for."""


class _Part(BaseModel):
    text: str = ""


class _FunctionCall(BaseModel):
    name: str = ""
    arguments: str = ""


class _ToolCall(BaseModel):
    id: str = ""
    function: _FunctionCall = _FunctionCall()


class _ChatMessage(BaseModel):
    role: str
    content: str | list[_Part] | None = None
    tool_call_id: str = ""
    tool_calls: list[_ToolCall] | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "".join(part.text for part in self.content)
        return self.content or ""


class _Function(BaseModel):
    name: str
    parameters: dict[str, object] = {}


class _Tool(BaseModel):
    function: _Function


class _StreamOptions(BaseModel):
    include_usage: bool = False


class ChatRequest(BaseModel):
    """The body of `POST /v1/chat/completions`; fields that the rules do not need are ignored."""

    messages: list[_ChatMessage] = Field(min_length=1)
    tools: list[_Tool] | None = None
    tool_choice: str | dict[str, object] | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None

    @property
    def wants_usage(self) -> bool:
        """Whether a stream ends with a chunk of token counts."""
        return self.stream_options is not None and self.stream_options.include_usage

    def conversation(self) -> list[Message]:
        """Return the messages, with each tool result under the name of the tool that was called."""
        called = {
            call.id: call.function.name for message in self.messages for call in message.tool_calls or ()
        }
        return [
            Message(message.role, message.text, called.get(message.tool_call_id, ""))
            for message in self.messages
        ]

    def declared_tools(self) -> list[Tool]:
        """Return the tools that may be called: none when `tool_choice` forbids calls."""
        if self.tool_choice == "none":
            return []
        return [Tool(tool.function.name, tool.function.parameters) for tool in self.tools or ()]

    def characters(self) -> int:
        """Return the length of everything that the model reads in the messages."""
        calls = (call.function for message in self.messages for call in message.tool_calls or ())
        return sum(len(message.text) for message in self.messages) + sum(
            len(call.name) + len(call.arguments) for call in calls
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A reply on its way to the client.

    Attributes:
        id: The completion's id; the ids of tool calls are made from it.
        created: Unix time in seconds.
        reply: What the rules decided.
        characters_read: Length of the conversation, from which prompt tokens are estimated.
        counts_in_stream: Whether a stream carries `usage`: null in each chunk, the counts in one more at the end.
    """

    id: str
    created: int
    reply: Reply
    characters_read: int
    counts_in_stream: bool

    def completion(self) -> dict[str, object]:
        """Return the whole answer as one `chat.completion`."""
        message: dict[str, object] = {"role": "assistant", "content": self.reply.text or None}
        if calls := self._tool_calls():
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self._finish_reason()}
        return {**self._head("chat.completion"), "choices": [choice], "usage": self._usage()}

    def events(self) -> Iterator[str]:
        """Yield the answer as server-sent events: word by word, each tool call in one delta."""
        yield self._delta({"role": "assistant", "content": None if self.reply.tool_calls else ""})
        for word in re.findall(r"\s*\S+\s*", self.reply.text):
            yield self._delta({"content": word})
        for index, call in enumerate(self._tool_calls()):
            yield self._delta({"tool_calls": [{"index": index, **call}]})
        yield self._delta({}, finish_reason=self._finish_reason())
        if self.counts_in_stream:
            yield _event({**self._head("chat.completion.chunk"), "choices": [], "usage": self._usage()})
        yield "data: [DONE]\n\n"

    def _head(self, kind: str) -> dict[str, object]:
        return {"id": self.id, "object": kind, "created": self.created, "model": MODEL}

    def _delta(self, delta: Mapping[str, object], *, finish_reason: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        chunk = {**self._head("chat.completion.chunk"), "choices": [choice]}
        return _event({**chunk, "usage": None} if self.counts_in_stream else chunk)

    def _finish_reason(self) -> str:
        return "tool_calls" if self.reply.tool_calls else "stop"

    def _tool_calls(self) -> list[dict[str, object]]:
        return [
            {
                "id": f"call_{self.id.removeprefix('chatcmpl-')}_{index}",
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for index, call in enumerate(self.reply.tool_calls)
        ]

    def _usage(self) -> dict[str, int]:
        written = len(self.reply.text) + sum(
            len(call.name) + len(json.dumps(call.arguments)) for call in self.reply.tool_calls
        )
        prompt, completion = estimate_tokens(self.characters_read), estimate_tokens(written)
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def estimate_tokens(characters: int) -> int:
    """Return the usual estimate: one token for four characters, rounded up."""
    return math.ceil(characters / 4)


def error_body(message: str, *, kind: str, code: str | None = None) -> dict[str, object]:
    """Return an error in OpenAI's shape."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _event(payload: Mapping[str, object]) -> str:
    return f"data: {json.dumps(payload, ensure_ascii=False)}\n\n"
