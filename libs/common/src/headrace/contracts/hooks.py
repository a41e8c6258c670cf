"""Webhook deliveries: what came in, and the questions of the webhooks service."""

from typing import ClassVar

from headrace.contracts.ids import AccountId, AgentId, Token
from headrace.contracts.message import Contract, Message
from headrace.contracts.question import Question


class HookReceived(Message):
    """A verified delivery is stored in the webhooks service's own table; this wakes the one who turns it into a run."""

    type: ClassVar[str] = "headrace.hook.received.v1"
    address: ClassVar[str] = "hook.received.{provider}.{subscription_id}"

    provider: Token
    subscription_id: Token
    delivery_id: Token

    @property
    def message_id(self) -> str:
        """One wake-up per stored delivery."""
        return f"{self.delivery_id}.received"


class Subscription(Contract):
    """A place for signed events to arrive, and the agent that they start."""

    subscription_id: Token
    account_id: AccountId
    agent_id: AgentId
    name: str
    url: str
    secret: str | None = None
    """The signing secret (`whsec_...`), told once, when the subscription is made."""


class CreateSubscription(Question[Subscription]):
    """Open an address for Standard Webhooks that starts runs of an agent. Asking twice with one id gives one subscription."""

    service: ClassVar[str] = "webhooks"
    verb: ClassVar[str] = "create-subscription"
    reply: ClassVar[type[Contract]] = Subscription

    subscription_id: Token
    account_id: AccountId
    agent_id: AgentId
    name: str


class Subscriptions(Contract):
    """A list of subscriptions, without their secrets."""

    items: tuple[Subscription, ...]


class ListSubscriptions(Question[Subscriptions]):
    """The subscriptions of an account."""

    service: ClassVar[str] = "webhooks"
    verb: ClassVar[str] = "list-subscriptions"
    reply: ClassVar[type[Contract]] = Subscriptions

    account_id: AccountId


class Deleted(Contract):
    """Whether there was something to delete."""

    existed: bool


class DeleteSubscription(Question[Deleted]):
    """Close the address; later deliveries are refused."""

    service: ClassVar[str] = "webhooks"
    verb: ClassVar[str] = "delete-subscription"
    reply: ClassVar[type[Contract]] = Deleted

    account_id: AccountId
    subscription_id: Token
