"""A model call was paid for, whatever became of the attempt that made it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest

from headrace.common.db import Transaction
from headrace.common.delivery import DeliveryPolicy
from headrace.common.errors import Unavailable
from headrace.contracts.runs import RunState, TokenCount
from headrace.contracts.usage import UsageRecorded
from headrace.runner.errors import LeaseLost, ModelFailed
from headrace.runner.model import ModelRequest, ModelTurn
from tests.support.eventually import eventually
from tests.support.runner_rig import Rig, ScriptedTurns, calls, crash_at, request, runner_rig, says
from tests.support.servers import PostgresEndpoint
from tests.support.service_database import ServiceDatabase

ONE_TRY = DeliveryPolicy(attempts=1)


class Away(ServiceDatabase):
    """A database that goes away when a test says so, and comes back."""

    def __init__(self, stored: ServiceDatabase) -> None:
        gone: Any = self
        self.stored, self.database, self.clock, self.left = stored, gone, stored.clock, 0

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        if self.left:
            self.left -= 1
            raise Unavailable("away")
        async with self.stored.database.transaction() as tx:
            yield tx


class AwayAtTheCommit(Away):
    """A database that goes away when everything was sent to it, and rolls it back."""

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        async with self.stored.database.transaction() as tx:
            yield tx
            if self.left:
                self.left -= 1
                raise Unavailable("away")


class Hanging(ScriptedTurns):
    """A model that says a word and then nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.speaks = asyncio.Event()

    async def call(self, request: ModelRequest, *, on_text: Callable[[str], Any]) -> ModelTurn:
        await on_text("word")
        self.speaks.set()
        self.requests.append(request)
        await asyncio.Event().wait()
        raise AssertionError


async def booked(rig: Rig) -> list[UsageRecorded]:
    used = await rig.stored.outbox(UsageRecorded)
    return sorted(used, key=lambda row: row.seq)


@pytest.mark.parametrize("kind", [Away, AwayAtTheCommit])
async def test_answer_outlives_a_database_that_goes_away_at_the_end(
    postgres_server: PostgresEndpoint, kind: type[Away]
) -> None:
    def last(_: ModelRequest) -> ModelTurn:
        away.left = 2
        return says("done", tokens=3)

    async with runner_rig(postgres_server.superuser_url, model=ScriptedTurns(last)) as rig:
        away = kind(rig.stored)

        report = await replace(rig, stored=away).run(request())

        used = await booked(rig)
    assert (report.state, report.output, report.attempt, away.left) == ("succeeded", "done", 1, 0)
    assert [row.tokens.input_tokens for row in used] == [3]


@pytest.mark.parametrize("error", [ModelFailed("silent"), LeaseLost("taken")])
async def test_call_of_an_attempt_without_an_end_is_in_the_ledger(
    postgres_server: PostgresEndpoint, error: Exception
) -> None:
    model = ScriptedTurns(calls(("nothing", "{}")), error)
    async with runner_rig(postgres_server.superuser_url, model=model) as rig:
        await rig.run(request())

        used = await booked(rig)
    assert [row.tokens for row in used] == [TokenCount(input_tokens=1, output_tokens=1)]


async def test_turns_that_could_not_be_used_are_paid_for_and_counted(
    postgres_server: PostgresEndpoint,
) -> None:
    model = ScriptedTurns(says("", tokens=5), says("done", tokens=7))
    async with runner_rig(postgres_server.superuser_url, model=model) as rig:
        report = await rig.run(request())

        used = await booked(rig)
        (row,) = await rig.sql("SELECT usage FROM runs")
    assert report.state is RunState.SUCCEEDED
    assert [row.tokens.input_tokens for row in used] == [5, 7]
    assert TokenCount.model_validate(row.usage) == TokenCount(input_tokens=12, output_tokens=2)


async def test_qt_8_answer_that_broke_off_is_booked_by_what_it_said(
    postgres_server: PostgresEndpoint,
) -> None:
    spent = TokenCount(input_tokens=9, output_tokens=2, is_estimated=True)
    model = ScriptedTurns(ModelFailed("cut", tokens=spent))
    async with runner_rig(postgres_server.superuser_url, model=model, policy=ONE_TRY) as rig:
        report = await rig.run(request())

        used = await booked(rig)
    assert (report.state, report.error_code) == (RunState.FAILED, "model_failed")
    assert [row.tokens for row in used] == [spent]


async def test_qt_8_call_that_a_cancel_cut_is_booked_and_its_run_has_ended(
    postgres_server: PostgresEndpoint,
) -> None:
    model = Hanging()
    asked = request()
    async with runner_rig(postgres_server.superuser_url, model=model) as rig:
        running = asyncio.create_task(rig.run(asked))
        await model.speaks.wait()

        await rig.decide(asked, "cancel")
        report = await running

        used = await booked(rig)
    assert report.state is RunState.CANCELLED
    assert [(row.path, row.tokens) for row in used] == [("root", estimate(model))]


async def test_call_that_a_restart_cut_is_booked_once_by_the_two_that_make_it(
    postgres_server: PostgresEndpoint,
) -> None:
    model = Hanging()
    asked = request()
    async with runner_rig(postgres_server.superuser_url, model=model) as rig:
        running = asyncio.create_task(rig.run(asked))
        await model.speaks.wait()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

        async def again() -> None:
            lease = await rig.take(asked)
            assert lease is not None
            other = rig.another(ScriptedTurns(says("done", tokens=7)))
            await other.attempts.make(lease, since=asyncio.get_running_loop().time())

        await eventually(again)
        used = await booked(rig)
    assert [row.tokens for row in used] == [estimate(model), TokenCount(input_tokens=7, output_tokens=1)]


async def test_call_that_a_crash_cut_is_booked_by_the_next_runner(
    postgres_server: PostgresEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ScriptedTurns(says("lost"), says("done", tokens=7))
    asked = request()
    async with runner_rig(postgres_server.superuser_url, model=model) as rig:
        crash_at(monkeypatch, "runner.model.after")
        await rig.crashes(asked)

        report = await rig.another().run(asked)

        used = await booked(rig)
    assert report.state is RunState.SUCCEEDED
    assert [row.tokens for row in used] == [estimate(model), TokenCount(input_tokens=7, output_tokens=1)]


def estimate(model: ScriptedTurns) -> TokenCount:
    return TokenCount(input_tokens=model.requests[0].estimated_tokens(), is_estimated=True)
