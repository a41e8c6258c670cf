"""Tables of schema `webhooks`."""

from sqlalchemy import Column, DateTime, Index, LargeBinary, MetaData, Table, Text, UniqueConstraint

from headrace.common.inbox import attempts_table, inbox_table
from headrace.common.outbox import outbox_table

metadata = MetaData(schema="webhooks")

outbox_table(metadata)
inbox_table(metadata)
attempts_table(metadata)

subscriptions = Table(
    "subscriptions",
    metadata,
    Column("subscription_id", Text, primary_key=True),
    Column("account_id", Text, nullable=False),
    Column("agent_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("secret_sealed", LargeBinary, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False),
    Index("subscriptions_account", "account_id", "created_at"),
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("delivery_id", Text, primary_key=True),
    Column("subscription_id", Text, nullable=False),
    Column("subscription_name", Text, nullable=False),
    Column("account_id", Text, nullable=False),
    Column("agent_id", Text, nullable=False),
    Column("event_id", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("content_type", Text, nullable=False),
    Column("received_at", DateTime(timezone=True), nullable=False),
    UniqueConstraint("subscription_id", "event_id", name="deliveries_event"),
)
