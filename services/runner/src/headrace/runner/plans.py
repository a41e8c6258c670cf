"""What resuming a run, or doing it again, would mean: worked out by the same loop, which makes nothing."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from pydantic import ValidationError

from headrace.common.clock import Clock
from headrace.common.errors import Conflict
from headrace.contracts.agents import AgentRevision
from headrace.contracts.journal import PlannedStep, ReplayPlan, ResumePlan
from headrace.contracts.runs import RunRequested, RunState
from headrace.runner.agent_loop import Conversation, run
from headrace.runner.calls import asked_arguments, context_of, understood
from headrace.runner.closing import asked
from headrace.runner.control import RESUMABLE
from headrace.runner.errors import LimitReached
from headrace.runner.journal import Recorded
from headrace.runner.limits import RunLimits
from headrace.runner.model import ModelRequest, ModelTurn, ToolCall
from headrace.runner.parking import Approvals, Parked
from headrace.runner.repository.effects import Entry
from headrace.runner.repository.runs import JOURNAL_VERSION, request_of
from headrace.runner.steps import Place, Step, ToolResult
from headrace.tools import Tool, ToolError


class _WouldRun(Exception):
    """The first steps that are not finished."""

    def __init__(self, steps: Sequence[PlannedStep], request: ModelRequest) -> None:
        super().__init__()
        self.steps, self.request = steps, request


class _PlannedSteps:
    """Reads back what is finished, and stops at what is not."""

    def __init__(self, recorded: Recorded, approvals: Approvals) -> None:
        self._recorded, self._approvals = recorded, approvals
        self.reused: list[PlannedStep] = []
        self._request = ModelRequest(None, (), ())

    async def model(self, place: Place, request: ModelRequest) -> ModelTurn:
        self._request = request
        done = self._recorded.finished(place, "model")
        if done is None:
            planned = PlannedStep(
                path=place.path, seq=place.seq, kind="model", name=request.model or "default"
            )
            raise _WouldRun([planned], request)
        self.reused.append(_planned(done))
        return ModelTurn.of(done.output or {}, done.tokens)

    async def tools(
        self, places: Sequence[Place], turn: ModelTurn, tools: Mapping[str, Tool]
    ) -> Sequence[ToolResult]:
        calls = [understood(place, call, tools) for place, call in zip(places, turn.tool_calls, strict=True)]
        done = [self._recorded.finished(c.place, "tool", call_id=c.asked.call_id) for c in calls]
        self.reused += [_planned(step) for step in done if step is not None]
        missing = [call for call, step in zip(calls, done, strict=True) if step is None]
        if missing:
            try:
                allowed = await self._approvals.allowed(missing)
            except Parked as parked:
                raise _WouldRun([_planned(step) for step in parked.steps], self._request) from parked
            raise _WouldRun([_planned(call.step) for call in allowed], self._request)
        return [ToolResult.of(step) for step in done if step is not None]


def _planned(step: Step) -> PlannedStep:
    return PlannedStep(path=step.place.path, seq=step.place.seq, kind=step.kind, name=step.name)


async def resume_plan(
    row: Any,
    steps: Sequence[Step],
    agent: AgentRevision,
    earlier: list[dict[str, Any]],
    *,
    tools: Mapping[str, Tool],
    limits: RunLimits,
    clock: Clock,
) -> ResumePlan:
    """What resuming a run would do next.

    Args:
        row: The run.
        steps: Its journal.
        agent: The agent at the run's revision.
        earlier: What the run reads of its session.
        tools: Every tool there is.
        limits: The run's ceilings.
        clock: The time.

    Raises:
        Conflict: It cannot be resumed; the sentence says why.
    """
    refuse_to_resume(row)
    recorded = Recorded(steps)
    planned = _PlannedSteps(recorded, Approvals(recorded, agent, clock, good_for=timedelta(days=1)))
    conversation = Conversation(agent.instruction, earlier, asked(_request(row)))
    try:
        await run(agent, conversation, planned, tools=tools, limits=limits)
    except _WouldRun as stop:
        return ResumePlan(
            reused=tuple(planned.reused),
            run=tuple(stop.steps),
            estimated_input_tokens=stop.request.estimated_tokens(),
        )
    except LimitReached as error:
        raise Conflict(f"the run cannot go on: {error.message}") from error
    return ResumePlan(reused=tuple(planned.reused), run=(), estimated_input_tokens=0)


def refuse_to_resume(row: Any) -> None:
    """See that a run may be resumed.

    Raises:
        Conflict: It may not; the sentence says what can be done instead.
    """
    state = RunState(row.state)
    if state.is_waiting:
        raise Conflict(f"the run waits for a decision ({state}); see /v1/runs/{row.run_id}/waiting")
    if state not in RESUMABLE or not row.epoch:
        raise Conflict(f"only a run that failed or was cancelled can be resumed; this one is {state}")
    if row.journal_version not in (None, JOURNAL_VERSION):
        raise Conflict(
            f"the run's journal has version {row.journal_version}, and this deployment writes version "
            f"{JOURNAL_VERSION}; replay the run instead"
        )


def _request(row: Any) -> RunRequested:
    """What a run was asked for.

    Raises:
        Conflict: What is stored of it is damaged.
    """
    try:
        return request_of(row)
    except ValidationError as error:
        raise Conflict("the run's stored request is damaged; ask for a new run instead") from error


def _is_known_again(
    step: Step, given: Mapping[str, str], tools: Mapping[str, Tool], request: RunRequested
) -> bool:
    """Whether the same call in a replay has the key under which the deed was done, as the tool is declared today."""
    asked = ToolCall(step.call_id or "", step.name, given.get(str(step.place), ""))
    call = understood(step.place, asked, tools)
    if call.tool is None or call.refusal is not None or call.tool.effect != "idempotent":
        return False
    try:
        return call.tool.effect_key(call.arguments, context_of(request, call)) == step.effect_key
    except ToolError:
        return False


def replay_plan(
    row: Any, steps: Sequence[Step], ledger: Mapping[str, Entry], tools: Mapping[str, Tool]
) -> ReplayPlan:
    """Whether a run may be done again from its input.

    Args:
        row: The run.
        steps: Its journal.
        ledger: The entries of its calls that touched the world, by key.
        tools: Every tool there is.

    Raises:
        Conflict: It succeeded, or has not ended.
    """
    state, request = RunState(row.state), _request(row)
    if state == RunState.SUCCEEDED:
        raise Conflict("the run succeeded; ask for a new run instead")
    if not state.is_final:
        raise Conflict(f"the run has not ended; it is {state}")
    if row.epoch and row.journal_version is None:
        return ReplayPlan(request=request, allowed=False, why="what the run did was not recorded")
    given = asked_arguments(steps)
    risky: set[str] = set()
    unknown: set[str] = set()
    for step in steps:
        if step.kind != "tool" or step.effect_key is None:
            continue
        entry, tool = ledger.get(step.effect_key), tools.get(step.name)
        if entry is None or tool is None or (entry.state == "confirmed" and entry.is_expired):
            unknown.add(step.name)
        elif entry.state not in ("failed", "undone") and not _is_known_again(step, given, tools, request):
            risky.add(step.name)
    if unknown:
        why = "it is not known whether these tools acted, since the tool or its record is gone"
        return ReplayPlan(request=request, allowed=False, why=why, tools=tuple(sorted(unknown | risky)))
    if risky:
        why = "these tools acted, or may have, and declare no key by which that would be known again"
        return ReplayPlan(request=request, allowed=False, why=why, tools=tuple(sorted(risky)))
    return ReplayPlan(request=request, allowed=True)
