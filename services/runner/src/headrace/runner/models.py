"""Tables of schema `runner`."""

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
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
    Column("output", Text),
    Column("error_code", String(64)),
    Column("error", Text),
    Column("usage", JSONB),
    Column("requested_at", DateTime(timezone=True), nullable=False),
    Column("finished_at", DateTime(timezone=True)),
    Index("runs_live", "lease_until", postgresql_where=text("state = 'running'")),
    Index("runs_of_account", "account_id", "requested_at"),
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
