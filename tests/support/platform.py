"""The whole platform as a fixture: six service processes, three servers, one supervisor, and the scripted model."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest

from headrace.local.leftovers import remembered
from headrace.local.plan import Plan
from headrace.local.smoke_paths import Platform
from headrace.local.state import Home, Secrets
from tests.fakes.mail_server import MailServer
from tests.fakes.scripted_model import ScriptedModel


@dataclass(frozen=True)
class RunningPlatform:
    """A platform that a test may break."""

    door: Platform
    home: Home
    plan: Plan
    drill: Path

    def pid(self, name: str) -> int:
        """The process that a child has now."""
        pids = [record.pid for record in remembered(self.home.children) if record.name == name]
        assert len(pids) == 1, f"{name} does not run"
        return pids[0]

    def kill(self, name: str) -> int:
        """SIGKILL a child; answers the pid that died."""
        pid = self.pid(name)
        os.kill(pid, signal.SIGKILL)
        return pid

    def arm(self, point: str, nth: int = 1) -> None:
        """Let whichever process passes a named point for the nth time die there by SIGKILL, once."""
        self.drill.with_suffix(".next").write_text(f"{point} {nth}")
        self.drill.with_suffix(".next").rename(self.drill)

    def disarm(self) -> bool:
        """Call a drill off; `False` where it has happened."""
        try:
            self.drill.unlink()
        except FileNotFoundError:
            return False
        return True

    async def rows(self, schema: str, sql: str) -> list[asyncpg.Record]:
        """Ask the database as its superuser."""
        connection = await asyncpg.connect(self.plan.superuser_url)
        try:
            await connection.execute(f"SET search_path TO {schema}")
            return list(await connection.fetch(sql))
        finally:
            await connection.close()


@contextmanager
def running_platform(folder: Path, model: ScriptedModel, mail: MailServer) -> Iterator[RunningPlatform]:
    """Run a platform in a folder, with a model to ask and a server to send mail to, until the block ends."""
    drill = folder / "drill"
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("HEADRACE_")},
        "HEADRACE_HOME": str(folder / "platform"),
        "HEADRACE_DEFAULT_MODEL": "openai/scripted",
        "HEADRACE_DEFAULT_API_BASE": model.base_url,
        "HEADRACE_DEFAULT_API_KEY": "scripted",
        "HEADRACE_GATEWAY_DOUBT_SECONDS": "1",
        "HEADRACE_MAIL_SMTP_URL": mail.smtp_url,
        "HEADRACE_MAIL_SENDER": "Headrace <agent@example.com>",
        "HEADRACE_MAIL_SENT_URL": mail.sent_url,
        "HEADRACE_FAULTS": str(drill),
    }
    command = [sys.executable, "-m", "headrace.local", "up", "--quiet-json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        facts = json.loads(process.stdout.readline())
        home = Home.of(environment)
        plan = Plan(environment, home, Secrets.kept(home.secrets), json.loads(home.ports.read_text()))
        try:
            yield RunningPlatform(Platform(facts["url"], facts["api_key"]), home, plan, drill)
        finally:
            process.terminate()
            process.wait(timeout=60)


@pytest.fixture(scope="session")
def platform_process(
    server_folder: Path, scripted_model_process: ScriptedModel, mail_server_process: MailServer
) -> Iterator[RunningPlatform]:
    with running_platform(server_folder, scripted_model_process, mail_server_process) as platform:
        yield platform


@pytest.fixture
def platform(platform_process: RunningPlatform, scripted_model: ScriptedModel) -> RunningPlatform:
    """The running platform, with a model that has no script yet."""
    assert scripted_model.base_url
    return platform_process
