"""What every service can be asked and can say about deliveries."""

from datetime import datetime
from typing import ClassVar

from headrace.contracts.ids import Token
from headrace.contracts.message import Contract, Message

UNSEEN_VERB = "unseen"
"""Every service that consumes answers `rpc.<service>.unseen`."""


class FindUnseen(Contract):
    """Which of these messages has a consumer not seen? A publisher may forget only what was seen."""

    consumer: Token
    message_ids: tuple[str, ...]


class Unseen(Contract):
    """The ids, of those asked for, that are not in the consumer's inbox."""

    message_ids: tuple[str, ...]


class DeadLetter(Message):
    """A delivery that was given up: what it was, why, and enough to put it back."""

    type: ClassVar[str] = "headrace.delivery.dead.v1"
    address: ClassVar[str] = "dead.{stream}.{consumer}"

    stream: Token
    consumer: Token
    original_id: str
    original_subject: str
    headers: dict[str, str]
    body_base64: str
    reason: str
    deliveries: int
    died_at: datetime

    @property
    def message_id(self) -> str:
        """A message dies once at each consumer."""
        return f"{self.original_id}.dead.{self.consumer}"
