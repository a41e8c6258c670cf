"""Tables of schema `gateway`."""

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.dialects.postgresql import JSONB

from headrace.common.inbox import attempts_table, inbox_table
from headrace.common.outbox import outbox_table

metadata = MetaData(schema="gateway")
outbox = outbox_table(metadata)
inbox = inbox_table(metadata)
attempts = attempts_table(metadata)

accounts = Table(
    "accounts",
    metadata,
    Column("account_id", String(128), primary_key=True),
    Column("name", String(200), nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("key_hash", LargeBinary, primary_key=True),
    Column("account_id", String(128), ForeignKey("gateway.accounts.account_id"), nullable=False),
    Column("label", String(200), nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False),
)

agents = Table(
    "agents",
    metadata,
    Column("agent_id", String(128), primary_key=True),
    Column("account_id", String(128), ForeignKey("gateway.accounts.account_id"), nullable=False),
    Column("name", String(64), nullable=False),
    Column("revision", Integer, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False),
    UniqueConstraint("account_id", "name", name="agents_name"),
)

agent_revisions = Table(
    "agent_revisions",
    metadata,
    Column("agent_id", String(128), primary_key=True),
    Column("revision", Integer, primary_key=True),
    Column("account_id", String(128), nullable=False),
    Column("definition", JSONB, nullable=False),
    Column("saved_at", DateTime(timezone=True), nullable=False),
)

requests = Table(
    "requests",
    metadata,
    Column("run_id", String(128), primary_key=True),
    Column("account_id", String(128), nullable=False),
    Column("agent_id", String(128), nullable=False),
    Column("door", String(16), nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("idempotency_key", Text),
    Column("requested_at", DateTime(timezone=True), nullable=False),
)

commands = Table(
    "commands",
    metadata,
    Column("command_id", String(128), primary_key=True),
    Column("run_id", String(128), nullable=False),
    Column("account_id", String(128), nullable=False),
    Column("verb", String(16), nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("given_by", Text, nullable=False),
    Column("given_at", DateTime(timezone=True), nullable=False),
)

files = Table(
    "files",
    metadata,
    Column("account_id", String(128), ForeignKey("gateway.accounts.account_id"), primary_key=True),
    Column("sha256", String(64), primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("name", String(255), nullable=False),
    Column("media_type", String(255), nullable=False),
    Column("stored_at", DateTime(timezone=True), nullable=False),
)
