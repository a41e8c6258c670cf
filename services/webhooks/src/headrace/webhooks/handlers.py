"""The message edge: a stored event becomes a run."""

from headrace.common.consumer import Handler
from headrace.common.db import Transaction
from headrace.common.errors import NotFound
from headrace.contracts.hooks import HookReceived
from headrace.contracts.streams import WEBHOOKS_INGEST
from headrace.webhooks import repository


async def request_run(hook: HookReceived, tx: Transaction) -> None:
    """Ask for the run of a stored event.

    Raises:
        NotFound: The event is not stored.
    """
    delivery = await repository.find_delivery(tx.connection, hook.delivery_id)
    if delivery is None:
        raise NotFound(f"there is no webhook delivery {hook.delivery_id}")
    await tx.send(delivery.request())


INGEST = Handler(consumer=WEBHOOKS_INGEST, act=request_run)
