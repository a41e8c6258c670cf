"""The agent loop: model, tools, model, until there is an answer."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.common.telemetry import span
from headrace.contracts.agents import AgentRevision
from headrace.contracts.runs import TokenCount, ToolCalled, ToolReturned
from headrace.runner.errors import ModelFailed
from headrace.runner.limits import RunLimits
from headrace.runner.model import Model, ModelRequest, ModelTurn, ToolCall
from headrace.runner.teller import Teller
from headrace.runner.tools.base import Tool, ToolError, declaration


@dataclass(slots=True)
class Conversation:
    """What an attempt reads and adds to: the instruction, what was said before, and what is said now."""

    instruction: str
    earlier: list[dict[str, Any]]
    current: list[dict[str, Any]]
    tokens: TokenCount = field(default_factory=TokenCount)
    calls: int = 0

    def messages(self) -> tuple[dict[str, Any], ...]:
        """All that a model reads, the stable part first."""
        system = [{"role": "system", "content": self.instruction}] if self.instruction else []
        return (*system, *self.earlier, *self.current)


class AgentLoop:
    """Runs one agent over one conversation.

    Args:
        model: Calls models.
        tools: Every tool there is, by name.
        limits: The run's ceilings.
        tool_timeout: Seconds for one tool call.
    """

    def __init__(
        self, model: Model, tools: Mapping[str, Tool], limits: RunLimits, *, tool_timeout: float
    ) -> None:
        self._model, self._tools, self._limits, self._tool_timeout = model, tools, limits, tool_timeout

    async def run(
        self,
        agent: AgentRevision,
        conversation: Conversation,
        teller: Teller,
        *,
        account: Callable[[ModelTurn, float], Awaitable[None]],
    ) -> str:
        """Go on until the model answers without asking for a tool.

        Args:
            agent: Its instruction, model and tools.
            conversation: Read, and added to.
            teller: Told what happens.
            account: Told of each model call and its seconds.

        Returns:
            The answer.

        Raises:
            LimitReached: The run met a ceiling.
            ModelFailed | ModelRefused: The model did not answer.
        """
        tools = {name: self._tools[name] for name in sorted(agent.tools) if name in self._tools}
        declared = tuple(declaration(tool) for tool in tools.values())
        begun = asyncio.get_running_loop().time()
        asked_again = False
        while True:
            now = asyncio.get_running_loop().time()
            self._limits.check_before_model_call(calls_made=conversation.calls, seconds_spent=now - begun)
            request = ModelRequest(agent.model, conversation.messages(), declared)
            turn = await self._model.call(request, on_text=teller.text)
            conversation.calls += 1
            conversation.tokens += turn.tokens
            await account(turn, asyncio.get_running_loop().time() - now)
            if turn.is_empty:
                if asked_again:
                    raise ModelFailed(f"{turn.model} answered with nothing, twice")
                asked_again = True
                continue
            asked_again = False
            conversation.current.append(turn.as_message())
            if not turn.tool_calls:
                return turn.text
            conversation.current += await self._use_tools(turn, tools, agent, teller)

    async def _use_tools(
        self, turn: ModelTurn, tools: Mapping[str, Tool], agent: AgentRevision, teller: Teller
    ) -> list[dict[str, Any]]:
        """Use all tools of a turn at once; answers their results in the order in which they were asked for."""
        for call in turn.tool_calls:
            await teller.tell(ToolCalled(call_id=call.call_id, name=call.name, arguments=call.arguments))
        results = await asyncio.gather(
            *(self._use(call, tools, agent.account_id, teller) for call in turn.tool_calls)
        )
        return [
            {"role": "tool", "tool_call_id": call.call_id, "content": result}
            for call, result in zip(turn.tool_calls, results, strict=True)
        ]

    async def _use(self, call: ToolCall, tools: Mapping[str, Tool], account_id: str, teller: Teller) -> str:
        """One tool's result; what went wrong is told to the model, which may do better."""
        failed = False
        with span("tool call", tool=call.name):
            try:
                async with asyncio.timeout(self._tool_timeout):
                    tool, arguments = _resolve(call, tools)
                    result = await tool.call(arguments, account_id=account_id)
            except ToolError as error:
                failed, result = True, f"error: {error}"
            except TimeoutError:
                failed, result = True, f"error: {call.name} took longer than {self._tool_timeout:.0f} s"
        await teller.tell(ToolReturned(call_id=call.call_id, name=call.name, result=result, is_error=failed))
        return result


def _resolve(call: ToolCall, tools: Mapping[str, Tool]) -> tuple[Tool, dict[str, Any]]:
    """Find the tool and read its arguments. Arguments that cannot be read are never guessed.

    Raises:
        ToolError: There is no such tool, or the arguments are not a JSON object.
    """
    tool = tools.get(call.name)
    if tool is None:
        raise ToolError(f"there is no tool {call.name!r}; there are: {', '.join(tools) or 'none'}")
    try:
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError) as error:  # also a number of 5,000 digits, or 100,000 brackets
        raise ToolError(f"the arguments are not JSON ({error}); nothing was done") from error
    if not isinstance(arguments, dict):
        raise ToolError("the arguments must be a JSON object; nothing was done")
    return tool, arguments
