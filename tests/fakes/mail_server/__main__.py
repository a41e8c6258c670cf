"""Serves a mail provider: `python -m tests.fakes.mail_server`.

Prints one JSON line with the `url` of its control door and the ports of `smtp` and `imap` when all listen; ends on
SIGTERM, or when its standard input closes, so that it never outlives the test run that started it.
"""

import argparse
import asyncio
import json
import logging
import os
import socket
import sys
import threading
import warnings

import uvicorn

from tests.fakes.mail_server.control import create_app
from tests.fakes.mail_server.imap import ImapDoor
from tests.fakes.mail_server.smtp import SmtpConnection, SmtpDoor
from tests.fakes.mail_server.stage import Stage

_BACKLOG = 2048
_KEEP_ALIVE_SECONDS = 600
"""Longer than any test: a connection that the server closes while a client takes it up again fails at random."""


async def _serve(host: str, *, user: str, password: str) -> None:
    stage = Stage()
    smtp_door = SmtpDoor(stage, user=user, password=password)
    imap_door = ImapDoor(stage, user=user, password=password)
    loop = asyncio.get_running_loop()
    smtp = await loop.create_server(lambda: SmtpConnection(smtp_door), host, 0, backlog=_BACKLOG)
    imap = await asyncio.start_server(imap_door.serve, host, 0, backlog=_BACKLOG)
    config = uvicorn.Config(
        create_app(stage),
        access_log=False,
        backlog=_BACKLOG,
        lifespan="off",
        log_level="critical",
        timeout_graceful_shutdown=0,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
    )
    control = uvicorn.Server(config)
    with socket.create_server((host, 0), backlog=_BACKLOG) as listener:
        ready = {"url": f"http://{host}:{_port(listener)}", "smtp": _port(smtp), "imap": _port(imap)}
        print(json.dumps(ready), flush=True)  # noqa: T201 (the protocol)
        threading.Thread(target=_stop_after_stdin, args=(control,), daemon=True).start()
        await control.serve(sockets=[listener])


def _port(server: asyncio.Server | socket.socket) -> int:
    listener = server.sockets[0] if isinstance(server, asyncio.Server) else server
    return int(listener.getsockname()[1])


def _stop_after_stdin(server: uvicorn.Server) -> None:
    while os.read(sys.stdin.fileno(), 1024):
        continue
    server.should_exit = True


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(prog="tests.fakes.mail_server", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--user", default="agent@example.com", help="login of SMTP and IMAP")
    parser.add_argument("--password", default="mail-password", help="its password")
    options = parser.parse_args()
    # aiosmtpd warns that AUTH without TLS is unsafe, which it is: this server listens on loopback only.
    warnings.filterwarnings("ignore", "Requiring AUTH while not requiring TLS")
    logging.getLogger("mail.log").setLevel(logging.CRITICAL)
    asyncio.run(_serve(options.host, user=options.user, password=options.password))


if __name__ == "__main__":
    main()
