"""Tables of schema `runner`."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from headrace.common.inbox import attempts_table, inbox_table
from headrace.common.outbox import outbox_table

metadata = MetaData(schema="runner")
outbox = outbox_table(metadata)
inbox = inbox_table(metadata)
attempts = attempts_table(metadata)

runs = Table(
    "runs",
    metadata,
    Column("run_id", String(128), primary_key=True),
    Column("account_id", String(128), nullable=False),
    Column("agent_id", String(128), nullable=False),
    Column("agent_revision", Integer),
    Column("session_id", String(256)),
    Column("door", String(16), nullable=False),
    Column("lane", String(16), nullable=False),
    Column("trigger", Text, nullable=False),
    Column("request", JSONB, nullable=False),
    Column("state", String(16), nullable=False),
    Column("attempt", Integer, nullable=False, server_default="0"),
    Column("epoch", BigInteger, nullable=False, server_default="0"),
    Column("lease_until", DateTime(timezone=True)),
    Column("holder", Text),
    Column("output", Text),
    Column("error_code", String(64)),
    Column("error", Text),
    Column("usage", JSONB),
    Column("replay_of", String(128)),
    Column("journal_version", Integer),
    Column("history_upto", BigInteger),
    Column("requested_at", DateTime(timezone=True), nullable=False),
    Column("finished_at", DateTime(timezone=True)),
    Index("runs_live", "lease_until", postgresql_where=text("state = 'running'")),
    Index("runs_of_account", "account_id", "requested_at"),
)

steps = Table(
    "steps",
    metadata,
    Column("run_id", String(128), ForeignKey("runner.runs.run_id", ondelete="CASCADE"), primary_key=True),
    Column("path", Text, primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("state", String(16), nullable=False),
    Column("name", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("call_id", Text),
    Column("digest", String(64)),
    Column("output", JSONB),
    Column("tokens", JSONB),
    Column("effect_key", String(64)),
    Column("why", Text),
    Column("expires_at", DateTime(timezone=True)),
    Column("started_at", DateTime(timezone=True), nullable=False),
    Column("finished_at", DateTime(timezone=True)),
    CheckConstraint("(state = 'done') = (output IS NOT NULL)", name="steps_done_with_output"),
    CheckConstraint("(kind = 'model') = (call_id IS NULL)", name="steps_of_calls"),
    Index("steps_of_effect", "effect_key"),
)
"""The journal: a call and its result are one row, so that neither is ever without the other."""

effects = Table(
    "effects",
    metadata,
    Column("account_id", String(128), primary_key=True),
    Column("key", String(64), primary_key=True),
    Column("tool", Text, nullable=False),
    Column("state", String(16), nullable=False),
    Column("run_id", String(128), nullable=False),
    Column("path", Text, nullable=False),
    Column("seq", Integer, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("provider_key", Text, nullable=False),
    Column("result", Text),
    Column("why", Text),
    Column("begun_at", DateTime(timezone=True), nullable=False),
    Column("settled_at", DateTime(timezone=True)),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    CheckConstraint("(state = 'confirmed') = (result IS NOT NULL)", name="effects_confirmed_with_result"),
    Index("effects_of_run", "run_id"),
    Index("effects_expiry", "expires_at"),
)
"""The ledger: what was, or may have been, done to the world, once for each intent."""

decisions = Table(
    "decisions",
    metadata,
    Column("command_id", String(128), primary_key=True),
    Column("path", Text, primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("run_id", String(128), nullable=False),
    Column("choice", String(16), nullable=False),
    Column("note", Text, nullable=False),
    Column("decided_by", Text, nullable=False),
    Column("decided_at", DateTime(timezone=True), nullable=False),
    Index("decisions_of_run", "run_id", "decided_at"),
)

sessions = Table(
    "sessions",
    metadata,
    Column("account_id", String(128), primary_key=True),
    Column("session_id", String(256), primary_key=True),
    Column("last_seq", BigInteger, nullable=False),
    Column("begun_at", DateTime(timezone=True), nullable=False),
    Column("spoken_at", DateTime(timezone=True), nullable=False),
)

messages = Table(
    "messages",
    metadata,
    Column("account_id", String(128), primary_key=True),
    Column("session_id", String(256), primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    Column("run_id", String(128), nullable=False),
    Column("place", Integer, nullable=False),
    Column("body", JSONB, nullable=False),
    Column("stored_at", DateTime(timezone=True), nullable=False),
    UniqueConstraint("run_id", "place", name="messages_once_per_run"),
)
