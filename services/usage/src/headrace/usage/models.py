"""Tables of schema `usage`."""

from sqlalchemy import BigInteger, Boolean, Column, DateTime, Integer, MetaData, String, Table, Text

from headrace.common.inbox import attempts_table, inbox_table
from headrace.common.outbox import outbox_table

metadata = MetaData(schema="usage")
outbox = outbox_table(metadata)
inbox = inbox_table(metadata)
attempts = attempts_table(metadata)

admissions = Table(
    "admissions",
    metadata,
    Column("run_id", String(128), primary_key=True),
    Column("account_id", String(128), nullable=False),
    Column("agent_id", String(128), nullable=False),
    Column("door", String(16), nullable=False),
    Column("lane", String(16), nullable=False),
    Column("decision", String(16), nullable=False),
    Column("reason", Text),
    Column("decided_at", DateTime(timezone=True), nullable=False),
)

model_calls = Table(
    "model_calls",
    metadata,
    Column("run_id", String(128), primary_key=True),
    Column("path", String(256), primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    Column("account_id", String(128), nullable=False),
    Column("agent_id", String(128), nullable=False),
    Column("model", String(200), nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("cached_input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("is_estimated", Boolean, nullable=False),
    Column("latency_ms", Integer, nullable=False),
    Column("recorded_at", DateTime(timezone=True), nullable=False),
)
