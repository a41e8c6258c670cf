"""Runs, and the messages of sessions."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from headrace.common.migrate import create_delivery_tables_v1

revision = "0001"
down_revision = None


def upgrade() -> None:
    create_delivery_tables_v1(op, "runner")
    op.create_table(
        "runs",
        sa.Column("run_id", sa.String(128), primary_key=True),
        sa.Column("account_id", sa.String(128), nullable=False),
        sa.Column("agent_id", sa.String(128), nullable=False),
        sa.Column("agent_revision", sa.Integer),
        sa.Column("session_id", sa.String(256)),
        sa.Column("door", sa.String(16), nullable=False),
        sa.Column("lane", sa.String(16), nullable=False),
        sa.Column("trigger", sa.Text, nullable=False),
        sa.Column("request", JSONB, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False, server_default="0"),
        sa.Column("epoch", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("lease_until", sa.DateTime(timezone=True)),
        sa.Column("output", sa.Text),
        sa.Column("error_code", sa.String(64)),
        sa.Column("error", sa.Text),
        sa.Column("usage", JSONB),
        sa.Column("requested_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True)),
        schema="runner",
    )
    op.create_index(
        "runs_live",
        "runs",
        ["lease_until"],
        schema="runner",
        postgresql_where=sa.text("state = 'running'"),
    )
    op.create_index("runs_of_account", "runs", ["account_id", "requested_at"], schema="runner")
    op.create_table(
        "messages",
        sa.Column("account_id", sa.String(128), primary_key=True),
        sa.Column("session_id", sa.String(256), primary_key=True),
        sa.Column("seq", sa.BigInteger, primary_key=True),
        sa.Column("run_id", sa.String(128), nullable=False),
        sa.Column("place", sa.Integer, nullable=False),
        sa.Column("body", JSONB, nullable=False),
        sa.Column("stored_at", sa.DateTime(timezone=True), nullable=False),
        sa.UniqueConstraint("run_id", "place", name="messages_once_per_run"),
        schema="runner",
    )


def downgrade() -> None:
    for table in ("messages", "runs", "attempts", "inbox", "outbox"):
        op.drop_table(table, schema="runner")
