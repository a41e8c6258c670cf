"""A run, told in the words of OpenAI's chat completions."""

import json
from collections.abc import AsyncIterator
from typing import Any

from headrace.contracts.runs import RunEvent, RunFinished, RunStarted, TextDelta, TokenCount, ToolCalled
from headrace.gateway.api.sse import PING, frame
from headrace.gateway.errors import RunFailed
from headrace.gateway.events import Gap, Silence

_STATUS = {"refused": 429, "cancelled": 409, "failed": 502}
_STATUS_OF_CODE = {"not_decided": 503}


class ChatStream:
    """Turns the events of one run into the chunks of one completion.

    A client cannot take back what it was sent. So when a later attempt begins after text went out, its text is held
    until the end, and only what continues the text that was sent is sent; where it does not, the client is told.

    Args:
        following: The run's events.
        run_id: The run; the completion is named after it.
        model: The name that the client used.
        created: Unix time in seconds.
    """

    def __init__(
        self, following: AsyncIterator[RunEvent | Gap | Silence], run_id: str, model: str, created: int
    ) -> None:
        self.run_id, self.model, self.created = run_id, model, created
        self._following = following
        self._sent = ""
        """What was sent of the answer; text before a tool is no part of it."""
        self._has_spoken = False
        self._is_held = False

    async def frames(self, *, include_usage: bool) -> AsyncIterator[str]:
        """The completion as server-sent events."""
        yield self._chunk({"role": "assistant", "content": ""})
        async for item in self._following:
            match item:
                case Silence():
                    yield PING
                case Gap():
                    self._is_held = True
                case RunEvent(news=RunStarted()):
                    self._is_held = self._is_held or self._has_spoken
                case RunEvent(news=TextDelta(text=text)) if not self._is_held:
                    self._sent += text
                    self._has_spoken = True
                    yield self._chunk({"content": text})
                case RunEvent(news=ToolCalled()) if not self._is_held:
                    self._sent = ""
                case RunEvent(news=RunFinished() as end):
                    for last in self._last(end, include_usage=include_usage):
                        yield last
                case _:
                    pass
        yield frame("[DONE]")

    def _last(self, end: RunFinished, *, include_usage: bool) -> list[str]:
        if end.state != "succeeded":
            error = failure_of(end, self.run_id)
            return [_error(error.message, error.code)]
        if not end.output.startswith(self._sent):
            sentence = (
                f"the answer began again and differs from what was sent; read it at /v1/runs/{self.run_id}"
            )
            return [_error(sentence, "superseded")]
        rest = end.output[len(self._sent) :]
        frames = [self._chunk({"content": rest})] if rest else []
        frames.append(self._chunk({}, finish_reason="stop"))
        if include_usage:
            frames.append(frame(json.dumps({**self._head(), "choices": [], "usage": usage(end.usage)})))
        return frames

    async def end(self) -> RunFinished:
        """Wait for the whole answer.

        Raises:
            RunFailed: The run ended without one.
        """
        async for item in self._following:
            if isinstance(item, RunEvent) and isinstance(item.news, RunFinished):
                if item.news.state != "succeeded":
                    raise failure_of(item.news, self.run_id)
                return item.news
        raise RunFailed(
            "the run's events ended before the run", code="internal", status=500, run_id=self.run_id
        )

    def completion(self, end: RunFinished) -> dict[str, Any]:
        """The completion as one object."""
        message = {"role": "assistant", "content": end.output, "refusal": None}
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        return {**self._head("chat.completion"), "choices": [choice], "usage": usage(end.usage)}

    def _head(self, kind: str = "chat.completion.chunk") -> dict[str, Any]:
        return {"id": f"chatcmpl-{self.run_id}", "object": kind, "created": self.created, "model": self.model}

    def _chunk(self, delta: dict[str, Any], *, finish_reason: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
        return frame(json.dumps({**self._head(), "choices": [choice]}))


def usage(tokens: TokenCount) -> dict[str, Any]:
    """Tokens in OpenAI's shape, where the prompt's count includes what was cached."""
    prompt = tokens.input_tokens + tokens.cached_input_tokens
    return {
        "prompt_tokens": prompt,
        "completion_tokens": tokens.output_tokens,
        "total_tokens": prompt + tokens.output_tokens,
        "prompt_tokens_details": {"cached_tokens": tokens.cached_input_tokens},
    }


def failure_of(end: RunFinished, run_id: str) -> RunFailed:
    """The error that a run's end is."""
    sentence = end.error or f"the run was {end.state}"
    code = end.error_code or end.state
    status = _STATUS_OF_CODE.get(code, _STATUS.get(end.state, 502))
    return RunFailed(sentence, code=code, status=status, run_id=run_id)


def _error(sentence: str, code: str) -> str:
    return frame(json.dumps({"error": {"message": sentence, "type": code, "code": code, "param": None}}))
