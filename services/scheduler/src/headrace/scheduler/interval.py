"""The instants of an interval, decided purely.

Missed instants are skipped: after a gap (the service was down, or slow) the oldest missed instant fires once, and
the schedule goes on at the next instant of its own grid. It neither catches up nor shifts.
"""

from datetime import datetime, timedelta


def next_fire(fired_at: datetime, *, every: timedelta, now: datetime) -> datetime:
    """The first instant of a schedule's grid that is strictly later than now.

    Args:
        fired_at: Any instant of the grid; the one that is firing.
        every: The distance of the grid's instants, more than zero.
        now: The current instant, not before `fired_at`.
    """
    return fired_at + ((now - fired_at) // every + 1) * every
