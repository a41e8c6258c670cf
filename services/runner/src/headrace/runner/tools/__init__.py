"""The tools that an agent can be given. The list is explicit: what is not here does not exist."""

from collections.abc import Mapping

from headrace.common.clock import Clock
from headrace.common.rpc import Rpc
from headrace.runner.tools.base import Tool
from headrace.runner.tools.calculate import Calculate
from headrace.runner.tools.current_time import CurrentTime
from headrace.runner.tools.search_knowledge import SearchKnowledgeTool


def all_tools(clock: Clock, rpc: Rpc) -> Mapping[str, Tool]:
    """Every tool by its name, in name order."""
    tools: tuple[Tool, ...] = (Calculate(), CurrentTime(clock), SearchKnowledgeTool(rpc))
    return {tool.name: tool for tool in sorted(tools, key=lambda tool: tool.name)}
