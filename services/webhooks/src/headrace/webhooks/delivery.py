"""Delivery: one signed event as it came, and the run that it asks for. The names of both are derived, so a copy has the same."""

from dataclasses import dataclass
from datetime import datetime

from headrace.contracts.hooks import HookReceived
from headrace.contracts.ids import AccountId, AgentId, RunId, Token, trigger_id
from headrace.contracts.runs import ChatMessage, Door, Lane, RunRequested

PROVIDER = "standard"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """An event with all that its run needs, so that it outlives the subscription it came through."""

    subscription_id: Token
    subscription_name: str
    account_id: AccountId
    agent_id: AgentId
    event_id: str
    body: bytes
    content_type: str
    received_at: datetime

    @property
    def delivery_id(self) -> Token:
        """One row per event of a subscription."""
        return trigger_id("webhook-delivery", self.subscription_id, self.event_id)

    @property
    def run_id(self) -> RunId:
        """One run per event of a subscription."""
        return trigger_id("webhook", self.subscription_id, self.event_id)

    def wake_up(self) -> HookReceived:
        """The message that has the stored event made a run."""
        return HookReceived(
            provider=PROVIDER, subscription_id=self.subscription_id, delivery_id=self.delivery_id
        )

    def request(self) -> RunRequested:
        """The run that the event asks for."""
        return RunRequested(
            run_id=self.run_id,
            door=Door.WEBHOOK,
            lane=Lane.BACKGROUND,
            account_id=self.account_id,
            agent_id=self.agent_id,
            trigger=self.event_id,
            input=(ChatMessage(role="user", content=self._told()),),
            requested_at=self.received_at,
        )

    def _told(self) -> str:
        event = self.body.decode(errors="replace")
        return f"Event {self.event_id} arrived through the webhook {self.subscription_name}.\n\n{event}"
