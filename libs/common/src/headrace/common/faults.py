"""Named points at which a drill kills the process. Without a drill they are nothing.

A drill is a file (`HEADRACE_FAULTS` names it) with one line `<point> <count>`. The process that passes the point for
the count-th time takes the file away and dies by SIGKILL: no handler runs, no buffer is written, as if the machine had
lost its power.
"""

import os
import signal
from collections import Counter
from pathlib import Path

_passed: Counter[str] = Counter()
_drill: Path | None = None


def watch(drill: Path | None) -> None:
    """Look for a drill at this path from now on; never again, where there is none."""
    global _drill  # noqa: PLW0603  (a process dies as a whole)
    _drill = drill


def point(name: str) -> None:
    """Pass a point. Its name is `<service or consumer>.<what>.<before, or after, or a moment>`."""
    if _drill is not None:
        _pass(_drill, name)


def _pass(drill: Path, name: str) -> None:
    try:
        wanted, count = drill.read_text().split()
    except (FileNotFoundError, ValueError):
        _passed.clear()
        return
    if wanted != name:
        return
    _passed[name] += 1
    if _passed[name] >= int(count):
        try:
            drill.rename(f"{drill}.{os.getpid()}")
        except FileNotFoundError:  # another process was quicker
            return
        os.kill(os.getpid(), signal.SIGKILL)
