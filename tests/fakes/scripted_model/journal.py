"""What the scripted model has seen: calls and token counts."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.fakes.scripted_model.change import Change
from tests.fakes.scripted_model.chat_request import ChatRequest
from tests.fakes.scripted_model.playbook import Cue

Outcome = Literal["running", "finished", "failed", "cut_by_script", "cut_by_client"]

_CALLS_KEPT = 10_000
"""Calls that the journal remembers; the totals count all."""


@dataclass(slots=True, kw_only=True)
class Call:
    """One request and how it ended.

    Attributes:
        number: 1 for the first call since the last reset.
        options: The other fields of the request's body, such as `temperature`.
        key_tail: The last four characters of the bearer key; empty without a key.
        rule: Index of the rule that answered; none for the script's default.
        step: Index of the step within the rule; none when the default answered or the rule ran dry.
        input_tokens: What was reported, else the estimate; 0 until the answer ends, and for an error.
        output_tokens: What was reported, else the estimate of what was sent before a cut.
    """

    number: int
    model: str
    messages: list[dict[str, Any]]
    tools: list[str]
    stream: bool
    options: dict[str, Any]
    key_tail: str
    rule: int | None
    step: int | None
    input_tokens: int = 0
    output_tokens: int = 0
    outcome: Outcome = "running"


@dataclass(slots=True)
class Totals:
    """Sums over calls; `by_model` is filled in the overall totals only."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    by_model: dict[str, "Totals"] = field(default_factory=dict)


class Journal:
    """The calls since the last reset."""

    def __init__(self) -> None:
        self.totals = Totals()
        self._calls: deque[Call] = deque(maxlen=_CALLS_KEPT)
        self._settled = 0
        self._change = Change()

    def open(self, request: ChatRequest, cue: Cue, *, key_tail: str) -> Call:
        """Write down a request that is about to be answered."""
        call = Call(
            number=self.totals.calls + 1,
            model=request.model,
            messages=request.messages,
            tools=request.tools,
            stream=request.stream,
            options=request.options,
            key_tail=key_tail,
            rule=cue.rule,
            step=cue.place,
        )
        self._calls.append(call)
        for totals in (self.totals, self._of(call.model)):
            totals.calls += 1
        return call

    def settle(self, call: Call, outcome: Outcome, *, input_tokens: int, output_tokens: int) -> None:
        """Write down how a call ended and what it cost."""
        call.outcome, call.input_tokens, call.output_tokens = outcome, input_tokens, output_tokens
        for totals in (self.totals, self._of(call.model)):
            totals.input_tokens += input_tokens
            totals.output_tokens += output_tokens
        self._settled += 1
        self._change.ring()

    async def calls(self, *, settled: int, seconds: float) -> list[Call]:
        """Wait, at most so long, until enough calls have ended; return the calls in order of arrival."""
        await self._change.until(lambda: self._settled >= settled, seconds=seconds)
        return list(self._calls)

    def _of(self, model: str) -> Totals:
        return self.totals.by_model.setdefault(model, Totals())
