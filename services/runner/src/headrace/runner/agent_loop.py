"""The agent loop: model, tools, model, until there is an answer. It is the same whether steps are made or read back."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from headrace.contracts.agents import AgentRevision
from headrace.contracts.runs import TokenCount
from headrace.runner.limits import RunLimits
from headrace.runner.model import ModelRequest, ModelTurn
from headrace.runner.steps import Frame, Place, ToolResult
from headrace.tools import Tool


@dataclass(slots=True)
class Conversation:
    """What a run reads and adds to: the instruction, what was said before, and what is said now."""

    instruction: str
    earlier: list[dict[str, Any]]
    current: list[dict[str, Any]]
    tokens: TokenCount = field(default_factory=TokenCount)
    calls: int = 0

    def messages(self) -> tuple[dict[str, Any], ...]:
        """All that a model reads, the stable part first."""
        system = [{"role": "system", "content": self.instruction}] if self.instruction else []
        return (*system, *self.earlier, *self.current)

    def add(self, turn: ModelTurn) -> None:
        """Add what a model said, and what it cost."""
        self.calls += 1
        self.tokens += turn.tokens
        self.current.append(turn.as_message())

    def add_results(self, turn: ModelTurn, results: Sequence[ToolResult]) -> None:
        """Add what the tools of a turn answered, in the order in which they were asked."""
        self.current += [
            {"role": "tool", "tool_call_id": call.call_id, "content": result.text}
            for call, result in zip(turn.tool_calls, results, strict=True)
        ]


class Steps(Protocol):
    """What makes the steps that are not finished, and reads back those that are."""

    async def model(self, place: Place, request: ModelRequest) -> ModelTurn:
        """A turn of the model."""

    async def tools(
        self, places: Sequence[Place], turn: ModelTurn, tools: Mapping[str, Tool]
    ) -> Sequence[ToolResult]:
        """The results of all the calls of a turn, in order."""


async def run(
    agent: AgentRevision,
    conversation: Conversation,
    steps: Steps,
    *,
    tools: Mapping[str, Tool],
    limits: RunLimits,
) -> str:
    """Run an agent until the model answers without asking for a tool.

    Args:
        agent: Its instruction, model and tools.
        conversation: Read, and added to.
        steps: Makes the steps.
        tools: Every tool there is, by name.
        limits: The run's ceilings.

    Returns:
        The answer.

    Raises:
        LimitReached: The run met a ceiling.
        ModelFailed | ModelRefused: The model did not answer.
        Parked: A person must decide first.
    """
    own = {name: tools[name] for name in sorted(agent.tools) if name in tools}
    declared = tuple(tool.declaration() for tool in own.values())
    frame, begun = Frame(), time.monotonic()
    while True:
        limits.check_before_model_call(
            calls_made=conversation.calls,
            tokens=conversation.tokens.total,
            seconds_spent=time.monotonic() - begun,
        )
        request = ModelRequest(agent.model, conversation.messages(), declared)
        turn = await steps.model(frame.next(), request)
        conversation.add(turn)
        if not turn.tool_calls:
            return turn.text
        places = [frame.next() for _ in turn.tool_calls]
        conversation.add_results(turn, await steps.tools(places, turn, own))
