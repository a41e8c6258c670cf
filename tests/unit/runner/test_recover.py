"""Recovery goes on, whatever a run or the database does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.common.clock import SystemClock
from headrace.common.errors import Unavailable
from headrace.runner import handlers, repository
from headrace.runner.handlers import Runs


class AwayAtFirst:
    """A database that does not answer the first few times."""

    def __init__(self, times: int) -> None:
        self.times = times

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        if self.times:
            self.times -= 1
            raise Unavailable("away")
        yield SimpleNamespace(connection=None)


class Attempts:
    """Breaks in the run `bad`, and ends every other one."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    async def make(self, lease: Any) -> None:
        if lease.run_id == "bad":
            raise RuntimeError("broken")
        await asyncio.sleep(0.02)
        self.ended.append(lease.run_id)


async def _recovered(monkeypatch: pytest.MonkeyPatch, *run_ids: str, away: int = 0) -> list[str]:
    waiting, attempts = list(run_ids), Attempts()

    async def find_abandoned(_: object, **__: object) -> object:
        return waiting.pop(0) if waiting else None

    async def take(_: object, run_id: str, **__: object) -> object:
        return SimpleNamespace(run_id=run_id)

    monkeypatch.setattr(handlers, "RECOVERY_SECONDS", 0.001)
    monkeypatch.setattr(repository, "find_abandoned", find_abandoned)
    monkeypatch.setattr(repository, "take", take)
    infra: Any = SimpleNamespace(db=AwayAtFirst(away), inbox=None, clock=SystemClock())
    made: Any = attempts
    runs = Runs(infra, made, lease=timedelta(seconds=1), recovered_at_once=2)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await runs.recover()
    return attempts.ended


async def test_database_that_was_away_costs_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await _recovered(monkeypatch, "one", "two", "three", away=5) == ["one", "two", "three"]


async def test_run_that_breaks_leaves_the_others_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await _recovered(monkeypatch, "good", "bad", "late") == ["good", "late"]
