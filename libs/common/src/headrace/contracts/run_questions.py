"""What a runner can be asked about runs."""

from datetime import datetime
from typing import ClassVar

from pydantic import Field

from headrace.contracts.ids import AccountId, RunId
from headrace.contracts.message import Contract
from headrace.contracts.question import Question
from headrace.contracts.runs import Door, RunState, TokenCount


class RunReport(Contract):
    """Where a run stands."""

    run_id: RunId
    account_id: AccountId
    agent_id: str
    agent_revision: int | None = None
    session_id: str | None
    door: Door
    state: RunState
    attempt: int
    epoch: int = 0
    """How often the run was taken; numbers its events."""
    output: str | None = None
    error_code: str | None = None
    error: str | None = None
    usage: TokenCount | None = None
    replay_of: RunId | None = None
    requested_at: datetime
    finished_at: datetime | None = None


class FindRun(Question[RunReport]):
    """Where one run of an account stands."""

    service: ClassVar[str] = "runner"
    verb: ClassVar[str] = "find-run"
    reply: ClassVar[type[Contract]] = RunReport

    account_id: AccountId
    run_id: RunId


class ToolUse(Contract):
    """How often the runs that were looked at called one tool."""

    tool: str
    calls: int
    runs: int
    """Runs that called it at least once."""


class AgentUse(Contract):
    """What an agent's last runs did."""

    runs: int
    """How many were looked at."""
    model_calls: int
    tokens: TokenCount
    """Of finished model calls."""
    tools: tuple[ToolUse, ...]
    """In name order; a tool that is not here was not called."""


class ReadAgentUse(Question[AgentUse]):
    """What the last runs of an agent called."""

    service: ClassVar[str] = "runner"
    verb: ClassVar[str] = "read-agent-use"
    reply: ClassVar[type[Contract]] = AgentUse

    account_id: AccountId
    agent_id: str
    last: int = Field(default=100, ge=1, le=10_000)
    """So many runs, the newest."""
