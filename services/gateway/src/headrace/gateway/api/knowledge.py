"""`/v1/knowledge`: texts to index, and searches. The rag service owns them; this is its public door."""

import hashlib
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from headrace.common.errors import NotFound
from headrace.common.rpc import Rpc
from headrace.contracts.ids import Token, new_id, trigger_id
from headrace.contracts.knowledge import (
    DeleteDocument,
    Document,
    FindDocument,
    IngestDocument,
    Passage,
    SearchKnowledge,
)
from headrace.contracts.text import Text
from headrace.gateway.auth import Caller, KeyDoor

MAX_TEXT = 400_000
"""Characters of one text; the message that carries it must fit the broker's 1 MB."""


class TextWanted(BaseModel):
    """A text to index."""

    model_config = ConfigDict(extra="forbid")

    title: Text = Field(min_length=1, max_length=500)
    text: Text = Field(min_length=1, max_length=MAX_TEXT)


class SearchWanted(BaseModel):
    """What to look for."""

    model_config = ConfigDict(extra="forbid")

    query: Text = Field(min_length=1, max_length=4_000)
    knowledge_bases: list[Token] = Field(default=[], max_length=100)
    limit: int = Field(default=5, ge=1, le=50)


def knowledge_router(door: KeyDoor, rpc: Rpc) -> APIRouter:
    """The routes under `/v1/knowledge`."""
    router = APIRouter(prefix="/v1/knowledge", tags=["knowledge"])

    @router.post("/search")
    async def search(wanted: SearchWanted, account: Annotated[str, door.account()]) -> list[Passage]:
        """The best passages of the account's documents."""
        found = await rpc.ask(
            SearchKnowledge(
                account_id=account,
                query=wanted.query,
                knowledge_base_ids=tuple(wanted.knowledge_bases),
                limit=wanted.limit,
            )
        )
        return list(found.items)

    @router.post("/{knowledge_base}/documents", status_code=202)
    async def index(
        knowledge_base: Token, wanted: TextWanted, caller: Annotated[Caller, door.dependency()]
    ) -> Document:
        """Index a text. The same bytes in the same knowledge base are indexed once."""
        digest = hashlib.sha256(f"{wanted.title}\x00{wanted.text}".encode()).hexdigest()
        document_id = trigger_id("document", caller.account_id, knowledge_base, digest)
        await caller.tx.send(
            IngestDocument(
                knowledge_base_id=knowledge_base,
                account_id=caller.account_id,
                document_id=document_id,
                upload_id=new_id(),
                title=wanted.title,
                text=wanted.text,
            )
        )
        return Document(
            document_id=document_id, knowledge_base_id=knowledge_base, title=wanted.title, state="queued"
        )

    @router.get("/documents/{document_id}")
    async def look(document_id: Token, account: Annotated[str, door.account()]) -> Document:
        """Where a document stands."""
        return await rpc.ask(FindDocument(account_id=account, document_id=document_id))

    @router.delete("/documents/{document_id}", status_code=204)
    async def forget(document_id: Token, account: Annotated[str, door.account()]) -> None:
        """Forget a document; no search finds it afterwards."""
        gone = await rpc.ask(DeleteDocument(account_id=account, document_id=document_id))
        if not gone.existed:
            raise NotFound(f"there is no document {document_id}")

    return router
