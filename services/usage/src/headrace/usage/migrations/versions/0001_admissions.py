"""Admissions and the ledger of model calls."""

import sqlalchemy as sa
from alembic import op

from headrace.common.migrate import create_delivery_tables_v1

revision = "0001"
down_revision = None


def upgrade() -> None:
    create_delivery_tables_v1(op, "usage")
    op.create_table(
        "admissions",
        sa.Column("run_id", sa.String(128), primary_key=True),
        sa.Column("account_id", sa.String(128), nullable=False),
        sa.Column("agent_id", sa.String(128), nullable=False),
        sa.Column("door", sa.String(16), nullable=False),
        sa.Column("lane", sa.String(16), nullable=False),
        sa.Column("decision", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("decided_at", sa.DateTime(timezone=True), nullable=False),
        schema="usage",
    )
    op.create_table(
        "model_calls",
        sa.Column("run_id", sa.String(128), primary_key=True),
        sa.Column("path", sa.String(256), primary_key=True),
        sa.Column("seq", sa.BigInteger, primary_key=True),
        sa.Column("account_id", sa.String(128), nullable=False),
        sa.Column("agent_id", sa.String(128), nullable=False),
        sa.Column("model", sa.String(200), nullable=False),
        sa.Column("input_tokens", sa.BigInteger, nullable=False),
        sa.Column("cached_input_tokens", sa.BigInteger, nullable=False),
        sa.Column("output_tokens", sa.BigInteger, nullable=False),
        sa.Column("is_estimated", sa.Boolean, nullable=False),
        sa.Column("latency_ms", sa.Integer, nullable=False),
        sa.Column("recorded_at", sa.DateTime(timezone=True), nullable=False),
        schema="usage",
    )


def downgrade() -> None:
    for table in ("model_calls", "admissions", "attempts", "inbox", "outbox"):
        op.drop_table(table, schema="usage")
