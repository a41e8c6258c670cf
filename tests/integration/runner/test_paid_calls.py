"""A model call was paid for, whatever became of the attempt that made it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.common.db import Database, Transaction
from headrace.common.delivery import DeliveryPolicy
from headrace.common.errors import Unavailable
from headrace.contracts.agents import AgentRevision
from headrace.contracts.runs import ChatMessage, Door, Lane, RunRequested, TokenCount
from headrace.contracts.usage import UsageRecorded
from headrace.runner import repository
from headrace.runner.attempt import Attempts
from headrace.runner.errors import LeaseLost, ModelFailed
from headrace.runner.model import ModelTurn
from headrace.runner.service import create_service
from headrace.runner.settings import ModelSettings, RunnerSettings
from tests.support.servers import PostgresEndpoint
from tests.support.service_database import service_database

LEASE = timedelta(seconds=10)
ASKED = RunRequested(
    run_id="r-1",
    door=Door.API,
    lane=Lane.INTERACTIVE,
    account_id="acme",
    agent_id="assistant",
    trigger="r-1",
    input=(ChatMessage(role="user", content="hi"),),
    requested_at=datetime(2030, 1, 1, tzinfo=UTC),
)
AGENT = AgentRevision(agent_id="assistant", account_id="acme", revision=1, name="a", instruction="")


class Agents:
    async def find(self, *_: object) -> AgentRevision:
        return AGENT


class Untold:
    async def tell(self, *_: object) -> None:
        """Nobody listens."""


class CallsOnce:
    """Calls a model once, and then fails."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def run(self, *_: object, account: Any) -> str:
        await account(ModelTurn("", (), TokenCount(input_tokens=3), "m"), 0.1)
        raise self._error


class Answers:
    async def run(self, *_: object, **__: object) -> str:
        return "done"


class AwayOnce:
    """A database that goes away when the answer is there, and comes back."""

    def __init__(self, database: Database) -> None:
        self._database, self._is_away = database, True

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        if self._is_away:
            self._is_away = False
            raise Unavailable("away")
        async with self._database.transaction() as tx:
            yield tx


async def test_answer_outlives_a_database_that_goes_away(postgres_server: PostgresEndpoint) -> None:
    service = create_service(RunnerSettings(), ModelSettings(model="openai/scripted"))
    async with service_database(postgres_server.superuser_url, service) as stored:
        infra: Any = SimpleNamespace(db=AwayOnce(stored.database), bus=Untold(), clock=stored.clock)
        pinned = ASKED.model_copy(update={"agent_revision": 1})
        async with stored.database.transaction() as tx:
            lease = await repository.take(tx.connection, pinned, now=stored.clock.now(), lease=LEASE)
        assert lease is not None

        await Attempts(infra, Agents(), Answers(), lease=LEASE, policy=DeliveryPolicy()).make(lease)  # type: ignore[arg-type]  # fakes

        async with stored.database.transaction() as tx:
            report = await repository.report(tx.connection, "acme", "r-1")
    assert (report.state, report.output, report.attempt) == ("succeeded", "done", 1)


@pytest.mark.parametrize("error", [ModelFailed("silent"), LeaseLost("cancelled")])
async def test_call_of_an_attempt_without_an_end_is_in_the_ledger(
    postgres_server: PostgresEndpoint, error: Exception
) -> None:
    service = create_service(RunnerSettings(), ModelSettings(model="openai/scripted"))
    async with service_database(postgres_server.superuser_url, service) as stored:
        infra: Any = SimpleNamespace(db=stored.database, bus=Untold(), clock=stored.clock)
        agents, loop, policy = Agents(), CallsOnce(error), DeliveryPolicy()
        async with stored.database.transaction() as tx:
            now = stored.clock.now()
            lease = await repository.take(tx.connection, ASKED, now=now, lease=LEASE)
        assert lease is not None

        await Attempts(infra, agents, loop, lease=LEASE, policy=policy).make(lease)  # type: ignore[arg-type]  # fakes

        used = await stored.outbox(UsageRecorded)
    assert [each.tokens.input_tokens for each in used] == [3]
