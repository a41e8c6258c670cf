"""Deciding: whether what a person wrote answers what is asked."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from headrace.common.errors import Conflict
from headrace.contracts.journal import Ask, JournalPage, StepReport
from headrace.contracts.run_questions import RunReport
from headrace.contracts.runs import Decision
from headrace.contracts.text import Text
from headrace.gateway.errors import WrongDecision

Verb = Literal["approve", "resolve"]
CHOICES: Mapping[Verb, tuple[str, ...]] = {
    "approve": ("approve", "reject"),
    "resolve": ("happened", "again", "skip", "undone"),
}
IT_HAPPENED = "This was done. A person has made sure of it; nothing more is known of the result."
"""What the model reads as the result of a call that happened, where nobody says more."""


class DecisionWanted(BaseModel):
    """A decision about one step."""

    model_config = ConfigDict(extra="forbid")

    path: Text = Field(min_length=1, max_length=1_000)
    seq: int = Field(ge=0, description="With `path`, the step, as `GET /v1/runs/{id}/waiting` names it.")
    choice: Literal["approve", "reject", "happened", "again", "skip", "undone"] = Field(
        description="`/approve` takes approve and reject; `/resolve` takes the others. `undone` is for what "
        "happened and was taken back, and may be said at any time."
    )
    note: Text = Field(default="", max_length=2_000, description="Why, for people and for the model.")
    result: Text = Field(
        default="", max_length=100_000, description="With `happened`: what the tool would have answered."
    )


class DecisionsWanted(BaseModel):
    """Decisions about some steps, or one for everything that is asked."""

    model_config = ConfigDict(extra="forbid")

    decisions: list[DecisionWanted] = Field(default=[], max_length=1_000)
    all: Literal["approve", "reject", "happened", "again", "skip"] | None = None
    note: Text = Field(
        default="", max_length=2_000, description="The note of each decision that has none of its own."
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if bool(self.decisions) == (self.all is not None):
            raise ValueError("send either `decisions`, at least one, or `all`")
        return self


def decided(
    verb: Verb, wanted: DecisionsWanted, report: RunReport, journal: JournalPage
) -> tuple[Decision, ...]:
    """The decisions that a person's words are.

    Args:
        verb: The door they came to.
        wanted: The words.
        report: Where the run stands.
        journal: What is asked, and what happened.

    Raises:
        Conflict: The run does not wait for a decision.
        WrongDecision: A step is not asked about, or not so.
    """
    given = wanted.decisions
    if wanted.all is not None or any(each.choice != "undone" for each in given):
        _see_that_it_waits(report, journal)
    if wanted.all is not None:
        given = [DecisionWanted(path=ask.path, seq=ask.seq, choice=wanted.all) for ask in journal.waiting]
    asked = {(ask.path, ask.seq): ask for ask in journal.waiting}
    steps = {(step.path, step.seq): step for step in journal.steps}
    for (path, seq), times in Counter((each.path, each.seq) for each in given).items():
        if times > 1:
            raise WrongDecision(f"there are {times} decisions about step {path}/{seq}; send one")
    for each in given:
        _see_that_it_fits(verb, each, asked.get((each.path, each.seq)), steps.get((each.path, each.seq)))
    return tuple(_decision(each, wanted.note) for each in given)


def _see_that_it_waits(report: RunReport, journal: JournalPage) -> None:
    if not report.state.is_waiting:
        raise Conflict(f"run {report.run_id} does not wait for a decision; it is {report.state}")
    if not journal.waiting:
        raise Conflict(f"run {report.run_id} is {report.state}, but nothing is asked any more; look again")


def _see_that_it_fits(verb: Verb, decision: DecisionWanted, ask: Ask | None, step: StepReport | None) -> None:
    where = f"step {decision.path}/{decision.seq}"
    if decision.choice not in CHOICES[verb]:
        raise WrongDecision(
            f"{where}: /{verb} takes {_either(CHOICES[verb])}, not {decision.choice}; use /{_other(verb)}"
        )
    if decision.result and decision.choice != "happened":
        raise WrongDecision(f"{where}: a result goes with `happened`, not with {decision.choice}")
    if decision.choice == "undone":
        if step is None or step.effect is None or step.effect.state != "confirmed":
            raise WrongDecision(f"{where}: nothing is known to have happened there that could be undone")
    elif ask is None:
        raise WrongDecision(f"{where}: nothing is asked about it; GET /v1/runs/<id>/waiting says what is")
    elif decision.choice not in ask.choices:
        raise WrongDecision(f"{where} ({ask.tool}) takes {_either(ask.choices)}, not {decision.choice}")


def _decision(wanted: DecisionWanted, note: str) -> Decision:
    result = wanted.result or (IT_HAPPENED if wanted.choice == "happened" else "")
    return Decision(
        path=wanted.path, seq=wanted.seq, choice=wanted.choice, note=wanted.note or note, result=result
    )


def _other(verb: Verb) -> Verb:
    return "resolve" if verb == "approve" else "approve"


def _either(choices: Sequence[str]) -> str:
    return " or ".join(choices)
