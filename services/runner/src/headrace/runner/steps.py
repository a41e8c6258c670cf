"""Steps: the coordinates of a run's journal, and what is written there."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Self

from headrace.contracts.journal import StepKind, StepState
from headrace.runner.errors import JournalMismatch

ROOT = "root"
"""The frame of the agent that was asked."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where a step stands: the nth step of a frame. The loop counts, so a resumed run finds the same places."""

    path: str
    seq: int

    def __str__(self) -> str:
        return f"{self.path}/{self.seq}"

    def approval(self, nth: int) -> "Place":
        """The place of the nth question whether this step may be made."""
        return Place(f"{self}:approval", nth)


class Frame:
    """Counts the steps of one agent's turn."""

    def __init__(self, path: str = ROOT) -> None:
        self.path = path
        self._last = 0

    def next(self) -> Place:
        """The place of the next step."""
        self._last += 1
        return Place(self.path, self._last)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One row of the journal. It is written before it acts (`intent`) and after."""

    place: Place
    kind: StepKind
    name: str
    """The model or the tool."""
    state: StepState = "intent"
    epoch: int = 0
    """The taking of the run that wrote it last."""
    call_id: str | None = None
    digest: str | None = None
    """Of what was sent to a model, or of what a person is asked to approve."""
    output: dict[str, Any] | None = None
    tokens: dict[str, Any] | None = None
    effect_key: str | None = None
    why: str | None = None
    expires_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None

    def done(self, output: dict[str, Any], *, tokens: dict[str, Any] | None = None) -> Self:
        """The step with what it gave."""
        return replace(self, state="done", output=output, tokens=tokens, why=None)

    def failed(self, why: str) -> Self:
        """The step as one that gave nothing and did nothing; it is made again."""
        return replace(self, state="failed", output=None, why=why)

    def doubtful(self, why: str) -> Self:
        """The step as one that perhaps did something."""
        return replace(self, state="doubt", output=None, why=why)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What the model is told that a tool answered."""

    text: str
    is_error: bool = False
    is_written: bool = False
    """Whether the journal has it already."""

    def as_output(self) -> dict[str, Any]:
        """The result as the journal keeps it."""
        return {"text": self.text, "is_error": self.is_error}

    @classmethod
    def of(cls, step: Step) -> "ToolResult":
        """The result that a finished step has.

        Raises:
            JournalMismatch: It is damaged.
        """
        try:
            output = step.output or {}
            return cls(str(output["text"]), bool(output["is_error"]))
        except (KeyError, TypeError) as error:
            raise JournalMismatch(
                f"step {step.place} of the journal is damaged; replay the run instead"
            ) from error
