"""Fire: one due instant of a schedule, and the run that it asks for. Its name is derived, so every replica gives the same."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headrace.contracts.ids import AccountId, AgentId, RunId, Token, trigger_id
from headrace.contracts.runs import ChatMessage, Door, Lane, RunRequested


@dataclass(frozen=True, slots=True, kw_only=True)
class Fire:
    """A schedule at an instant."""

    schedule_id: Token
    account_id: AccountId
    agent_id: AgentId
    prompt: str
    every: timedelta
    fire_at: datetime

    @property
    def run_id(self) -> RunId:
        """One run per schedule and instant."""
        return trigger_id("schedule", self.schedule_id, self._instant)

    def request(self, *, now: datetime) -> RunRequested:
        """The run that the instant asks for."""
        return RunRequested(
            run_id=self.run_id,
            door=Door.SCHEDULE,
            lane=Lane.BACKGROUND,
            account_id=self.account_id,
            agent_id=self.agent_id,
            trigger=f"{self.schedule_id}@{self._instant}",
            input=(ChatMessage(role="user", content=self.prompt),),
            requested_at=now,
        )

    @property
    def _instant(self) -> str:
        return self.fire_at.astimezone(UTC).isoformat()
