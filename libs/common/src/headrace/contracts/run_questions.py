"""What a runner can be asked about runs."""

from datetime import datetime
from typing import ClassVar

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
