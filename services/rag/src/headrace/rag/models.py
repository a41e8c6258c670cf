"""Tables of schema `rag`."""

from sqlalchemy import Column, DateTime, Index, Integer, MetaData, String, Table, Text

from headrace.common.inbox import attempts_table, inbox_table
from headrace.common.outbox import outbox_table

metadata = MetaData(schema="rag")

outbox_table(metadata)
inbox_table(metadata)
attempts_table(metadata)

documents = Table(
    "documents",
    metadata,
    Column("document_id", Text, primary_key=True),
    Column("account_id", Text, nullable=False),
    Column("knowledge_base_id", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("state", String(8), nullable=False),
    Column("chunks", Integer, nullable=False),
    Column("error", Text),
    Column("created_at", DateTime(timezone=True), nullable=False),
    Column("updated_at", DateTime(timezone=True), nullable=False),
    Index("documents_account", "account_id", "knowledge_base_id"),
)
