"""What other services ask: knowledge is searched, documents are found and forgotten."""

from dataclasses import dataclass

from headrace.common.db import Database
from headrace.common.errors import NotFound
from headrace.contracts.hooks import Deleted
from headrace.contracts.knowledge import DeleteDocument, Document, FindDocument, Passages, SearchKnowledge
from headrace.rag import repository
from headrace.rag.index import PassageIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeDesk:
    """Answers the questions about knowledge."""

    db: Database
    index: PassageIndex

    async def search(self, question: SearchKnowledge) -> Passages:
        """Tell the best passages of the account."""
        return Passages(items=tuple(await self.index.search(question)))

    async def find(self, question: FindDocument) -> Document:
        """Tell where a document stands.

        Raises:
            NotFound: The account has no such document, or none that an ingest got to yet.
        """
        async with self.db.transaction() as tx:
            document = await repository.find_document(
                tx.connection, question.account_id, question.document_id
            )
        if document is None:
            raise NotFound(f"there is no document {question.document_id}")
        return document

    async def delete(self, question: DeleteDocument) -> Deleted:
        """Forget a document. Its passages go before the commit: should that fail, asking again finds the row still."""
        async with self.db.transaction() as tx:
            existed = await repository.remove_document(
                tx.connection, question.account_id, question.document_id
            )
            if existed:
                await self.index.remove(question.account_id, question.document_id)
        return Deleted(existed=existed)
