"""`python -m headrace.local.nursery_process`: imports modules and forks services, at the supervisor's orders.

It makes no event loop, no client and no thread, and answers no signal in a way of its own: a newborn begins like a
fresh interpreter that has only found its imports done.
"""

import gc
import json
import os
import runpy
import socket
import sys
import time
from importlib import import_module

from headrace.local.linux import bound_to, show_command, thread_count

_LONGEST_ORDER = 1 << 20
_ADOPTION_POLL_SECONDS = 0.0005


def main() -> None:
    """Carry out orders until the supervisor hangs up. What follows the loop is done by a newborn only."""
    gc.disable()  # an import leaves little garbage, and looking for it takes a fifth of the time
    supervisor = os.getppid()
    with socket.socket(fileno=os.dup(0)) as line:
        _read_nothing()
        while not (born := _carry_out(line, supervisor)):
            pass
    command, settings = born
    os.environ.update(settings)
    sys.argv[:] = command[2:]
    gc.enable()
    runpy.run_module(command[2], run_name="__main__", alter_sys=True)


def _carry_out(line: socket.socket, supervisor: int) -> tuple[list[str], dict[str, str]] | None:
    """Answers what to run, in a newborn; nothing in the nursery."""
    order, fds, _, _ = socket.recv_fds(line, _LONGEST_ORDER, 2)
    if not order:
        sys.exit()
    if not fds:
        for module in json.loads(order):
            import_module(module)
        gc.freeze()
        line.send(b"done")
        return None
    command, settings = json.loads(order)
    birth, log = fds
    with socket.socket(fileno=birth) as announcement, open(log, "ab") as output:  # noqa: PTH123  (a descriptor)
        if not _is_born():
            return None
        _become(command, supervisor)
        if not _is_awaited(announcement):
            sys.exit("nobody waited for this birth")
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    return command, settings


def _is_born() -> bool:
    """Fork: True in the newborn, which is an orphan, since the process between the two has ended."""
    if (threads := thread_count()) > 1:
        print(f"cannot fork: there are {threads} threads", file=sys.stderr)
        return False
    if child := os.fork():
        os.waitpid(child, 0)
        return False
    between = os.getpid()
    if os.fork():
        os._exit(0)
    while os.getppid() == between:
        time.sleep(_ADOPTION_POLL_SECONDS)
    return True


def _is_awaited(announcement: socket.socket) -> bool:
    try:
        announcement.send(str(os.getpid()).encode())
        return bool(announcement.recv(32))
    except ConnectionError:
        return False


def _become(command: list[str], supervisor: int) -> None:
    if bind := bound_to(supervisor):
        bind()
    os.setpgid(0, 0)
    show_command(command)


def _read_nothing() -> None:
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123  (for its descriptor)
        os.dup2(nothing.fileno(), 0)


if __name__ == "__main__":
    main()
