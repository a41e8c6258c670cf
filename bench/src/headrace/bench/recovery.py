"""What a crash costs: the runner is killed again and again, at random, while campaigns and tool loops run.

Mails are counted at the mail server, model calls at the model, and steps in the journal.
"""

import asyncio
import json
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import httpx

from headrace.bench.report import Aim, Report, percentile
from headrace.local.smoke_paths import follow_to_end
from tests.fakes.mail_server import MailServer
from tests.fakes.scripted_model import ScriptedModel
from tests.support.campaigns import DONE, campaigner, recipients, turns
from tests.support.eventually import eventually
from tests.support.platform import RunningPlatform, running_platform

RESUME_P95_SECONDS = 5.0
CAMPAIGNS, LOOPS = 6, 6
"""Runs of one round, all at once."""
MAILS, AT_ONCE = 24, 4
ROUNDS_OF_A_LOOP = 8
MODEL_SECONDS = 0.3
LONGEST_LIFE = 9.0
"""Seconds after which a new runner is killed at the latest."""
POLL_SECONDS = 0.02
ROUND_SECONDS = 600.0
"""A run that takes longer is lost."""
RESTART_SECONDS = 60.0


@dataclass(slots=True)
class Tally:
    """What was seen, over all rounds."""

    kills: int = 0
    runs: int = 0
    intended: int = 0
    seen: int = 0
    duplicates: int = 0
    lost: int = 0
    not_succeeded: int = 0
    model_steps: int = 0
    model_calls: int = 0
    repeated_beyond_flight: int = 0
    """Calls of a run that were made more than once for each time the run was taken."""
    since_kill: list[float] = field(default_factory=list)
    since_restart: list[float] = field(default_factory=list)


async def measure(count: int) -> Report:
    """Kill the runner so many times, rounded up to whole rounds."""
    tally, chance = Tally(), random.Random(count)  # noqa: S311  (no secret)
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as home:
        async with MailServer() as mail, ScriptedModel() as model:
            with running_platform(Path(home), model, mail) as platform:
                meter = await asyncpg.connect(platform.plan.superuser_url)
                async with platform.door.client() as http:
                    agent = await campaigner(http, name="campaign", approvals=False)
                    world = World(http, agent, mail, model)
                    for number in _rounds(tally, count):
                        await _round(f"r{number}", world, Killer(platform, meter, chance, tally))
                        print(_line(number, tally), flush=True)
                await meter.close()
    return Report(
        aims={
            "duplicates": Aim(0, tally.duplicates, "mails"),
            "lost": Aim(0, tally.lost, "mails"),
            "not_succeeded": Aim(0, tally.not_succeeded, "runs"),
            "model_calls_repeated_beyond_the_one_in_flight": Aim(0, tally.repeated_beyond_flight, "calls"),
            "resume_p95": Aim(RESUME_P95_SECONDS, percentile(tally.since_restart, 0.95), "s after restart"),
        },
        measured={
            "kills": tally.kills,
            "runs": tally.runs,
            "effects_intended": tally.intended,
            "effects_seen": tally.seen,
            "model_steps": tally.model_steps,
            "model_calls_repeated": tally.model_calls - tally.model_steps,
            "resumes": len(tally.since_kill),
            "resume_s": {
                "since_restart": _spread(tally.since_restart),
                "since_kill": _spread(tally.since_kill),
            },
        },
    )


def _rounds(tally: Tally, count: int) -> Iterator[int]:
    number = 0
    while tally.kills < count:
        number += 1
        yield number


@dataclass(frozen=True, slots=True)
class World:
    """Where runs are asked for, and where what they did is counted."""

    http: httpx.AsyncClient
    agent: str
    mail: MailServer
    model: ScriptedModel

    async def ask(self, prompt: str) -> str:
        """Ask for a run."""
        body = {"agent": self.agent, "input": prompt}
        answer = await self.http.post("/v1/runs", json=body, headers={"Idempotency-Key": prompt})
        answer.raise_for_status()
        return str(answer.json()["run_id"])

    async def calls(self) -> Counter[str]:
        """How often the model was called for each prompt."""
        return Counter(_prompt(call.messages) for call in await self.model.calls())


