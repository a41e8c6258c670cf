"""The index of passages: by meaning (vectors) and by words (BM25). The only door to LanceDB."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from headrace.common.errors import Invalid
from headrace.contracts.ids import AccountId, Token
from headrace.contracts.knowledge import IngestDocument, Passage, SearchKnowledge
from headrace.rag.chunk import Chunk
from headrace.rag.embed import Embedder
from headrace.rag.fuse import fuse

if TYPE_CHECKING:
    from lancedb.table import AsyncTable

TABLE = "passages"
KEY = ("account_id", "document_id", "chunk")
SHOWN = ("document_id", "chunk", "title", "text")
LEAST_CANDIDATES = 20
"""Passages of each ranking that are fused, at least: one that both rank low may beat one that only one ranks high."""
KEPT_VERSIONS = timedelta(minutes=10)
"""How long a version of the table is kept for searches that still read it."""

WORDS = "icu/split"
"""Word borders by Unicode's rules and dictionaries, for scripts that put no space between words, too."""
LONGEST_WORD = 128
"""Characters of a word that can be found: long enough for hashes."""

_TOKEN = TypeAdapter(Token)


class PassageIndex:
    """The passages of all accounts in one table; whoever searches, names the account.

    Writes take turns within the process: LanceDB's parallel merges may duplicate rows, and its upkeep conflicts with
    writers. Replicas that share the folder must not write one document side by side; the document's row sees to it.

    Args:
        directory: Where the table is; made when it is missing.
        embedder: Turns passages and queries into vectors; another one needs another directory.
    """

    def __init__(self, directory: Path, embedder: Embedder) -> None:
        self._directory = directory
        self._embedder = embedder
        self._table: AsyncTable | None = None
        self._opening = asyncio.Lock()
        self._writing = asyncio.Lock()

    async def prepare(self) -> None:
        """Load the libraries, the model and the table, so that no question has to wait for them."""
        await self._opened()
        await self._embedder.embed(["warm"])

    async def replace(self, document: IngestDocument, chunks: Sequence[Chunk]) -> None:
        """Make these the passages of a document, in one step: a search sees the old ones or the new ones.

        Args:
            document: Whose passages they are.
            chunks: All of them; none takes the document out of the index.

        Raises:
            Invalid: An id is not a token.
        """
        if not chunks:
            await self.remove(document.account_id, document.document_id)
            return
        of_document = _of_document(document.account_id, document.document_id)
        table = await self._opened()
        vectors = await self._embedder.embed([f"{document.title}\n{chunk.text}" for chunk in chunks])
        rows = await asyncio.to_thread(_rows, document, chunks, vectors, self._embedder.dimensions)
        async with self._writing:
            merge = table.merge_insert(KEY).when_matched_update_all().when_not_matched_insert_all()
            await merge.when_not_matched_by_source_delete(of_document).execute(rows)

    async def remove(self, account_id: AccountId, document_id: Token) -> None:
        """Take a document out: no search that begins afterwards finds it.

        Raises:
            Invalid: An id is not a token.
        """
        of_document = _of_document(account_id, document_id)
        table = await self._opened()
        async with self._writing:
            await table.delete(of_document)

    async def search(self, question: SearchKnowledge) -> list[Passage]:
        """The account's passages that are closest in meaning or share words with the query, best first.

        Raises:
            Invalid: An id is not a token.
        """
        scope = _scope(question.account_id, question.knowledge_base_ids)
        table = await self._opened()
        [vector] = await self._embedder.embed([question.query])
        query = table.query().where(scope).limit(max(2 * question.limit, LEAST_CANDIDATES))
        in_text = query.nearest_to_text(question.query, columns="text").select([*SHOWN, "_score"])
        by_words = await in_text.to_list()
        by_meaning = await query.nearest_to(vector).select([*SHOWN, "_distance"]).to_list()
        found = {_place(row): row for row in (*by_words, *by_meaning)}
        ranked = fuse([[_place(row) for row in by_words], [_place(row) for row in by_meaning]])
        return [_passage(found[place], score) for place, score in ranked[: question.limit]]

    async def fold(self) -> None:
        """Fold what was written since into the full-text index, and let go of old versions of the table."""
        table = await self._opened()
        async with self._writing:
            await table.optimize(cleanup_older_than=KEPT_VERSIONS)

    async def _opened(self) -> "AsyncTable":
        async with self._opening:
            if self._table is None:
                self._table = await _open(self._directory, self._embedder.dimensions)
        return self._table


async def _open(directory: Path, dimensions: int) -> "AsyncTable":
    for package in ("pyarrow", "lancedb", "lancedb.index"):
        await asyncio.to_thread(import_module, package)
    import lancedb  # noqa: PLC0415  (takes seconds: imported above, in a thread)
    from lancedb.index import FTS  # noqa: PLC0415  (as above)

    # Without an interval of zero, an open table never shows what another replica wrote.
    database = await lancedb.connect_async(directory, read_consistency_interval=timedelta(0))
    table = await database.create_table(TABLE, schema=_schema(dimensions), exist_ok=True)
    if not any(index.columns == ["text"] for index in await table.list_indices()):
        await table.create_index("text", config=FTS(base_tokenizer=WORDS, max_token_length=LONGEST_WORD))
    return table


def _schema(dimensions: int) -> Any:
    import pyarrow as pa  # noqa: PLC0415  (imported in a thread before)

    return pa.schema(
        [
            ("account_id", pa.string()),
            ("knowledge_base_id", pa.string()),
            ("document_id", pa.string()),
            ("chunk", pa.int32()),
            ("title", pa.string()),
            ("text", pa.string()),
            ("vector", pa.list_(pa.float32(), dimensions)),
        ]
    )


def _rows(
    document: IngestDocument, chunks: Sequence[Chunk], vectors: Sequence[Sequence[float]], dimensions: int
) -> Any:
    import pyarrow as pa  # noqa: PLC0415  (imported in a thread before)

    shared = document.model_dump(include={"account_id", "knowledge_base_id", "document_id", "title"})
    rows = [
        {**shared, "chunk": number, "text": chunk.text, "vector": vector}
        for number, (chunk, vector) in enumerate(zip(chunks, vectors, strict=True))
    ]
    return pa.Table.from_pylist(rows, schema=_schema(dimensions))


def _of_document(account_id: AccountId, document_id: Token) -> str:
    return f"account_id = {_literal(account_id)} AND document_id = {_literal(document_id)}"


def _scope(account_id: AccountId, knowledge_base_ids: Sequence[Token]) -> str:
    of_account = f"account_id = {_literal(account_id)}"
    if not knowledge_base_ids:
        return of_account
    return f"{of_account} AND knowledge_base_id IN ({', '.join(map(_literal, knowledge_base_ids))})"


def _literal(token: str) -> str:
    """A token as an SQL literal. No token can hold a quote, so nothing needs escaping and nothing else gets in.

    Raises:
        Invalid: It is not a token.
    """
    try:
        return f"'{_TOKEN.validate_python(token)}'"
    except ValidationError as error:
        raise Invalid(f"{token!r} is not an id") from error


def _place(row: dict[str, Any]) -> tuple[str, int]:
    return row["document_id"], row["chunk"]


def _passage(row: dict[str, Any], score: float) -> Passage:
    return Passage(document_id=row["document_id"], title=row["title"], text=row["text"], score=score)
