"""Serves a scripted model: `python -m tests.fakes.scripted_model --port 0`.

Prints one JSON line with its `url` when it listens; ends on SIGTERM, or when its standard input closes, so that it
never outlives the test run that started it.
"""

import argparse
import json
import os
import socket
import sys
import threading

import uvicorn

from tests.fakes.scripted_model.app import create_app

_KEEP_ALIVE_SECONDS = 600
"""Longer than any test: a connection that the server closes while a client takes it up again fails at random."""


def _serve(host: str, port: int) -> None:
    config = uvicorn.Config(
        create_app(),
        access_log=False,
        backlog=2048,
        lifespan="off",
        log_level="critical",
        timeout_graceful_shutdown=0,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
    )
    server = uvicorn.Server(config)
    with socket.create_server((host, port), backlog=config.backlog) as listener:
        print(json.dumps({"url": f"http://{host}:{listener.getsockname()[1]}"}), flush=True)  # noqa: T201 (the protocol)
        threading.Thread(target=_stop_after_stdin, args=(server,), daemon=True).start()
        server.run(sockets=[listener])


def _stop_after_stdin(server: uvicorn.Server) -> None:
    while os.read(sys.stdin.fileno(), 1024):
        continue
    server.should_exit = True


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(prog="tests.fakes.scripted_model", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument(
        "--port", type=int, default=0, help="TCP port; 0 takes a free one (default: %(default)s)"
    )
    options = parser.parse_args()
    _serve(options.host, options.port)


if __name__ == "__main__":
    main()
