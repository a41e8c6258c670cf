"""Tables of schema `scheduler`."""

from sqlalchemy import Column, DateTime, Index, Integer, MetaData, Table, Text

from headrace.common.inbox import attempts_table, inbox_table
from headrace.common.outbox import outbox_table

metadata = MetaData(schema="scheduler")

outbox_table(metadata)
inbox_table(metadata)
attempts_table(metadata)

schedules = Table(
    "schedules",
    metadata,
    Column("schedule_id", Text, primary_key=True),
    Column("account_id", Text, nullable=False),
    Column("agent_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("every_seconds", Integer, nullable=False),
    Column("prompt", Text, nullable=False),
    Column("next_fire_at", DateTime(timezone=True), nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False),
    Index("schedules_due", "next_fire_at"),
    Index("schedules_account", "account_id", "created_at"),
)

fires = Table(
    "fires",
    metadata,
    Column("schedule_id", Text, primary_key=True),
    Column("fire_at", DateTime(timezone=True), primary_key=True),
    Column("run_id", Text, nullable=False),
)
