"""All SQL of the webhooks service."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Row, delete, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from headrace.contracts.ids import AccountId, AgentId, Token
from headrace.webhooks.delivery import Delivery
from headrace.webhooks.models import deliveries, subscriptions


@dataclass(frozen=True, slots=True)
class StoredSubscription:
    """A subscription as it is stored, its secret encrypted."""

    subscription_id: Token
    account_id: AccountId
    agent_id: AgentId
    name: str
    secret_sealed: bytes
    created_at: datetime


async def add_or_find(connection: AsyncConnection, new: StoredSubscription) -> StoredSubscription:
    """Store a subscription; where its id is taken, answer what has it, whose ever that is.

    The conflict updates a row without a change, since one that does nothing would answer no row.
    """
    adding = insert(subscriptions).values(
        subscription_id=new.subscription_id,
        account_id=new.account_id,
        agent_id=new.agent_id,
        name=new.name,
        secret_sealed=new.secret_sealed,
        created_at=new.created_at,
    )
    either = adding.on_conflict_do_update(
        index_elements=["subscription_id"], set_={"subscription_id": adding.excluded.subscription_id}
    ).returning(*subscriptions.c)
    return _subscription((await connection.execute(either)).one())


async def find_subscription(connection: AsyncConnection, subscription_id: Token) -> StoredSubscription | None:
    """The subscription whose address an event came to; its signature says who may use it."""
    query = select(subscriptions).where(subscriptions.c.subscription_id == subscription_id)
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else _subscription(row)


async def list_subscriptions(connection: AsyncConnection, account_id: AccountId) -> list[StoredSubscription]:
    """The subscriptions of an account, oldest first."""
    query = (
        select(subscriptions)
        .where(subscriptions.c.account_id == account_id)
        .order_by(subscriptions.c.created_at, subscriptions.c.subscription_id)
    )
    return [_subscription(row) for row in await connection.execute(query)]


async def remove_subscription(
    connection: AsyncConnection, account_id: AccountId, subscription_id: Token
) -> bool:
    """Delete a subscription of an account; `False` when it has none of that id. What came through it stays."""
    removal = (
        delete(subscriptions)
        .where(subscriptions.c.account_id == account_id, subscriptions.c.subscription_id == subscription_id)
        .returning(subscriptions.c.subscription_id)
    )
    return (await connection.execute(removal)).first() is not None


async def add_delivery(connection: AsyncConnection, delivery: Delivery) -> bool:
    """Store an event; `False` when it came before."""
    adding = (
        insert(deliveries)
        .values(
            delivery_id=delivery.delivery_id,
            subscription_id=delivery.subscription_id,
            subscription_name=delivery.subscription_name,
            account_id=delivery.account_id,
            agent_id=delivery.agent_id,
            event_id=delivery.event_id,
            body=delivery.body,
            content_type=delivery.content_type,
            received_at=delivery.received_at,
        )
        .on_conflict_do_nothing()
        .returning(deliveries.c.delivery_id)
    )
    return (await connection.execute(adding)).first() is not None


async def find_delivery(connection: AsyncConnection, delivery_id: Token) -> Delivery | None:
    """An event that was stored at the door."""
    row = (
        await connection.execute(select(deliveries).where(deliveries.c.delivery_id == delivery_id))
    ).one_or_none()
    if row is None:
        return None
    return Delivery(
        subscription_id=row.subscription_id,
        subscription_name=row.subscription_name,
        account_id=row.account_id,
        agent_id=row.agent_id,
        event_id=row.event_id,
        body=row.body,
        content_type=row.content_type,
        received_at=row.received_at,
    )


def _subscription(row: Row[tuple[object, ...]]) -> StoredSubscription:
    return StoredSubscription(
        subscription_id=row.subscription_id,
        account_id=row.account_id,
        agent_id=row.agent_id,
        name=row.name,
        secret_sealed=row.secret_sealed,
        created_at=row.created_at,
    )
