"""Decisions about a run from outside of it, in the runner's own table."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio

from headrace.contracts.runs import ChatMessage, Door, Lane, RunFinished, RunRequested, RunState
from headrace.runner import repository
from headrace.runner.errors import LeaseLost, NotRecordedYet
from headrace.runner.service import create_service
from headrace.runner.settings import ModelSettings, RunnerSettings
from tests.support.servers import PostgresEndpoint
from tests.support.service_database import ServiceDatabase, service_database

NOW = datetime(2030, 1, 1, tzinfo=UTC)
LEASE = timedelta(seconds=10)
REFUSED = RunFinished(state="refused", error_code="rate_limited", error="too often")
ASKED = RunRequested(
    run_id="r-1",
    door=Door.API,
    lane=Lane.INTERACTIVE,
    account_id="acme",
    agent_id="assistant",
    trigger="r-1",
    input=(ChatMessage(role="user", content="hi"),),
    requested_at=NOW,
)


@pytest_asyncio.fixture
async def stored(postgres_server: PostgresEndpoint) -> AsyncIterator[ServiceDatabase]:
    service = create_service(RunnerSettings(), ModelSettings(model="openai/scripted"))
    async with service_database(postgres_server.superuser_url, service) as made:
        yield made


async def test_refusal_ends_a_recorded_run(stored: ServiceDatabase) -> None:
    async with stored.database.transaction() as tx:
        await repository.record(tx.connection, ASKED)
        epoch = await repository.end_from_outside(tx.connection, "r-1", "acme", REFUSED, now=NOW)
        report = await repository.report(tx.connection, "acme", "r-1")

    assert (epoch, report.state, report.error) == (1, RunState.REFUSED, "too often")


async def test_decision_that_comes_before_the_record_waits_for_it(stored: ServiceDatabase) -> None:
    async with stored.database.transaction() as tx:
        with pytest.raises(NotRecordedYet):
            await repository.end_from_outside(tx.connection, "r-1", "acme", REFUSED, now=NOW)


async def test_run_of_another_account_is_not_touched(stored: ServiceDatabase) -> None:
    async with stored.database.transaction() as tx:
        await repository.record(tx.connection, ASKED)
        ended = await repository.end_from_outside(tx.connection, "r-1", "stranger", REFUSED, now=NOW)
        report = await repository.report(tx.connection, "acme", "r-1")

    assert (ended, report.state) == (None, RunState.REQUESTED)


async def test_holder_of_a_run_that_was_ended_cannot_finish_it(stored: ServiceDatabase) -> None:
    async with stored.database.transaction() as tx:
        lease = await repository.take(tx.connection, ASKED, now=NOW, lease=LEASE)
        assert lease is not None
        await repository.end_from_outside(tx.connection, "r-1", "acme", REFUSED, now=NOW)

        with pytest.raises(LeaseLost):
            await repository.finish(tx.connection, lease, RunFinished(state="succeeded"), now=NOW)


async def test_run_in_hand_is_not_taken_and_an_abandoned_one_is_with_its_pinned_revision(
    stored: ServiceDatabase,
) -> None:
    later = NOW + 2 * LEASE
    async with stored.database.transaction() as tx:
        first = await repository.take(tx.connection, ASKED, now=NOW, lease=LEASE)
        assert first is not None
        await repository.pin(tx.connection, first, revision=7)
        meanwhile = await repository.take(tx.connection, ASKED, now=NOW, lease=LEASE)
        abandoned = await repository.find_abandoned(tx.connection, now=later)
        second = await repository.take(tx.connection, ASKED, now=later, lease=LEASE)

    assert (meanwhile, abandoned) == (None, ASKED)
    assert second is not None
    assert (second.epoch, second.attempt, second.revision) == (2, 2, 7)


async def test_waiting_for_a_server_does_not_use_up_attempts(stored: ServiceDatabase) -> None:
    async with stored.database.transaction() as tx:
        first = await repository.take(tx.connection, ASKED, now=NOW, lease=LEASE)
        assert first is not None
        await repository.release(tx.connection, first, until=NOW, attempt=first.attempt - 1)
        second = await repository.take(tx.connection, ASKED, now=NOW + LEASE, lease=LEASE)

    assert second is not None
    assert (second.epoch, second.attempt) == (2, 1)
