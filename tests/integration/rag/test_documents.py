"""Documents from the message to the answer, on a real Postgres and a real LanceDB."""

from pathlib import Path

import pytest

from headrace.common.errors import Conflict, NotFound
from headrace.contracts.hooks import Deleted
from headrace.contracts.knowledge import (
    DeleteDocument,
    Document,
    FindDocument,
    IngestDocument,
    SearchKnowledge,
)
from headrace.rag.answers import KnowledgeDesk
from headrace.rag.embed import WordLlamaEmbedder
from headrace.rag.handlers import Ingest
from headrace.rag.index import PassageIndex
from tests.support.service_database import ServiceDatabase

TIDES = IngestDocument(
    upload_id="upload-1",
    knowledge_base_id="coast",
    account_id="acme",
    document_id="tides",
    title="Tides",
    text="Tides are caused by the gravity of the moon.",
)
FIND = FindDocument(account_id="acme", document_id="tides")


@pytest.fixture
def index(tmp_path: Path) -> PassageIndex:
    return PassageIndex(tmp_path, WordLlamaEmbedder())


@pytest.fixture
def ingest(stored: ServiceDatabase, index: PassageIndex) -> Ingest:
    return Ingest(index=index, clock=stored.clock, chunk_characters=1_200, overlap_characters=150)


@pytest.fixture
def desk(stored: ServiceDatabase, index: PassageIndex) -> KnowledgeDesk:
    return KnowledgeDesk(db=stored.database, index=index)


async def act(ingest: Ingest, stored: ServiceDatabase, document: IngestDocument) -> None:
    async with stored.database.transaction() as tx:
        await ingest.act(document, tx)


async def found(desk: KnowledgeDesk) -> list[str]:
    answer = await desk.search(SearchKnowledge(account_id="acme", query="moon"))
    return [passage.text for passage in answer.items]


async def test_ingested_document_is_indexed_and_found(
    stored: ServiceDatabase, ingest: Ingest, desk: KnowledgeDesk
) -> None:
    await act(ingest, stored, TIDES)

    assert await desk.find(FIND) == Document(
        document_id="tides", knowledge_base_id="coast", title="Tides", state="indexed", chunks=1
    )
    assert await found(desk) == [TIDES.text]


async def test_work_that_was_not_committed_is_done_again_without_a_trace(
    stored: ServiceDatabase, ingest: Ingest, desk: KnowledgeDesk
) -> None:
    async with stored.database.transaction() as tx:
        await ingest.act(TIDES, tx)
        await tx.connection.rollback()

    await act(ingest, stored, TIDES)

    assert await found(desk) == [TIDES.text]


async def test_document_of_blanks_fails_with_a_reason(
    stored: ServiceDatabase, ingest: Ingest, desk: KnowledgeDesk
) -> None:
    await act(ingest, stored, TIDES.model_copy(update={"text": " \n"}))

    document = await desk.find(FIND)
    assert (document.state, document.chunks, document.error) == ("failed", 0, "there is no text to index")
    assert await found(desk) == []


async def test_nul_characters_do_not_stop_a_document(
    stored: ServiceDatabase, ingest: Ingest, desk: KnowledgeDesk
) -> None:
    await act(ingest, stored, TIDES.model_copy(update={"title": "Ti\x00des", "text": "the moon\x00"}))

    document = await desk.find(FIND)
    assert (document.title, document.state) == ("Tides", "indexed")


async def test_buried_document_tells_why(
    stored: ServiceDatabase, ingest: Ingest, desk: KnowledgeDesk
) -> None:
    async with stored.database.transaction() as tx:
        await ingest.buried(TIDES, "gave up after 6 attempts", tx)

    document = await desk.find(FIND)
    assert (document.state, document.error) == ("failed", "gave up after 6 attempts")


async def test_another_account_can_neither_take_nor_fail_a_document(
    stored: ServiceDatabase, ingest: Ingest, desk: KnowledgeDesk
) -> None:
    theirs = TIDES.model_copy(update={"account_id": "other", "text": "mine now"})
    await act(ingest, stored, TIDES)

    with pytest.raises(Conflict, match="the document id tides is taken"):
        await act(ingest, stored, theirs)
    async with stored.database.transaction() as tx:
        await ingest.buried(theirs, "taken", tx)

    assert (await desk.find(FIND)).state == "indexed"
    assert await found(desk) == [TIDES.text]


async def test_another_account_can_neither_see_nor_delete_a_document(
    stored: ServiceDatabase, ingest: Ingest, desk: KnowledgeDesk
) -> None:
    await act(ingest, stored, TIDES)

    with pytest.raises(NotFound, match="there is no document tides"):
        await desk.find(FindDocument(account_id="other", document_id="tides"))
    deleted = await desk.delete(DeleteDocument(account_id="other", document_id="tides"))

    assert deleted == Deleted(existed=False)
    assert await found(desk) == [TIDES.text]


async def test_deleted_document_is_gone(stored: ServiceDatabase, ingest: Ingest, desk: KnowledgeDesk) -> None:
    question = DeleteDocument(account_id="acme", document_id="tides")
    await act(ingest, stored, TIDES)

    assert await desk.delete(question) == Deleted(existed=True)

    assert await desk.delete(question) == Deleted(existed=False)
    assert await found(desk) == []
    with pytest.raises(NotFound):
        await desk.find(FIND)
