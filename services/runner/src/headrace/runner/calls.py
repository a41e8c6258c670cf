"""Tool calls: read as the model wrote them, refused with a sentence or made, and written down."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from headrace.common.telemetry import span
from headrace.contracts.agents import AgentRevision
from headrace.contracts.runs import RunRequested
from headrace.runner.deeds import Deed, Deeds, Doubt
from headrace.runner.errors import JournalMismatch
from headrace.runner.journal import Journal
from headrace.runner.model import ModelTurn, ToolCall
from headrace.runner.steps import Place, Step, ToolResult
from headrace.tools import Done, Failed, Outcome, Tool, ToolContext, ToolError, Unknown, perform

AT_ONCE = 16
"""Calls of one run that are made at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call that a model asked for, as far as it can be understood."""

    place: Place
    asked: ToolCall
    tool: Tool | None
    arguments: dict[str, Any]
    refusal: str | None = None
    """Why it cannot be made, in a sentence for the model."""

    @property
    def step(self) -> Step:
        """The call's row in the journal, before it is made."""
        return Step(place=self.place, kind="tool", name=self.asked.name, call_id=self.asked.call_id)

    @property
    def digest(self) -> str:
        """What an approval is bound to: the tool, its version, and every argument."""
        version = "" if self.tool is None else self.tool.version
        exact = json.dumps([self.asked.name, version, self.arguments], sort_keys=True, default=str)
        return hashlib.sha256(exact.encode()).hexdigest()

    def needs_approval(self, agent: AgentRevision) -> bool:
        """Whether a person must say yes first."""
        if self.tool is None or self.refusal is not None:
            return False
        return self.tool.approval or self.tool.name in agent.approvals

    def refused(self, sentence: str) -> "Call":
        """The call as one that is not made."""
        return replace(self, refusal=sentence)


def understood(place: Place, asked: ToolCall, tools: Mapping[str, Tool]) -> Call:
    """Find the tool and read its arguments; what cannot be made says why. Arguments are never guessed."""
    tool = tools.get(asked.name)
    call = Call(place=place, asked=asked, tool=tool, arguments={})
    if tool is None:
        return call.refused(f"there is no tool {asked.name!r}; there are: {', '.join(tools) or 'none'}")
    if not asked.arguments.strip() and tool.parameters.get("properties"):
        return call.refused("the arguments were empty; nothing was done")
    try:
        return replace(call, arguments=tool.read(asked.read_arguments()))
    except (ToolError, ValueError) as error:
        return call.refused(f"{error}; nothing was done")


def context_of(request: RunRequested, call: Call) -> ToolContext:
    """What a tool is told of the run that calls it, without secrets."""
    return ToolContext(
        account_id=request.account_id,
        agent_id=request.agent_id,
        run_id=request.run_id,
        session_id=request.session_id,
        door=request.door,
        trigger=request.intent,
        call=str(call.place),
    )


def asked_arguments(steps: Iterable[Step]) -> dict[str, str]:
    """The arguments of each call by its place; they are kept once, in the turn that asked for it."""
    found: dict[str, str] = {}
    for step in steps:
        if step.kind == "model" and step.output is not None:
            with suppress(JournalMismatch):  # what is damaged is shown as it is
                for nth, call in enumerate(ModelTurn.of(step.output, step.tokens).tool_calls, start=1):
                    found[str(Place(step.place.path, step.place.seq + nth))] = call.arguments
    return found


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """Makes the calls of one run that is held.

    Args:
        journal: Where results are written.
        deeds: Does what acts on the world.
        request: Who wants the run, and what started it.
        secrets: What tools may ask for by name.
    """

    journal: Journal
    deeds: Deeds
    request: RunRequested
    secrets: Mapping[str, str]

    async def make(self, call: Call, *, is_last: bool) -> ToolResult | Doubt:
        """Make a call and write its result.

        Args:
            call: What to do.
            is_last: Nothing else is on its way, so that the result may be written with what follows at once.
        """
        with span("tool call", tool=call.asked.name):
            try:
                made = await self._made(call)
            except ToolError as error:
                made = ToolResult(f"error: {error}", is_error=True)
        if isinstance(made, Doubt) or made.is_written:
            return made
        step = call.step.done(made.as_output())
        if is_last:
            self.journal.carry(step)
        else:
            await self.journal.write(step)
        return made

    async def _made(self, call: Call) -> ToolResult | Doubt:
        if call.tool is None or call.refusal is not None:
            return ToolResult(f"error: {call.refusal}", is_error=True)
        context = replace(context_of(self.request, call), secrets=self.secrets)
        if call.tool.effect == "none":
            return _told(await perform(call.tool, call.arguments, context))
        context = _named(call.tool, call.arguments, context)
        step = replace(call.step, effect_key=context.effect_key)
        return await self.deeds.do(Deed(tool=call.tool, arguments=call.arguments, context=context, step=step))


def _named(tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> ToolContext:
    """The context with the names of the effect; a tool that cannot name it does nothing.

    Raises:
        ToolError: One of the tool's own functions broke; the sentence says how.
    """
    try:
        key = tool.effect_key(arguments, context)
        named = replace(context, effect_key=key, provider_key=key)
        if tool.provider_key is None:
            return named
        return replace(named, provider_key=tool.provider_key(key, named))
    except ToolError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"[:300]
        raise ToolError(f"{tool.name} cannot name what it would do ({reason}); nothing was done") from error


def _told(outcome: Outcome) -> ToolResult:
    """An outcome of a tool that cannot write."""
    match outcome:
        case Done(text):
            return ToolResult(text)
        case Failed(sentence) | Unknown(sentence):
            return ToolResult(f"error: {sentence}", is_error=True)
