"""The state of a mail server: the script in progress, the mails accepted, the connections that stand still."""

from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase

from tests.fakes.mail_server.record import Record
from tests.fakes.mail_server.script import Fault, Point, Refusal, Script
from tests.fakes.scripted_model.holds import Holds


class ConnectionDropped(Exception):
    """The script wants this connection to break here."""


class Stage:
    """What SMTP, IMAP and the control door share."""

    def __init__(self) -> None:
        self.script = Script()
        self.record = Record()
        self.holds = Holds()
        self._happened: Counter[int] = Counter()

    def play(self, script: Script) -> None:
        """Replace the script; its faults are counted anew."""
        self.script = script
        self._happened.clear()

    def forget(self) -> None:
        """Start a new record and drop the connections that stand still: they belong to the old one."""
        self.record = Record()
        self.holds.abandon()

    async def meet(self, at: Point, *, to: Sequence[str] = ()) -> Refusal | None:
        """Pass a point, or be held at it; return the refusal that is due there.

        Raises:
            ConnectionDropped: The connection is to break here.
        """
        fault = self._next_fault(at, to)
        if fault is None:
            return None
        held_for_good = fault.hold is not None and not await self.holds.wait(fault.hold)
        if held_for_good or fault.drop:
            raise ConnectionDropped
        return fault.refuse

    def _next_fault(self, at: Point, to: Sequence[str]) -> Fault | None:
        for index, fault in enumerate(self.script.faults):
            used_up = fault.times is not None and self._happened[index] >= fault.times
            if fault.at == at and not used_up and _fits(fault, to):
                self._happened[index] += 1
                return fault
        return None


def _fits(fault: Fault, to: Sequence[str]) -> bool:
    return fault.to == "*" or any(fnmatchcase(address.lower(), fault.to.lower()) for address in to)
