"""Knowledge: documents to index, and the questions of the rag service."""

from typing import ClassVar, Literal

from pydantic import Field

from headrace.contracts.hooks import Deleted
from headrace.contracts.ids import AccountId, Token
from headrace.contracts.message import Contract, Message
from headrace.contracts.question import Question


class IngestDocument(Message):
    """Index a text, so that it can be searched. The same document again is the same work."""

    type: ClassVar[str] = "headrace.rag.ingest.v1"
    address: ClassVar[str] = "rag.ingest.{knowledge_base_id}"

    knowledge_base_id: Token
    account_id: AccountId
    document_id: Token
    """Derived from account, knowledge base and the content's SHA-256: the same bytes are indexed once."""
    upload_id: Token
    """This upload; the same document may be uploaded again after it was deleted or failed."""
    title: str = Field(max_length=500)
    text: str = Field(min_length=1)

    @property
    def message_id(self) -> str:
        """One ingest per upload."""
        return f"{self.document_id}.ingest.{self.upload_id}"


class Passage(Contract):
    """A piece of a document that answers a search."""

    document_id: Token
    title: str
    text: str
    score: float
    """Higher is closer; comparable within one answer only."""


class Passages(Contract):
    """The best passages, best first."""

    items: tuple[Passage, ...]


class SearchKnowledge(Question[Passages]):
    """Search the knowledge bases of an account."""

    service: ClassVar[str] = "rag"
    verb: ClassVar[str] = "search"
    reply: ClassVar[type[Contract]] = Passages

    account_id: AccountId
    query: str = Field(min_length=1, max_length=4_000)
    knowledge_base_ids: tuple[Token, ...] = ()
    """Empty means all of the account's."""
    limit: int = Field(default=5, ge=1, le=50)


class Document(Contract):
    """A document and how far its indexing came."""

    document_id: Token
    knowledge_base_id: Token
    title: str
    state: Literal["queued", "indexed", "failed"]
    chunks: int = 0
    error: str | None = None


class FindDocument(Question[Document]):
    """Where a document stands."""

    service: ClassVar[str] = "rag"
    verb: ClassVar[str] = "find-document"
    reply: ClassVar[type[Contract]] = Document

    account_id: AccountId
    document_id: Token


class DeleteDocument(Question[Deleted]):
    """Forget a document; no search finds it afterwards."""

    service: ClassVar[str] = "rag"
    verb: ClassVar[str] = "delete-document"
    reply: ClassVar[type[Contract]] = Deleted

    account_id: AccountId
    document_id: Token
