"""The journal, the effects ledger, decisions of people, and sessions as rows."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0002"
down_revision = "0001"

NOW = sa.DateTime(timezone=True)


def upgrade() -> None:
    for column in (
        sa.Column("replay_of", sa.String(128)),
        sa.Column("journal_version", sa.Integer),
        sa.Column("history_upto", sa.BigInteger),
    ):
        op.add_column("runs", column, schema="runner")
    op.create_table(
        "steps",
        sa.Column(
            "run_id",
            sa.String(128),
            sa.ForeignKey("runner.runs.run_id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("path", sa.Text, primary_key=True),
        sa.Column("seq", sa.Integer, primary_key=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("call_id", sa.Text),
        sa.Column("digest", sa.String(64)),
        sa.Column("output", JSONB),
        sa.Column("tokens", JSONB),
        sa.Column("effect_key", sa.String(64)),
        sa.Column("why", sa.Text),
        sa.Column("expires_at", NOW),
        sa.Column("started_at", NOW, nullable=False),
        sa.Column("finished_at", NOW),
        sa.CheckConstraint("(state = 'done') = (output IS NOT NULL)", name="steps_done_with_output"),
        sa.CheckConstraint("(kind = 'model') = (call_id IS NULL)", name="steps_of_calls"),
        schema="runner",
    )
    op.create_index("steps_of_effect", "steps", ["effect_key"], schema="runner")
    op.create_table(
        "effects",
        sa.Column("account_id", sa.String(128), primary_key=True),
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("tool", sa.Text, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("run_id", sa.String(128), nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("seq", sa.Integer, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("provider_key", sa.Text, nullable=False),
        sa.Column("result", sa.Text),
        sa.Column("why", sa.Text),
        sa.Column("begun_at", NOW, nullable=False),
        sa.Column("settled_at", NOW),
        sa.Column("expires_at", NOW, nullable=False),
        sa.CheckConstraint(
            "(state = 'confirmed') = (result IS NOT NULL)", name="effects_confirmed_with_result"
        ),
        schema="runner",
    )
    op.create_index("effects_of_run", "effects", ["run_id"], schema="runner")
    op.create_index("effects_expiry", "effects", ["expires_at"], schema="runner")
    op.create_table(
        "decisions",
        sa.Column("command_id", sa.String(128), primary_key=True),
        sa.Column("path", sa.Text, primary_key=True),
        sa.Column("seq", sa.Integer, primary_key=True),
        sa.Column("run_id", sa.String(128), nullable=False),
        sa.Column("choice", sa.String(16), nullable=False),
        sa.Column("note", sa.Text, nullable=False),
        sa.Column("decided_by", sa.Text, nullable=False),
        sa.Column("decided_at", NOW, nullable=False),
        schema="runner",
    )
    op.create_index("decisions_of_run", "decisions", ["run_id", "decided_at"], schema="runner")
    op.create_table(
        "sessions",
        sa.Column("account_id", sa.String(128), primary_key=True),
        sa.Column("session_id", sa.String(256), primary_key=True),
        sa.Column("last_seq", sa.BigInteger, nullable=False),
        sa.Column("begun_at", NOW, nullable=False),
        sa.Column("spoken_at", NOW, nullable=False),
        schema="runner",
    )
    op.execute(
        "INSERT INTO runner.sessions SELECT account_id, session_id, max(seq), min(stored_at), max(stored_at) "
        "FROM runner.messages GROUP BY account_id, session_id"
    )


def downgrade() -> None:
    for table in ("sessions", "decisions", "effects", "steps"):
        op.drop_table(table, schema="runner")
    for column in ("history_upto", "journal_version", "replay_of"):
        op.drop_column("runs", column, schema="runner")
