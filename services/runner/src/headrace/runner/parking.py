"""Parking: a run that needs a person's decision waits in the database, with no process behind it."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Literal

from headrace.common.clock import Clock
from headrace.contracts.agents import AgentRevision
from headrace.runner.calls import Call
from headrace.runner.journal import Recorded
from headrace.runner.steps import Step


class Parked(Exception):
    """The run cannot go on before a person decides.

    Args:
        state: What is asked: whether something may be done, or whether it was done.
        steps: What is asked about; questions for approval that are new, or asked anew, are yet to be written.
    """

    def __init__(self, state: Literal["waiting_approval", "waiting_review"], steps: Sequence[Step]) -> None:
        super().__init__(state)
        self.state: Literal["waiting_approval", "waiting_review"] = state
        self.steps = steps


class Approvals:
    """Sees that what a person must allow is allowed: this very call, once, in time.

    Args:
        journal: Where questions and answers are.
        agent: Which tools it may not use unasked.
        clock: The time.
        good_for: How long a question waits, and how long its answer counts after that.
    """

    def __init__(self, journal: Recorded, agent: AgentRevision, clock: Clock, *, good_for: timedelta) -> None:
        self._journal, self._agent, self._clock, self._good_for = journal, agent, clock, good_for

    async def allowed(self, calls: Sequence[Call]) -> list[Call]:
        """The calls of one turn, those that a person rejected as refused ones.

        Raises:
            Parked: A person is yet to be asked, or to answer; then no call of the turn is made.
        """
        now = self._clock.now()
        answers = [(call, self._answer(call, now)) for call in calls]
        questions = [step for _, step in answers if step is not None and step.state == "intent"]
        if questions:
            raise Parked("waiting_approval", questions)
        return [_as_decided(call, step) for call, step in answers]

    def _answer(self, call: Call, now: datetime) -> Step | None:
        """The question about a call with its answer; asked anew where no answer counts or none came in time."""
        if not call.needs_approval(self._agent):
            return None
        nth = 1
        while (step := self._journal.find(call.place.approval(nth))) is not None:
            counts = step.digest == call.digest and step.expires_at is not None and step.expires_at > now
            if counts or (step.output or {}).get("choice") == "reject":
                return step
            if step.state == "intent":
                return replace(step, digest=call.digest, expires_at=now + self._good_for)
            nth += 1
        return Step(
            place=call.place.approval(nth),
            kind="approval",
            name=call.asked.name,
            call_id=call.asked.call_id,
            digest=call.digest,
            expires_at=now + self._good_for,
        )


def _as_decided(call: Call, step: Step | None) -> Call:
    output = (step.output if step is not None else None) or {}
    if output.get("choice") != "reject":
        return call
    note = str(output.get("note") or "")
    return call.refused("a person refused this call" + (f": {note}" if note else ""))
