"""Accounts, keys, agents with revisions, and requests."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from headrace.common.migrate import create_delivery_tables_v1

revision = "0001"
down_revision = None


def upgrade() -> None:
    create_delivery_tables_v1(op, "gateway")
    op.create_table(
        "accounts",
        sa.Column("account_id", sa.String(128), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        schema="gateway",
    )
    op.create_table(
        "api_keys",
        sa.Column("key_hash", sa.LargeBinary, primary_key=True),
        sa.Column("account_id", sa.String(128), sa.ForeignKey("gateway.accounts.account_id"), nullable=False),
        sa.Column("label", sa.String(200), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        schema="gateway",
    )
    op.create_table(
        "agents",
        sa.Column("agent_id", sa.String(128), primary_key=True),
        sa.Column("account_id", sa.String(128), sa.ForeignKey("gateway.accounts.account_id"), nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.UniqueConstraint("account_id", "name", name="agents_name"),
        schema="gateway",
    )
    op.create_table(
        "agent_revisions",
        sa.Column("agent_id", sa.String(128), primary_key=True),
        sa.Column("revision", sa.Integer, primary_key=True),
        sa.Column("account_id", sa.String(128), nullable=False),
        sa.Column("definition", JSONB, nullable=False),
        sa.Column("saved_at", sa.DateTime(timezone=True), nullable=False),
        schema="gateway",
    )
    op.create_table(
        "requests",
        sa.Column("run_id", sa.String(128), primary_key=True),
        sa.Column("account_id", sa.String(128), nullable=False),
        sa.Column("agent_id", sa.String(128), nullable=False),
        sa.Column("door", sa.String(16), nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("idempotency_key", sa.Text),
        sa.Column("requested_at", sa.DateTime(timezone=True), nullable=False),
        schema="gateway",
    )


def downgrade() -> None:
    for table in (
        "requests",
        "agent_revisions",
        "agents",
        "api_keys",
        "accounts",
        "attempts",
        "inbox",
        "outbox",
    ):
        op.drop_table(table, schema="gateway")
