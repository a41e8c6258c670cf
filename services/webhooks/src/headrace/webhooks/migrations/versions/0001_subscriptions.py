"""Subscriptions, the events that came through them, and the delivery tables."""

import sqlalchemy as sa
from alembic import op

from headrace.common.migrate import create_delivery_tables_v1

revision = "0001"
down_revision = None

SCHEMA = "webhooks"


def upgrade() -> None:
    create_delivery_tables_v1(op, SCHEMA)
    op.create_table(
        "subscriptions",
        sa.Column("subscription_id", sa.Text, primary_key=True),
        sa.Column("account_id", sa.Text, nullable=False),
        sa.Column("agent_id", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("secret_sealed", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        schema=SCHEMA,
    )
    op.create_index("subscriptions_account", "subscriptions", ["account_id", "created_at"], schema=SCHEMA)
    op.create_table(
        "deliveries",
        sa.Column("delivery_id", sa.Text, primary_key=True),
        sa.Column("subscription_id", sa.Text, nullable=False),
        sa.Column("subscription_name", sa.Text, nullable=False),
        sa.Column("account_id", sa.Text, nullable=False),
        sa.Column("agent_id", sa.Text, nullable=False),
        sa.Column("event_id", sa.Text, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("content_type", sa.Text, nullable=False),
        sa.Column("received_at", sa.DateTime(timezone=True), nullable=False),
        sa.UniqueConstraint("subscription_id", "event_id", name="deliveries_event"),
        schema=SCHEMA,
    )


def downgrade() -> None:
    for table in ("deliveries", "subscriptions", "attempts", "inbox", "outbox"):
        op.drop_table(table, schema=SCHEMA)
