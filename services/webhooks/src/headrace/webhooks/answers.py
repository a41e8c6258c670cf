"""What other services ask: subscriptions are made, listed and deleted."""

import base64
import secrets
from dataclasses import dataclass

from headrace.common.db import Database
from headrace.common.errors import Conflict
from headrace.common.secret_box import SecretBox
from headrace.contracts.hooks import (
    CreateSubscription,
    Deleted,
    DeleteSubscription,
    ListSubscriptions,
    Subscription,
    Subscriptions,
)
from headrace.webhooks import repository
from headrace.webhooks.repository import StoredSubscription

SECRET_BYTES = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionDesk:
    """Answers the questions about subscriptions."""

    db: Database
    box: SecretBox
    public_url: str

    async def create(self, question: CreateSubscription) -> Subscription:
        """Open an address. Asked again with the same id it tells the same, with the secret: the first reply may be lost.

        Raises:
            Conflict: Another account's subscription has the id.
        """
        wanted = StoredSubscription(
            subscription_id=question.subscription_id,
            account_id=question.account_id,
            agent_id=question.agent_id,
            name=question.name,
            secret_sealed=self.box.seal(new_signing_secret()),
            created_at=self.db.clock.now(),
        )
        async with self.db.transaction() as tx:
            stored = await repository.add_or_find(tx.connection, wanted)
        if stored.account_id != question.account_id:
            raise Conflict(f"the subscription id {question.subscription_id} is taken")
        return self._described(stored, secret=self.box.open(stored.secret_sealed))

    async def list(self, question: ListSubscriptions) -> Subscriptions:
        """Tell an account's subscriptions, without secrets."""
        async with self.db.transaction() as tx:
            found = await repository.list_subscriptions(tx.connection, question.account_id)
        return Subscriptions(items=tuple(self._described(each) for each in found))

    async def delete(self, question: DeleteSubscription) -> Deleted:
        """Close an address. Events that it took in before still become runs."""
        async with self.db.transaction() as tx:
            existed = await repository.remove_subscription(
                tx.connection, question.account_id, question.subscription_id
            )
        return Deleted(existed=existed)

    def _described(self, stored: StoredSubscription, *, secret: str | None = None) -> Subscription:
        return Subscription(
            subscription_id=stored.subscription_id,
            account_id=stored.account_id,
            agent_id=stored.agent_id,
            name=stored.name,
            url=f"{self.public_url.rstrip('/')}/hooks/{stored.subscription_id}",
            secret=secret,
        )


def new_signing_secret() -> str:
    """Make a Standard Webhooks secret."""
    return f"whsec_{base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()}"
