"""What the mail server has accepted: the truth that tests compare with what clients believe."""

import email
import email.policy
from collections import Counter, deque
from dataclasses import dataclass, field
from datetime import datetime
from email.message import EmailMessage

from tests.fakes.scripted_model.change import Change

_MAILS_KEPT = 50_000
"""Mails that the record remembers one by one, and that Sent shows; the totals count all."""
_TEXT_KEPT = 20_000
"""Characters of a mail's text that are remembered."""


@dataclass(slots=True, kw_only=True)
class AcceptedMail:
    """One mail, from the moment it was stored.

    Attributes:
        number: 1 for the first since the last reset.
        message_id: As its header says, with its angle brackets; empty without the header.
        sender: Of the envelope, as are the recipients.
        text: Its plain part, with line feeds only.
        headers: Names of its headers, in order.
        when: When it was stored, in ISO 8601.
        bytes: Its size, headers included.
    """

    number: int
    message_id: str
    sender: str
    to: list[str]
    subject: str
    text: str
    headers: list[str]
    when: str
    bytes: int


@dataclass(slots=True)
class Totals:
    """Counts since the last reset. Recipients are counted by the address in lower case."""

    accepted: int = 0
    searches: int = 0
    by_recipient: Counter[str] = field(default_factory=Counter)
    by_message_id: Counter[str] = field(default_factory=Counter)

    def report(self) -> dict[str, object]:
        """Return the counts as they go over the wire: `asdict` cannot copy a counter."""
        return {name: getattr(self, name) for name in self.__slots__}


class Record:
    """The mails accepted since the last reset."""

    def __init__(self) -> None:
        self.totals = Totals()
        self._mails: deque[AcceptedMail] = deque(maxlen=_MAILS_KEPT)
        self._missed: Counter[int] = Counter()
        self._change = Change()

    def store(self, content: bytes, *, sender: str, to: list[str], when: datetime) -> None:
        """Accept a mail. It is in Sent from here on, whatever its client gets to hear."""
        message = email.message_from_bytes(content, policy=email.policy.default)
        self.totals.accepted += 1
        mail = AcceptedMail(
            number=self.totals.accepted,
            message_id=str(message["Message-ID"] or "").strip(),
            sender=sender,
            to=to,
            subject=str(message["Subject"] or ""),
            text=_text(message),
            headers=message.keys(),
            when=when.isoformat(),
            bytes=len(content),
        )
        self._mails.append(mail)
        self.totals.by_recipient.update(address.lower() for address in to)
        self.totals.by_message_id[mail.message_id] += 1
        self._change.ring()

    def search(self, message_id: str, *, lag: int) -> list[int]:
        """Numbers of the mails whose Message-ID contains this text, but for those that Sent does not show yet."""
        self.totals.searches += 1
        wanted = message_id.lower()
        found = [mail.number for mail in self._mails if wanted in mail.message_id.lower()]
        missed = [number for number in found if self._missed[number] < lag]
        self._missed.update(missed)
        return [number for number in found if number not in missed]

    def __len__(self) -> int:
        return len(self._mails)

    async def mails(self, *, at_least: int, seconds: float) -> list[AcceptedMail]:
        """Wait, at most so long, until so many are accepted; return all in order of acceptance."""
        await self._change.until(lambda: self.totals.accepted >= at_least, seconds=seconds)
        return list(self._mails)


def _text(message: EmailMessage) -> str:
    body = message.get_body(("plain",))
    return str(body.get_content()).replace("\r\n", "\n")[:_TEXT_KEPT] if body else ""
