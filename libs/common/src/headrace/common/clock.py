"""Clock: the time is an input."""

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> datetime:
        """The current instant, in UTC."""


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """The current instant, in UTC."""
        return datetime.now(UTC)
