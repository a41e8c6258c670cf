"""The time, so that it need not stand in the prompt, where it would spoil every cached prefix."""

from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from headrace.common.clock import Clock
from headrace.tools import Tool, ToolError, tool


def current_time_tool(clock: Clock) -> Tool:
    """The tool that tells the time of a clock."""

    @tool(effect="none")
    async def current_time(time_zone: str = "UTC") -> str:
        """The current date and time, in a time zone (UTC unless one is given).

        Args:
            time_zone: An IANA name such as Europe/Berlin
        """
        name = time_zone or "UTC"
        try:
            zone = ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ToolError(f"there is no time zone {name!r}") from error
        return f"{clock.now().astimezone(zone).isoformat(timespec='seconds')} ({name})"

    return current_time
