"""Documents, and the delivery tables."""

import sqlalchemy as sa
from alembic import op

from headrace.common.migrate import create_delivery_tables_v1

revision = "0001"
down_revision = None

SCHEMA = "rag"


def upgrade() -> None:
    create_delivery_tables_v1(op, SCHEMA)
    op.create_table(
        "documents",
        sa.Column("document_id", sa.Text, primary_key=True),
        sa.Column("account_id", sa.Text, nullable=False),
        sa.Column("knowledge_base_id", sa.Text, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("state", sa.String(8), nullable=False),
        sa.Column("chunks", sa.Integer, nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        schema=SCHEMA,
    )
    op.create_index("documents_account", "documents", ["account_id", "knowledge_base_id"], schema=SCHEMA)


def downgrade() -> None:
    for table in ("documents", "attempts", "inbox", "outbox"):
        op.drop_table(table, schema=SCHEMA)
