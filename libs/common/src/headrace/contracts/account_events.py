"""What an account should know of without asking: facts for people, kept for a month."""

from datetime import date, datetime
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from headrace.contracts.ids import AccountId, Token
from headrace.contracts.limits import Scope
from headrace.contracts.message import Contract, Message


class ThresholdReached(Contract):
    """A part of a monthly allowance is spent."""

    kind: Literal["quota.threshold"] = "quota.threshold"
    scope: Scope
    subject: str
    percent: int
    """80 or 100."""
    limit: int
    spent: int
    period: date
    """The first day of the month."""
    resets_at: datetime


class GateUnread(Contract):
    """Rate and concurrency could not be read, so runs were let in without them (`open`) or waited (`closed`)."""

    kind: Literal["gate.unread"] = "gate.unread"
    policy: Literal["open", "closed"]
    error: str


AccountNews = Annotated[ThresholdReached | GateUnread, Field(discriminator="kind")]


class AccountEvent(Message):
    """Something an account should know of."""

    type: ClassVar[str] = "headrace.account.event.v1"
    address: ClassVar[str] = "account.event.{account_id}"

    account_id: AccountId
    event_id: Token
    """The same for the same fact, however often it is noticed."""
    at: datetime
    news: AccountNews

    @property
    def message_id(self) -> str:
        """One message per fact."""
        return f"{self.account_id}.event.{self.event_id}"
