"""Who holds a run."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("runs", sa.Column("holder", sa.Text), schema="runner")


def downgrade() -> None:
    op.drop_column("runs", "holder", schema="runner")
