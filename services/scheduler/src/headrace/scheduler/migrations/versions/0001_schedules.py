"""Schedules, what they fired, and the delivery tables."""

import sqlalchemy as sa
from alembic import op

from headrace.common.migrate import create_delivery_tables_v1

revision = "0001"
down_revision = None

SCHEMA = "scheduler"


def upgrade() -> None:
    create_delivery_tables_v1(op, SCHEMA)
    op.create_table(
        "schedules",
        sa.Column("schedule_id", sa.Text, primary_key=True),
        sa.Column("account_id", sa.Text, nullable=False),
        sa.Column("agent_id", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("every_seconds", sa.Integer, nullable=False),
        sa.Column("prompt", sa.Text, nullable=False),
        sa.Column("next_fire_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        schema=SCHEMA,
    )
    op.create_index("schedules_due", "schedules", ["next_fire_at"], schema=SCHEMA)
    op.create_index("schedules_account", "schedules", ["account_id", "created_at"], schema=SCHEMA)
    op.create_table(
        "fires",
        sa.Column("schedule_id", sa.Text, primary_key=True),
        sa.Column("fire_at", sa.DateTime(timezone=True), primary_key=True),
        sa.Column("run_id", sa.Text, nullable=False),
        schema=SCHEMA,
    )


def downgrade() -> None:
    for table in ("fires", "schedules", "attempts", "inbox", "outbox"):
        op.drop_table(table, schema=SCHEMA)
