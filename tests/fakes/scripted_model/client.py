"""Starts and steers a scripted model from a test."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from tests.fakes.scripted_model.journal import Call, Totals
from tests.fakes.scripted_model.script import Rule, Script, Step

_REPOSITORY = Path(__file__).parents[3]
_START_SECONDS = 20.0
_STOP_SECONDS = 5.0
_CONTROL_SECONDS = 5.0
_ECHO = Step()


class ScriptedModel:
    """A scripted model in a process of its own; usable from any event loop, as it keeps no connection open."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._url = ""

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def base_url(self) -> str:
        """What an OpenAI client takes as its base URL."""
        return f"{self._url}/v1"

    async def start(self) -> Self:
        """Start the process and return when it listens; raise `RuntimeError` when it does not."""
        process = await asyncio.to_thread(_spawn)
        self._process = process
        assert process.stdout
        ready = asyncio.create_task(asyncio.to_thread(process.stdout.readline))
        await asyncio.wait({ready}, timeout=_START_SECONDS)
        if not ready.done():
            process.kill()
        line = await ready
        if not line:
            await self.stop()
            raise RuntimeError(
                f"the scripted model ended with {process.returncode} or was silent {_START_SECONDS} s"
            )
        self._url = json.loads(line)["url"]
        return self

    async def stop(self) -> None:
        """End the process; connections that are open break."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin
        assert process.stdout
        process.stdin.close()
        try:
            await asyncio.to_thread(process.wait, _STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            await asyncio.to_thread(process.wait)
        process.stdout.close()

    async def script(
        self, *rules: Rule | Mapping[str, object], default: Step | Mapping[str, object] = _ECHO
    ) -> None:
        """Replace the script; the first rule that matches answers, the default (an echo) when none does."""
        script = Script.model_validate({"rules": rules, "default": default})
        await self._ask("PUT", "/script", content=script.model_dump_json())

    async def answers(self, *steps: Step | Mapping[str, object], repeat: bool = False) -> None:
        """Replace the script with these steps for every request, in order."""
        await self.script(Rule.model_validate({"steps": steps, "repeat": repeat}))

    async def calls(self, *, settled: int = 0, seconds: float = _CONTROL_SECONDS) -> list[Call]:
        """Return the calls since the last reset, once so many have ended; raise `TimeoutError` when they do not."""
        found = await self._ask(
            "GET", "/calls", params={"settled": settled, "seconds": seconds}, seconds=seconds
        )
        calls = [Call(**call) for call in found]
        ended = sum(call.outcome != "running" for call in calls)
        if ended < settled:
            raise TimeoutError(f"{ended} calls of {settled} ended within {seconds} s")
        return calls

    async def stats(self) -> Totals:
        """Return the sums since the last reset, overall and by model."""
        found = await self._ask("GET", "/stats")
        by_model = {name: Totals(**totals) for name, totals in found.pop("by_model").items()}
        return Totals(**found, by_model=by_model)

    async def release(self, name: str) -> int:
        """Let the answers that stand at this hold go on; return how many there were."""
        return int((await self._ask("POST", f"/release/{name}"))["released"])

    async def wait_held(self, name: str, *, at_least: int = 1, seconds: float = _CONTROL_SECONDS) -> int:
        """Wait until so many answers stand at this hold and return how many; raise `TimeoutError` when they do not."""
        path, params = f"/holding/{name}", {"at_least": at_least, "seconds": seconds}
        waiting = int((await self._ask("GET", path, params=params, seconds=seconds))["waiting"])
        if waiting < at_least:
            raise TimeoutError(f"{waiting} answers of {at_least} stood at hold {name!r} within {seconds} s")
        return waiting

    async def reset(self) -> None:
        """Forget the script, the calls and the answers that stand still."""
        await self.script()
        await self._ask("DELETE", "/calls")

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        content: str | None = None,
        params: Mapping[str, float] | None = None,
        seconds: float = 0,
    ) -> Any:
        timeout = seconds + _CONTROL_SECONDS
        async with httpx.AsyncClient(
            base_url=self._url, timeout=timeout, trust_env=False, verify=False
        ) as http:
            answer = await http.request(method, path, content=content, params=params)
        answer.raise_for_status()
        return answer.json() if answer.content else None


def _spawn() -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.fakes.scripted_model"]
    return subprocess.Popen(command, cwd=_REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
