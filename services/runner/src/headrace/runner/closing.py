"""What a run leaves in its session: whole turns only, so that no later turn reads a call without its result."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from pydantic import ValidationError

from headrace.contracts.runs import RunFinished, RunRequested, TokenCount
from headrace.runner.errors import JournalMismatch
from headrace.runner.model import ModelTurn
from headrace.runner.steps import ROOT, Step, ToolResult

NOT_MADE = "error: this call was not made; the run ended before"
NOT_KNOWN = "error: it is not known whether this was done; the run ended before that was seen"


def asked(request: RunRequested) -> list[dict[str, Any]]:
    """The run's input, in the shape that models read."""
    said = [{"role": message.role, "content": message.content} for message in request.input]
    if request.files:
        listed = "\n".join(f"- {file.name} ({file.media_type}, {file.size} bytes)" for file in request.files)
        said.append({"role": "user", "content": f"[Files that belong to this request:\n{listed}]"})
    return said


def said(request: RunRequested, steps: Iterable[Step], end: RunFinished) -> list[dict[str, Any]]:
    """All that was said in a run, as its session keeps it.

    Args:
        request: What was asked.
        steps: The run's steps, finished or not.
        end: How it ended; where it did not succeed, a last word says so to whoever reads on.
    """
    bodies = asked(request)
    own = {step.place.seq: step for step in steps if step.place.path == ROOT}
    for seq in sorted(own):
        step = own[seq]
        if step.kind != "model" or step.state != "done":
            continue
        try:
            turn = ModelTurn.of(step.output or {}, step.tokens)
        except JournalMismatch:
            continue
        if turn.is_empty:
            continue
        bodies.append(turn.as_message())
        for place, call in enumerate(turn.tool_calls, start=seq + 1):
            content = _result(own.get(place))
            bodies.append({"role": "tool", "tool_call_id": call.call_id, "content": content})
    if end.state != "succeeded":
        why = end.error or end.state
        bodies.append({"role": "assistant", "content": f"[This turn ended without an answer: {why}]"})
    return bodies


def usage(steps: Iterable[Step]) -> TokenCount:
    """What the finished steps of a run used."""
    total = TokenCount()
    for step in steps:
        if step.tokens is not None:
            with suppress(ValidationError):
                total += TokenCount.model_validate(step.tokens)
    return total


def _result(step: Step | None) -> str:
    if step is None:
        return NOT_MADE
    if step.state == "done":
        with suppress(JournalMismatch):
            return ToolResult.of(step).text
        return NOT_KNOWN
    return NOT_KNOWN if step.effect_key or step.state == "doubt" else NOT_MADE
