"""Files that accounts uploaded."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "files",
        sa.Column(
            "account_id", sa.String(128), sa.ForeignKey("gateway.accounts.account_id"), primary_key=True
        ),
        sa.Column("sha256", sa.String(64), primary_key=True),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("media_type", sa.String(255), nullable=False),
        sa.Column("stored_at", sa.DateTime(timezone=True), nullable=False),
        schema="gateway",
    )


def downgrade() -> None:
    op.drop_table("files", schema="gateway")
