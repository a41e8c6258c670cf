"""After a stream was made again, a sweep looks into all that waits, however much that is."""

from collections.abc import Sequence
from typing import Any

import pytest

from headrace.common import sweeper
from headrace.common.errors import Unavailable
from headrace.common.inbox import Inbox
from headrace.common.outbox import Parcel
from headrace.contracts.runs import RunControl
from headrace.usage.models import attempts, inbox
from headrace.usage.service import create_service
from headrace.usage.settings import UsageSettings
from tests.support.servers import PostgresEndpoint
from tests.support.service_database import service_database


class Broker:
    """Remembers what was sent again; every service that is asked is down."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    async def publish(self, parcels: Sequence[Parcel]) -> None:
        self.sent += [parcel.message_id for parcel in parcels]

    async def ask_verb(self, *_: object) -> None:
        raise Unavailable("down")


async def test_everything_is_sent_again_once(
    postgres_server: PostgresEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeper, "BATCH", 2)
    broker: Any = Broker()
    commands = [
        RunControl(run_id=f"r-{n}", verb="refuse", account_id="acme", command_id="refused") for n in range(5)
    ]
    async with service_database(postgres_server.superuser_url, create_service(UsageSettings())) as stored:
        async with stored.database.transaction() as tx:
            await tx.send(*commands)
        broker.sent.clear()

        again = await sweeper.Sweeper(stored.database, Inbox(inbox, attempts), broker, broker).sweep(
            look_at_all=True
        )

    assert again == 5
    assert broker.sent == [command.message_id for command in commands]
