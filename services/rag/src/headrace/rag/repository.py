"""All SQL of the rag service."""

from datetime import datetime
from typing import Literal

from sqlalchemy import delete, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from headrace.contracts.ids import AccountId, Token
from headrace.contracts.knowledge import Document, IngestDocument
from headrace.rag.models import documents


async def store_document(connection: AsyncConnection, wanted: IngestDocument, *, now: datetime) -> bool:
    """Store a document as queued, over what has its id, and lock it; `False` when its id is another account's.

    Whoever holds the lock may write the document's passages: so replicas never write one document side by side.
    """
    content = {
        "knowledge_base_id": wanted.knowledge_base_id,
        "title": _storable(wanted.title),
        "text": _storable(wanted.text),
        "state": "queued",
        "chunks": 0,
        "error": None,
        "updated_at": now,
    }
    adding = insert(documents).values(
        document_id=wanted.document_id, account_id=wanted.account_id, created_at=now, **content
    )
    storing = adding.on_conflict_do_update(
        index_elements=[documents.c.document_id],
        set_=content,
        where=documents.c.account_id == adding.excluded.account_id,
    ).returning(documents.c.document_id)
    return (await connection.execute(storing)).first() is not None


async def mark_indexed(
    connection: AsyncConnection, document: IngestDocument, *, chunks: int, now: datetime
) -> None:
    """Say that a document can be found, by so many passages."""
    await _mark(connection, document, state="indexed", chunks=chunks, error=None, now=now)


async def mark_failed(
    connection: AsyncConnection, document: IngestDocument, *, error: str, now: datetime
) -> None:
    """Say why a document cannot be found."""
    await _mark(connection, document, state="failed", chunks=0, error=_storable(error), now=now)


async def find_document(
    connection: AsyncConnection, account_id: AccountId, document_id: Token
) -> Document | None:
    """A document of an account, without its text."""
    c = documents.c
    query = select(c.document_id, c.knowledge_base_id, c.title, c.state, c.chunks, c.error).where(
        c.account_id == account_id, c.document_id == document_id
    )
    row = (await connection.execute(query)).mappings().one_or_none()
    return None if row is None else Document.model_validate(dict(row))


async def remove_document(connection: AsyncConnection, account_id: AccountId, document_id: Token) -> bool:
    """Delete a document of an account; `False` when the account has none of that id."""
    removal = (
        delete(documents)
        .where(documents.c.account_id == account_id, documents.c.document_id == document_id)
        .returning(documents.c.document_id)
    )
    return (await connection.execute(removal)).first() is not None


async def _mark(
    connection: AsyncConnection,
    document: IngestDocument,
    *,
    state: Literal["indexed", "failed"],
    chunks: int,
    error: str | None,
    now: datetime,
) -> None:
    marking = (
        update(documents)
        .where(documents.c.account_id == document.account_id, documents.c.document_id == document.document_id)
        .values(state=state, chunks=chunks, error=error, updated_at=now)
    )
    await connection.execute(marking)


def _storable(text: str) -> str:
    """Postgres stores every character but NUL."""
    return text.replace("\x00", "")
