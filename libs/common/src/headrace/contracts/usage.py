"""What model calls cost, told to the ledger."""

from datetime import datetime
from typing import ClassVar

from headrace.contracts.ids import AccountId, AgentId, RunId
from headrace.contracts.message import Message
from headrace.contracts.runs import TokenCount


class UsageRecorded(Message):
    """One model call was made; `(run_id, path, seq)` names it for ever."""

    type: ClassVar[str] = "headrace.usage.recorded.v1"
    address: ClassVar[str] = "usage.recorded.{account_id}"

    account_id: AccountId
    run_id: RunId
    agent_id: AgentId
    path: str
    """The frame of the run that called: `root` for the agent that was asked."""
    seq: int
    model: str
    is_shared: bool = False
    """Whether it was the platform's own model, which is capped; a call on an account's own key is only recorded."""
    tokens: TokenCount
    latency_ms: int
    recorded_at: datetime

    @property
    def message_id(self) -> str:
        """One ledger row per model call."""
        return f"{self.run_id}.usage.{self.path}.{self.seq}"
