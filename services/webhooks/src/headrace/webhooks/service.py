"""The composition root of the webhooks service."""

from datetime import timedelta

from headrace.common.app import Infra, Parts, Service
from headrace.common.rpc import answers
from headrace.common.secret_box import SecretBox
from headrace.contracts.hooks import CreateSubscription, DeleteSubscription, ListSubscriptions
from headrace.webhooks.answers import SubscriptionDesk
from headrace.webhooks.api import hooks
from headrace.webhooks.handlers import INGEST
from headrace.webhooks.models import metadata
from headrace.webhooks.receive import Receiver
from headrace.webhooks.settings import WebhooksSettings


def create_service(settings: WebhooksSettings) -> Service:
    """Make the webhooks service.

    Args:
        settings: Its own.
    """

    def compose(infra: Infra) -> Parts:
        box = SecretBox(infra.settings.secret_keys)
        receiver = Receiver(
            db=infra.db,
            box=box,
            tolerance=timedelta(seconds=settings.tolerance_seconds),
            max_event_bytes=settings.max_event_bytes,
        )
        desk = SubscriptionDesk(db=infra.db, box=box, public_url=settings.public_url)
        return Parts(
            routes=[hooks(receiver)],
            handlers=[INGEST],
            answers=[
                answers(CreateSubscription, desk.create),
                answers(ListSubscriptions, desk.list),
                answers(DeleteSubscription, desk.delete),
            ],
        )

    return Service(
        name="webhooks",
        description="Signed events become runs.",
        metadata=metadata,
        compose=compose,
    )
