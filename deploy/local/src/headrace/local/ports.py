"""The ports of a deployment, the same at every start as long as nobody else takes them."""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from headrace.local.loopback import free_port, is_free
from headrace.local.private_file import write_private


def choose_ports(
    path: Path, names: Iterable[str], *, fixed: Mapping[str, int], say: Callable[[str], None]
) -> dict[str, int]:
    """Choose a port for each name, and remember it.

    Args:
        path: Where the ports of the last start are written down.
        names: Who needs one.
        fixed: Ports that the user chose; they are taken as they are.
        say: Takes one line about each remembered port that somebody else has taken meanwhile.
    """
    remembered: dict[str, int] = json.loads(path.read_text()) if path.exists() else {}
    chosen: dict[str, int] = {}
    for name in names:
        port = fixed.get(name) or remembered.get(name)
        if port is None or (name not in fixed and not is_free(port)):
            fresh = _unused(chosen)
            if port:
                say(f"port {port} of {name} is taken by another program; {name} moves to {fresh}")
            port = fresh
        chosen[name] = port
    write_private(path, json.dumps(remembered | chosen, indent=1))
    return chosen


def _unused(chosen: Mapping[str, int]) -> int:
    while (port := free_port()) in chosen.values():
        pass
    return port
