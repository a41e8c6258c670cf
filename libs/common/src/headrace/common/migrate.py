"""Alembic, shared: each service migrates its own schema and keeps its version table in it."""

import asyncio
from importlib import resources
from typing import Any

import sqlalchemy as sa
from alembic import command, context
from alembic.config import Config
from alembic.operations import Operations
from sqlalchemy import Connection, MetaData
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncEngine


async def upgrade(engine: AsyncEngine, package: str) -> None:
    """Bring a service's schema up to date. Replicas that start together take turns.

    Args:
        engine: Connections with the role that owns the schema.
        package: The service's package, whose `migrations` folder holds the versions.
    """
    async with engine.connect() as connection:
        await connection.run_sync(_upgrade, package)


def _upgrade(connection: Connection, package: str) -> None:
    schema = package.rpartition(".")[2]
    with connection.begin():
        connection.execute(
            sa.text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": f"migrate {schema}"}
        )
        if not sa.inspect(connection).has_schema(schema):
            connection.execute(sa.schema.CreateSchema(schema))
        config = Config()
        config.set_main_option("script_location", str(resources.files(package) / "migrations"))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def run(metadata: MetaData) -> None:
    """The body of every service's `migrations/env.py`."""
    connection: Connection = context.config.attributes["connection"]
    schema = metadata.schema
    context.configure(
        connection=connection,
        target_metadata=metadata,
        version_table_schema=schema,
        include_schemas=True,
        include_name=lambda name, kind, _: kind != "schema" or name == schema,
    )
    context.run_migrations()


def migrate_now(engine: AsyncEngine, package: str) -> None:
    """Migrate from a command line."""

    async def once() -> None:
        await upgrade(engine, package)
        await engine.dispose()

    asyncio.run(once())


def create_delivery_tables_v1(op: Operations | Any, schema: str) -> None:
    """The outbox, inbox and attempts tables, as every service's first migration makes them."""
    op.create_table(
        "outbox",
        sa.Column("message_id", sa.Text, primary_key=True),
        sa.Column("stream", sa.String(32), nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("headers", JSONB, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
        schema=schema,
    )
    op.create_index("outbox_due", "outbox", ["due_at"], schema=schema)
    for name, own, stamp in (
        ("inbox", sa.Column("outcome", sa.String(8), nullable=False), "settled_at"),
        ("attempts", sa.Column("count", sa.Integer, nullable=False), "begun_at"),
    ):
        op.create_table(
            name,
            sa.Column("consumer", sa.String(64), primary_key=True),
            sa.Column("message_id", sa.Text, primary_key=True),
            own,
            sa.Column(stamp, sa.DateTime(timezone=True), nullable=False),
            schema=schema,
        )
        op.create_index(f"{name}_{stamp.partition('_')[0]}", name, [stamp], schema=schema)
