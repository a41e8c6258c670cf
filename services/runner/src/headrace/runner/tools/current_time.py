"""The time, so that it need not stand in the prompt, where it would spoil every cached prefix."""

from typing import Any, ClassVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from headrace.common.clock import Clock
from headrace.runner.tools.base import ToolError


class CurrentTime:
    """Tells the time in a time zone."""

    name: ClassVar[str] = "current_time"
    description: ClassVar[str] = "The current date and time, in a time zone (UTC unless one is given)."
    parameters: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {"time_zone": {"type": "string", "description": "An IANA name such as Europe/Berlin"}},
    }

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def call(self, arguments: dict[str, Any], *, account_id: str) -> str:  # noqa: ARG002  (the same for every account)
        """The time in ISO 8601, to the second, with its zone."""
        name = str(arguments.get("time_zone") or "UTC")
        try:
            zone = ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ToolError(f"there is no time zone {name!r}") from error
        return f"{self._clock.now().astimezone(zone).isoformat(timespec='seconds')} ({name})"
