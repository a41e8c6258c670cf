"""Named points at which a drill kills the process. Without a drill they are nothing.

A drill is a file, named by `HEADRACE_FAULTS` when the process starts, with one line `<point> <count>`. The process
that passes the point for the count-th time takes the file away and dies by SIGKILL: no handler runs, no buffer is
written, as if the machine had lost its power.
"""

import os
import signal
from collections import Counter
from pathlib import Path

_FILE = os.environ.get("HEADRACE_FAULTS")
_passed: Counter[str] = Counter()


def point(name: str) -> None:
    """Pass a point. Its name is `<service>.<what>.<before, or after, or a moment>`."""
    if _FILE is not None:
        _pass(Path(_FILE), name)


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
