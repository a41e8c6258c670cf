"""The composition root of the rag service."""

from headrace.common.app import Infra, Parts, Service
from headrace.common.rpc import answers
from headrace.contracts.knowledge import DeleteDocument, FindDocument, SearchKnowledge
from headrace.rag.answers import KnowledgeDesk
from headrace.rag.embed import WordLlamaEmbedder
from headrace.rag.handlers import Ingest
from headrace.rag.index import PassageIndex
from headrace.rag.models import metadata
from headrace.rag.settings import RagSettings
from headrace.rag.upkeep import Upkeep


def create_service(settings: RagSettings) -> Service:
    """Make the rag service.

    Args:
        settings: Its own.
    """

    def compose(infra: Infra) -> Parts:
        index = PassageIndex(settings.data_dir, WordLlamaEmbedder())
        desk = KnowledgeDesk(db=infra.db, index=index)
        ingest = Ingest(
            index=index,
            clock=infra.clock,
            chunk_characters=settings.chunk_characters,
            overlap_characters=settings.overlap_characters,
        )
        return Parts(
            handlers=[ingest.handler(concurrency=settings.ingest_concurrency)],
            answers=[
                answers(SearchKnowledge, desk.search),
                answers(FindDocument, desk.find),
                answers(DeleteDocument, desk.delete),
            ],
            loops=[Upkeep(index=index, pause_seconds=settings.upkeep_seconds).run],
        )

    return Service(
        name="rag",
        description="Documents become knowledge that can be searched.",
        metadata=metadata,
        compose=compose,
    )
