"""An answer in OpenAI's shapes, as the bytes that go over the wire."""

import json
from dataclasses import dataclass
from itertools import pairwise

from tests.fakes.scripted_model.chat_request import ChatRequest
from tests.fakes.scripted_model.script import Failure, ScriptedToolCall, Step, Usage

_FAULTS = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", None),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
}
"""OpenAI's error type and code by status; any other status is a server error."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One chunk of content: its server-sent event, and the characters of text or arguments in it."""

    event: bytes
    characters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A step's answer to one request; `created` is Unix time in seconds."""

    id: str
    created: int
    step: Step
    request: ChatRequest

    @property
    def text(self) -> str:
        """The content: the step's text, or the last user message when the step says nothing at all."""
        step = self.step
        if step.text is not None:
            return step.text
        if step.tool_calls or step.empty or step.error:
            return ""
        return self.request.last_user_text

    def usage(self, *, characters: int | None = None) -> Usage:
        """Return the step's token counts, else the estimate for so many characters (default: all of the answer)."""
        if isinstance(self.step.usage, Usage):
            return self.step.usage
        written = self._characters() if characters is None else characters
        return Usage(prompt_tokens=self.request.input_tokens, completion_tokens=-(-written // 4))

    def completion(self) -> bytes:
        """Return the whole answer, for a request without streaming."""
        if self.step.in_band_error:
            return encode(error_body(self.step.error or Failure()))
        message: dict[str, object] = {"role": "assistant", "content": self.text or None}
        if self.step.tool_calls:
            message["tool_calls"] = [
                self._call(index, call) for index, call in enumerate(self.step.tool_calls)
            ]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self._finish_reason()}
        usage = None if self.step.usage is None else self.usage().report()
        return encode({**self._head("chat.completion"), "choices": [choice], "usage": usage})

    def opening(self) -> bytes:
        """Return the event that names the role."""
        return self._delta({"role": "assistant", "content": None if self.step.tool_calls else ""})

    def pieces(self) -> list[Piece]:
        """Return the events that carry content: the text first, then each call."""
        pieces = [
            Piece(self._delta({"content": part}), len(part)) for part in split(self.text, self.step.chunks)
        ]
        for index, call in enumerate(self.step.tool_calls):
            head = self._call(index, call)
            start = {"index": index, **head, "function": {"name": call.name, "arguments": ""}}
            pieces.append(Piece(self._delta({"tool_calls": [start]}), len(call.name)))
            for part in split(_arguments(call), self.step.chunks):
                more = {"index": index, "function": {"arguments": part}}
                pieces.append(Piece(self._delta({"tool_calls": [more]}), len(part)))
        return pieces

    def ending(self) -> bytes:
        """Return the events after the content: the finish and the usage, or the error in band."""
        if self.step.in_band_error:
            return event(error_body(self.step.error or Failure()))
        ending = self._delta({}, finish_reason=self._finish_reason())
        if self.request.wants_usage and self.step.usage is not None:
            ending += event(
                {**self._head("chat.completion.chunk"), "choices": [], "usage": self.usage().report()}
            )
        return ending + b"data: [DONE]\n\n"

    def _head(self, kind: str) -> dict[str, object]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.request.model}

    def _delta(self, delta: dict[str, object], *, finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        chunk = {**self._head("chat.completion.chunk"), "choices": [choice]}
        return event({**chunk, "usage": None} if self.request.wants_usage else chunk)

    def _call(self, index: int, call: ScriptedToolCall) -> dict[str, object]:
        name = call.id or f"call_{self.id.removeprefix('chatcmpl-')}_{index}"
        return {
            "id": name,
            "type": "function",
            "function": {"name": call.name, "arguments": _arguments(call)},
        }

    def _finish_reason(self) -> str:
        return self.step.finish_reason or ("tool_calls" if self.step.tool_calls else "stop")

    def _characters(self) -> int:
        return len(self.text) + sum(len(call.name) + len(_arguments(call)) for call in self.step.tool_calls)


def error_body(failure: Failure) -> dict[str, object]:
    """Return a failure in OpenAI's error shape."""
    kind, code = _FAULTS.get(failure.status, ("server_error", None))
    error = {
        "message": failure.message,
        "type": failure.type or kind,
        "param": None,
        "code": failure.code or code,
    }
    return {"error": error}


def encode(payload: dict[str, object]) -> bytes:
    """Return a JSON document."""
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()


def event(payload: dict[str, object]) -> bytes:
    """Return one server-sent event."""
    return b"data: %b\n\n" % encode(payload)


def split(text: str, parts: int) -> list[str]:
    """Cut a text in so many parts of nearly equal length, fewer when it has fewer characters."""
    count = min(parts, len(text))
    bounds = [len(text) * place // count for place in range(count + 1)] if count else []
    return [text[start:end] for start, end in pairwise(bounds)]


def _arguments(call: ScriptedToolCall) -> str:
    return call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
