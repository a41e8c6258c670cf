"""The children's log files."""

from collections import deque
from pathlib import Path
from typing import BinaryIO

ROTATE_AT_BYTES = 10_000_000


def open_log(path: Path) -> BinaryIO:
    """Open a log for appending; one that has grown past `ROTATE_AT_BYTES` becomes `<name>.log.1` first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size > ROTATE_AT_BYTES:
        path.replace(path.with_name(f"{path.name}.1"))
    return path.open("ab")


def tail(path: Path, lines: int = 15) -> str:
    """The last lines of a log; empty where there is none."""
    if not path.exists():
        return ""
    with path.open(errors="replace") as file:
        return "".join(deque(file, maxlen=lines)).rstrip()
