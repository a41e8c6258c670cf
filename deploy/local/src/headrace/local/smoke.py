"""`headrace smoke`: starts a platform of its own, walks every door once, and says in one JSON object how it went."""

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from headrace.local.smoke_paths import Platform, SmokeError, chat, schedule, webhook

START_SECONDS = 120
STOP_SECONDS = 60


def run(argv: list[str]) -> int:
    """Walk the doors; answers 0 where every path led to an answer."""
    parser = argparse.ArgumentParser(prog="headrace smoke", description="Start, try every door, stop.")
    parser.add_argument("--home", type=Path, help="use this data folder instead of a new, temporary one")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="headrace-smoke-") as temporary:
        report = asyncio.run(_report(options.home or Path(temporary)))
    print(json.dumps(report))
    return 0 if report["ok"] else 1


async def _report(home: Path) -> dict[str, Any]:
    begun = time.perf_counter()
    async with started(home) as facts:
        ready = time.perf_counter() - begun
        platform = Platform(facts["url"], facts["api_key"])
        paths = {
            "chat": await _walk(lambda: chat(platform)),
            "webhook": await _walk(lambda: webhook(platform)),
            "schedule": await _walk(lambda: schedule(platform)),
        }
    ok = all("error" not in path and path.get("state", "succeeded") == "succeeded" for path in paths.values())
    return {"ok": ok, "ready_s": round(ready, 2), "paths": paths}


async def _walk(path: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    try:
        return await path()
    except (SmokeError, OSError) as error:
        return {"error": str(error)}
    except Exception as error:  # noqa: BLE001  (a client's own errors are part of the report)
        return {"error": f"{type(error).__name__}: {error}"}


@asynccontextmanager
async def started(home: Path, environment: dict[str, str] | None = None) -> AsyncIterator[dict[str, Any]]:
    """Run `headrace up` on a data folder; gives what it says about itself once it is ready.

    Raises:
        SmokeError: It does not come up.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "headrace.local",
        "up",
        "--quiet-json",
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, **(environment or {}), "HEADRACE_HOME": str(home)},
    )
    try:
        line = await _first_line(process)
        yield {**json.loads(line), "pid": process.pid}
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()


async def _first_line(process: asyncio.subprocess.Process) -> bytes:
    if process.stdout is None:
        raise SmokeError("headrace up has no output")
    try:
        async with asyncio.timeout(START_SECONDS):
            line = await process.stdout.readline()
    except TimeoutError:
        raise SmokeError(f"headrace up was not ready within {START_SECONDS} s") from None
    if not line:
        raise SmokeError("headrace up ended before it was ready; what it said is above")
    return line
