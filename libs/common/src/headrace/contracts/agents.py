"""Agents: what a runner needs to know of one, and how it asks."""

from typing import ClassVar

from headrace.contracts.ids import AccountId, AgentId
from headrace.contracts.message import Contract
from headrace.contracts.question import Question

TOOLS = ("calculate", "current_time", "read_file", "search_knowledge")
"""The tools that every runner has, in name order; a deployment may have more (`rpc.runner.list-tools`)."""


class AgentRevision(Contract):
    """One saved state of an agent. A revision never changes, so whoever has one may keep it."""

    agent_id: AgentId
    account_id: AccountId
    revision: int
    name: str
    instruction: str
    model: str | None = None
    """A LiteLLM model name; `None` is the platform's default model."""
    tools: tuple[str, ...] = ()
    approvals: tuple[str, ...] = ()
    """The tools whose every call a person must approve, besides those that always ask."""


class FindAgent(Question[AgentRevision]):
    """An agent at a revision, or as it is now."""

    service: ClassVar[str] = "gateway"
    verb: ClassVar[str] = "find-agent"
    reply: ClassVar[type[Contract]] = AgentRevision

    account_id: AccountId
    agent_id: AgentId
    revision: int | None = None
