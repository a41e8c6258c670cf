"""Starts and steers a mail server from a test."""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import quote

import httpx

from tests.fakes.mail_server.record import AcceptedMail, Totals
from tests.fakes.mail_server.script import Fault, Script

_REPOSITORY = Path(__file__).parents[3]
_START_SECONDS = 20.0
_STOP_SECONDS = 5.0
_CONTROL_SECONDS = 5.0


class MailServer:
    """A mail server in a process of its own; usable from any event loop, as it keeps no connection open."""

    def __init__(self, *, user: str = "agent@example.com", password: str = "mail-password") -> None:
        self.user = user
        self.password = password
        self.smtp_port = 0
        self.imap_port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._url = ""

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def smtp_url(self) -> str:
        """Where mail is given in, credentials included."""
        return f"smtp://{self._credentials}@127.0.0.1:{self.smtp_port}"

    @property
    def sent_url(self) -> str:
        """The folder that shows what was accepted, credentials included."""
        return f"imap://{self._credentials}@127.0.0.1:{self.imap_port}/Sent"

    @property
    def control_url(self) -> str:
        """The control door, for those who cannot use this class."""
        return self._url

    async def start(self) -> Self:
        """Start the process and return when it listens; raise `RuntimeError` when it does not."""
        process = await asyncio.to_thread(self._spawn)
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
                f"the mail server ended with {process.returncode} or was silent {_START_SECONDS} s"
            )
        found = json.loads(line)
        self._url, self.smtp_port, self.imap_port = found["url"], found["smtp"], found["imap"]
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
        self,
        *faults: Fault | Mapping[str, object],
        imap: Literal["up", "down"] = "up",
        sent_lag: int = 0,
    ) -> None:
        """Replace the script; of the faults that fit, the first happens."""
        script = Script.model_validate({"faults": faults, "imap": imap, "sent_lag": sent_lag})
        await self._ask("PUT", "/script", content=script.model_dump_json())

    async def accepted(self, *, at_least: int = 0, seconds: float = _CONTROL_SECONDS) -> list[AcceptedMail]:
        """Return the mails since the last reset, once there are so many; raise `TimeoutError` when there are not."""
        params = {"at_least": at_least, "seconds": seconds}
        mails = [
            AcceptedMail(**mail) for mail in await self._ask("GET", "/mails", params=params, seconds=seconds)
        ]
        if len(mails) < at_least:
            raise TimeoutError(f"{len(mails)} mails of {at_least} were accepted within {seconds} s")
        return mails

    async def stats(self) -> Totals:
        """Return the counts since the last reset."""
        found = await self._ask("GET", "/stats")
        return Totals(
            accepted=found["accepted"],
            searches=found["searches"],
            by_recipient=Counter(found["by_recipient"]),
            by_message_id=Counter(found["by_message_id"]),
        )

    async def release(self, name: str) -> int:
        """Let the connections that stand at this hold go on; return how many there were."""
        return int((await self._ask("POST", f"/release/{name}"))["released"])

    async def wait_held(self, name: str, *, at_least: int = 1, seconds: float = _CONTROL_SECONDS) -> int:
        """Wait until so many connections stand at this hold and return how many; raise `TimeoutError` when not."""
        path, params = f"/holding/{name}", {"at_least": at_least, "seconds": seconds}
        waiting = int((await self._ask("GET", path, params=params, seconds=seconds))["waiting"])
        if waiting < at_least:
            raise TimeoutError(
                f"{waiting} connections of {at_least} stood at hold {name!r} within {seconds} s"
            )
        return waiting

    async def reset(self) -> None:
        """Forget the script, the mails and the connections that stand still."""
        await self.script()
        await self._ask("DELETE", "/mails")

    @property
    def _credentials(self) -> str:
        return f"{quote(self.user, safe='')}:{quote(self.password, safe='')}"

    def _spawn(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.fakes.mail_server"]
        command += ["--user", self.user, "--password", self.password]
        return subprocess.Popen(command, cwd=_REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

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
