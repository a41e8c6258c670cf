"""What is known of a run, step by step; what a person is asked; and what going on or doing again would mean."""

from datetime import datetime
from typing import Any, ClassVar, Literal

from pydantic import Field

from headrace.contracts.ids import AccountId, RunId
from headrace.contracts.message import Contract
from headrace.contracts.question import Question
from headrace.contracts.runs import RunRequested, TokenCount

StepKind = Literal["model", "tool", "approval"]
StepState = Literal["intent", "done", "failed", "doubt"]
"""Begun; finished; ended without a result and to be tried again; or perhaps done, which a person must say."""
EffectState = Literal["intent", "confirmed", "failed", "undone", "skipped"]
"""May have happened; happened; seen not to have happened; taken back; left in doubt by a person."""


class EffectReport(Contract):
    """What a call did to the world, as the ledger has it."""

    key: str
    state: EffectState
    provider_key: str
    """What the provider was told, such as a Message-ID; to look for it there."""
    run_id: RunId
    """The run that did it: an earlier one, where this is a replay."""
    result: str | None = None
    why: str | None = None
    """Why it is not known whether it happened, or why it did not."""
    begun_at: datetime
    settled_at: datetime | None = None


class StepReport(Contract):
    """One step of a run: a model call, a tool call, or an approval."""

    path: str
    seq: int
    kind: StepKind
    state: StepState
    name: str
    """The model or the tool."""
    epoch: int
    """The taking of the run that wrote it last."""
    call_id: str | None = None
    arguments: str | None = None
    output: dict[str, Any] | None = None
    tokens: TokenCount | None = None
    effect: EffectReport | None = None
    started_at: datetime
    finished_at: datetime | None = None


class DecisionReport(Contract):
    """What a person decided, who and when."""

    path: str
    seq: int
    choice: str
    note: str
    by: str
    decided_at: datetime


class Ask(Contract):
    """What a person is asked about one call of a tool."""

    path: str
    seq: int
    call_id: str
    tool: str
    arguments: str
    """The call as the model made it."""
    why: str
    """What is to be approved, or why it is not known whether it happened."""
    choices: tuple[str, ...]
    effect: EffectReport | None = None
    """The evidence: where to look, and since when."""
    expires_at: datetime | None = None


class JournalPage(Contract):
    """A part of a run's journal; `more` says whether steps follow after the last."""

    steps: tuple[StepReport, ...]
    decisions: tuple[DecisionReport, ...] = ()
    waiting: tuple[Ask, ...] = ()
    more: bool = False


class ReadJournal(Question[JournalPage]):
    """The steps of a run after a place; the decisions and what is asked come with the first part."""

    service: ClassVar[str] = "runner"
    verb: ClassVar[str] = "read-journal"
    reply: ClassVar[type[Contract]] = JournalPage

    account_id: AccountId
    run_id: RunId
    skip: int = Field(default=0, ge=0)
    """Steps that were read before."""


class PlannedStep(Contract):
    """A step of a run that would be resumed."""

    path: str
    seq: int
    kind: StepKind
    name: str


class ResumePlan(Contract):
    """What resuming a run would do next. What follows depends on what the model says then."""

    reused: tuple[PlannedStep, ...]
    """Finished, and free."""
    run: tuple[PlannedStep, ...]
    """To be made."""
    estimated_input_tokens: int
    """Of the model call that comes first, or after these tools; from the length of the text."""


class PlanResume(Question[ResumePlan]):
    """What resuming a run would do. Refused (409) where it cannot be resumed."""

    service: ClassVar[str] = "runner"
    verb: ClassVar[str] = "plan-resume"
    reply: ClassVar[type[Contract]] = ResumePlan

    account_id: AccountId
    run_id: RunId


class ReplayPlan(Contract):
    """Whether a run may be done again, and with what."""

    request: RunRequested
    allowed: bool
    why: str = ""
    """Why not, in a sentence."""
    tools: tuple[str, ...] = ()
    """The tools that would or might act twice."""


class PlanReplay(Question[ReplayPlan]):
    """Whether a run may be done again from its input. Refused (409, 410) where nobody can allow it."""

    service: ClassVar[str] = "runner"
    verb: ClassVar[str] = "plan-replay"
    reply: ClassVar[type[Contract]] = ReplayPlan

    account_id: AccountId
    run_id: RunId


class KnownTool(Contract):
    """A tool that agents can be given."""

    name: str
    description: str
    effect: Literal["none", "idempotent", "unsafe"]
    approval: bool
    parameters: dict[str, Any]


class KnownTools(Contract):
    """All of them, in name order."""

    tools: tuple[KnownTool, ...]


class ListTools(Question[KnownTools]):
    """The tools that this deployment's runners have."""

    service: ClassVar[str] = "runner"
    verb: ClassVar[str] = "list-tools"
    reply: ClassVar[type[Contract]] = KnownTools
