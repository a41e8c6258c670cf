"""The message edge: a document becomes passages that can be found."""

import logging
from dataclasses import dataclass

from headrace.common.clock import Clock
from headrace.common.consumer import Handler
from headrace.common.db import Transaction
from headrace.common.errors import Conflict
from headrace.contracts.knowledge import IngestDocument
from headrace.contracts.streams import RAG_INGEST
from headrace.rag import repository
from headrace.rag.chunk import split
from headrace.rag.index import PassageIndex

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingest:
    """Indexes documents. The index is written before the commit: what is written twice is there once."""

    index: PassageIndex
    clock: Clock
    chunk_characters: int
    overlap_characters: int

    def handler(self, *, concurrency: int) -> Handler[IngestDocument]:
        """The `rag-ingest` consumer."""
        return Handler(consumer=RAG_INGEST, act=self.act, buried=self.buried, concurrency=concurrency)

    async def act(self, document: IngestDocument, tx: Transaction) -> None:
        """Store and index a document; one without text fails, for good.

        Raises:
            Conflict: The document's id is another account's.
        """
        if not await repository.store_document(tx.connection, document, now=self.clock.now()):
            raise Conflict(f"the document id {document.document_id} is taken")
        chunks = split(document.text, longest=self.chunk_characters, overlap=self.overlap_characters)
        await self.index.replace(document, chunks)
        now = self.clock.now()
        if chunks:
            await repository.mark_indexed(tx.connection, document, chunks=len(chunks), now=now)
        else:
            await repository.mark_failed(tx.connection, document, error="there is no text to index", now=now)
        log.info("document.ingested", extra={"document_id": document.document_id, "chunks": len(chunks)})

    async def buried(self, document: IngestDocument, reason: str, tx: Transaction) -> None:
        """Say on the document why it was given up; another account's document of the same id is left as it is."""
        now = self.clock.now()
        if await repository.store_document(tx.connection, document, now=now):
            await repository.mark_failed(tx.connection, document, error=reason, now=now)