async def _round(tag: str, world: World, killer: "Killer") -> None:
    """Start runs, kill their runner until all have ended, and count."""
    tally = killer.tally
    everybody = {f"{tag}-mails-{n}.": recipients(f"{tag}-{n}", MAILS) for n in range(CAMPAIGNS)}
    prompts = [*everybody, *(f"{tag}-loop-{n}." for n in range(LOOPS))]
    rules = [rule for prompt in prompts for rule in _rules(prompt, everybody.get(prompt))]
    await world.mail.reset()
    await world.model.reset()
    await world.model.script(*rules)
    runs = {prompt: await world.ask(prompt) for prompt in prompts}
    killing = asyncio.create_task(killer.kill(list(runs.values())))
    ends = await asyncio.gather(
        *(follow_to_end(world.http, run_id, seconds=ROUND_SECONDS) for run_id in runs.values())
    )
    killing.cancel()
    with suppress(asyncio.CancelledError):
        await killing

    sent = (await world.mail.stats()).by_recipient
    wanted = [address for addresses in everybody.values() for address in addresses]
    tally.runs += len(runs)
    tally.intended += len(wanted)
    tally.seen += sent.total()
    tally.duplicates += sum(times - 1 for times in sent.values())
    tally.lost += sum(address not in sent for address in wanted)
    tally.not_succeeded += sum((end["state"], end["output"]) != ("succeeded", DONE) for end in ends)
    calls = await world.calls()
    for prompt, run_id in runs.items():
        steps, epoch = await killer.journaled(run_id)
        tally.model_steps += steps
        tally.model_calls += calls[prompt]
        tally.repeated_beyond_flight += max(0, calls[prompt] - steps - (epoch - 1))


def _prompt(messages: Sequence[dict[str, Any]]) -> str:
    """What the person said last."""
    return next(str(message["content"]) for message in reversed(messages) if message["role"] == "user")


def _rules(prompt: str, addresses: Sequence[str] | None) -> list[dict[str, Any]]:
    if addresses is not None:
        rules = turns(prompt, addresses, at_once=AT_ONCE)
    else:
        rules = [
            {"when": {"contains": prompt, "turns": turn}, "repeat": True, "steps": [_sum(turn)]}
            for turn in range(ROUNDS_OF_A_LOOP)
        ]
        end = {"contains": prompt, "turns": ROUNDS_OF_A_LOOP}
        rules.append({"when": end, "repeat": True, "steps": [{"text": DONE}]})
    return [
        {**rule, "steps": [{**step, "first_delay": MODEL_SECONDS} for step in rule["steps"]]}
        for rule in rules
    ]


def _sum(turn: int) -> dict[str, Any]:
    return {"tool_calls": [{"name": "calculate", "arguments": json.dumps({"expression": f"{turn} + 1"})}]}


@dataclass
class Killer:
    """Kills the runner at random, and sees when what it held goes on."""

    platform: RunningPlatform
    meter: asyncpg.Connection
    chance: random.Random
    tally: Tally
    waiting: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Runs that were held at a kill: their epoch, and when it was."""
    restarted_at: float = 0.0

    async def kill(self, run_ids: Sequence[str]) -> None:
        """Kill for ever."""
        while True:
            await self._watch(run_ids, seconds=self.chance.uniform(0, LONGEST_LIFE))
            if not await self._held(run_ids):
                continue
            pid, killed_at = self.platform.kill("runner"), time.perf_counter()
            self.tally.kills += 1
            for run_id, epoch in (await self._held(run_ids)).items():
                self.waiting.setdefault(run_id, (epoch, killed_at))
            await eventually(partial(self._another_than, pid), timeout=RESTART_SECONDS, every=POLL_SECONDS)
            self.restarted_at = time.perf_counter()

    async def journaled(self, run_id: str) -> tuple[int, int]:
        """How many model calls a run finished, and how often it was taken."""
        row = await self.meter.fetchrow(
            """
            SELECT count(*) AS steps, max(runs.epoch) AS epoch FROM runner.runs JOIN runner.steps USING (run_id)
            WHERE run_id = $1 AND kind = 'model' AND steps.state = 'done'
            """,
            run_id,
        )
        return int(row["steps"]), int(row["epoch"])

    async def _watch(self, run_ids: Sequence[str], *, seconds: float) -> None:
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            if self.waiting:
                self._resumed(await self._held(run_ids))
            await asyncio.sleep(POLL_SECONDS)

    def _resumed(self, held: dict[str, int]) -> None:
        now = time.perf_counter()
        for run_id, (epoch, killed_at) in list(self.waiting.items()):
            if held.get(run_id, epoch + 1) > epoch:
                del self.waiting[run_id]
                self.tally.since_kill.append(now - killed_at)
                self.tally.since_restart.append(now - self.restarted_at)

    async def _held(self, run_ids: Sequence[str]) -> dict[str, int]:
        """The epochs of the runs that somebody holds, or held when he died."""
        rows = await self.meter.fetch(
            "SELECT run_id, epoch FROM runner.runs WHERE run_id = ANY($1) AND state = 'running'", run_ids
        )
        return {row["run_id"]: row["epoch"] for row in rows}

    async def _another_than(self, pid: int) -> None:
        assert self.platform.pid("runner") != pid


def _spread(seconds: list[float]) -> dict[str, float]:
    return {"p50": percentile(seconds, 0.5), "p95": percentile(seconds, 0.95), "most": round(max(seconds), 2)}


def _line(number: int, tally: Tally) -> str:
    return (
        f"round {number}: {tally.kills} kills, {tally.runs} runs, {tally.seen} mails of {tally.intended}, "
        f"{tally.duplicates} twice, {tally.lost} lost, {tally.model_calls - tally.model_steps} calls repeated"
    )
