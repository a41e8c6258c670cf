"""A run, told in the words of OpenAI's chat completions."""

import json
from collections.abc import AsyncIterator
from typing import Any

from headrace.contracts.runs import (
    RunEvent,
    RunFinished,
    RunStarted,
    RunWaiting,
    TextDelta,
    TokenCount,
    ToolCalled,
)
from headrace.gateway.api.sse import PING, frame
from headrace.gateway.errors import RunFailed
from headrace.gateway.events import Gap, Silence

_STATUS = {"refused": 429, "cancelled": 409, "failed": 502}
_ASKED = {
    "waiting_approval": ("approves a call of", "approve"),
    "waiting_review": ("says what became of a call of", "resolve"),
}
_STATUS_OF_CODE = {"not_decided": 503}


class ChatStream:
    """Turns the events of one run into the chunks of one completion.

    A client cannot take back what it was sent. So when text went out that a later attempt supersedes, since its step
    was not finished, what follows is held until the end, and only what continues the text that was sent is sent;
    where it does not, the client is told. Text of finished steps stands, and nothing need be held.

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
        self._said_step: int | None = None
        """The model call that said it; 0 where that is not known."""
        self._is_held = False
        self._last: RunFinished | RunWaiting | None = None
        """Where the run stands still, unless it goes on."""

    async def frames(self, *, include_usage: bool) -> AsyncIterator[str]:
        """The completion as server-sent events."""
        yield self._chunk({"role": "assistant", "content": ""})
        async for item in self._following:
            match item:
                case Silence():
                    yield PING
                case Gap():
                    self._is_held = True
                case RunEvent(news=TextDelta() as delta) if not self._is_held:
                    self._say(delta)
                    yield self._chunk({"content": delta.text})
                case RunEvent(news=ToolCalled()) if not self._is_held:
                    self._sent = ""
                case RunEvent(news=RunStarted() as start):
                    self._begin(start)
                case RunEvent(news=RunFinished() | RunWaiting() as last):
                    self._last = last
                case _:
                    pass
        for each in self._end_frames(include_usage=include_usage):
            yield each
        yield frame("[DONE]")

    def _begin(self, start: RunStarted) -> None:
        """Another taking: what was said of unfinished steps is superseded, so what follows must wait."""
        self._last = None
        said = self._said_step
        stands = said is None or 0 < said < start.resumes_at
        self._is_held = self._is_held or not stands

    def _say(self, delta: TextDelta) -> None:
        if delta.step != self._said_step:
            self._sent = ""
        self._sent += delta.text
        self._said_step = delta.step

    def _end_frames(self, *, include_usage: bool) -> list[str]:
        try:
            end = self._answer()
        except RunFailed as error:
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
            RunFailed: The run ended without one, or waits for a person.
        """
        async for item in self._following:
            match item:
                case RunEvent(news=RunStarted()):
                    self._last = None
                case RunEvent(news=RunFinished() | RunWaiting() as last):
                    self._last = last
                case _:
                    pass
        return self._answer()

    def _answer(self) -> RunFinished:
        match self._last:
            case RunFinished(state="succeeded") as end:
                return end
            case RunFinished() as end:
                raise failure_of(end, self.run_id)
            case RunWaiting() as wait:
                raise wait_of(wait, self.run_id)
            case None:
                sentence = "the run's events ended before the run"
                raise RunFailed(sentence, code="internal", status=500, run_id=self.run_id)

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


def wait_of(wait: RunWaiting, run_id: str) -> RunFailed:
    """The error that a run which waits for a person is to who waits for an answer."""
    tools = ", ".join(dict.fromkeys(wait.tools)) or "a tool"
    asked, verb = _ASKED[wait.state]
    sentence = (
        f"the run waits until a person {asked} {tools}: see /v1/runs/{run_id}/waiting, "
        f"decide with POST /v1/runs/{run_id}/{verb}, follow /v1/runs/{run_id}/events"
    )
    return RunFailed(sentence, code=wait.state, status=409, run_id=run_id)


def failure_of(end: RunFinished, run_id: str) -> RunFailed:
    """The error that a run's end is."""
    sentence = end.error or f"the run was {end.state}"
    code = end.error_code or end.state
    status = _STATUS_OF_CODE.get(code, _STATUS.get(end.state, 502))
    return RunFailed(sentence, code=code, status=status, run_id=run_id)


def _error(sentence: str, code: str) -> str:
    return frame(json.dumps({"error": {"message": sentence, "type": code, "code": code, "param": None}}))
