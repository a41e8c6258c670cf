"""The index of passages, on a real LanceDB and with the real embedder."""

import asyncio
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from headrace.common.errors import Invalid
from headrace.contracts.knowledge import IngestDocument, SearchKnowledge
from headrace.rag.chunk import Chunk, split
from headrace.rag.embed import WordLlamaEmbedder
from headrace.rag.index import PassageIndex

BREAD = "To bake bread, mix flour with water and yeast, let the dough rise for an hour, and bake it."
TIDES = "Tides are caused by the gravity of the moon, which pulls the ocean towards it."
TAXES = "The tax office wants form ZX-4417 before the end of May."


@pytest.fixture
def index(tmp_path: Path) -> PassageIndex:
    return PassageIndex(tmp_path / "lancedb", WordLlamaEmbedder())


def document(text: str, *, name: str, account: str = "acme", base: str = "handbook") -> IngestDocument:
    return IngestDocument(
        upload_id="upload-1",
        knowledge_base_id=base,
        account_id=account,
        document_id=name,
        title=name.title(),
        text=text,
    )


async def put(index: PassageIndex, wanted: IngestDocument) -> None:
    await index.replace(wanted, split(wanted.text, longest=200, overlap=20))


async def found(
    index: PassageIndex, query: str, *, account: str = "acme", bases: tuple[str, ...] = ()
) -> list[str]:
    question = SearchKnowledge(account_id=account, query=query, knowledge_base_ids=bases)
    return [passage.text for passage in await index.search(question)]


async def fill(index: PassageIndex) -> None:
    for name, text in (("bread", BREAD), ("tides", TIDES), ("taxes", TAXES)):
        await put(index, document(text, name=name))


async def test_a_search_finds_by_meaning(index: PassageIndex) -> None:
    await fill(index)

    assert (await found(index, "how does the lunar orbit move the sea?"))[0] == TIDES


async def test_a_search_finds_by_words(index: PassageIndex) -> None:
    await fill(index)

    assert (await found(index, "4417"))[0] == TAXES


def number(order: int) -> str:
    return str(order * 7919)


def digest(order: int) -> str:
    return sha256(b"%d" % order).hexdigest()


def without_spaces(order: int) -> str:
    return f"合同{order * 7919}号"


@pytest.mark.parametrize("named", [number, digest, without_spaces])
async def test_a_name_is_found_among_many_alike(index: PassageIndex, named: Callable[[int], str]) -> None:
    shelves = [", ".join(named(order) for order in range(first, first + 8)) for first in range(0, 800, 8)]
    await index.replace(document("orders", name="orders"), [Chunk(0, shelf) for shelf in shelves])

    [best, *_] = await found(index, f"where is {named(431)}?")

    assert named(431) in best


async def test_a_passage_tells_its_document(index: PassageIndex) -> None:
    await fill(index)

    [best] = await index.search(SearchKnowledge(account_id="acme", query="bake bread", limit=1))

    assert (best.document_id, best.title, best.text) == ("bread", "Bread", BREAD)
    assert best.score > 0


async def test_another_account_finds_nothing(index: PassageIndex) -> None:
    await fill(index)

    assert await found(index, "bake bread", account="other") == []


async def test_another_accounts_many_passages_do_not_crowd_out_the_only_one(index: PassageIndex) -> None:
    crowd = document("bread", name="crowd", account="other")
    await index.replace(crowd, [Chunk(0, f"bread bread {number}") for number in range(200)])
    await put(index, document(BREAD, name="bread"))
    await index.fold()

    assert await found(index, "bread") == [BREAD]


async def test_a_search_stays_within_the_named_knowledge_bases(index: PassageIndex) -> None:
    await put(index, document(BREAD, name="bread", base="kitchen"))
    await put(index, document(TIDES, name="tides", base="coast"))

    assert await found(index, "bread and tides", bases=("coast", "empty")) == [TIDES]


async def test_a_changed_document_leaves_only_the_new_text(index: PassageIndex) -> None:
    long = "\n\n".join(f"{BREAD} Step {number}." for number in range(5))
    await put(index, document(long, name="page"))

    await put(index, document(TIDES, name="page"))

    assert await found(index, BREAD) == [TIDES]


async def test_a_document_that_is_indexed_side_by_side_is_there_once(index: PassageIndex) -> None:
    await asyncio.gather(*(put(index, document(BREAD, name="bread")) for _ in range(8)))

    assert await found(index, "bread") == [BREAD]


async def test_a_document_of_the_same_id_in_another_account_is_another_document(index: PassageIndex) -> None:
    await put(index, document(BREAD, name="page"))
    await put(index, document(TIDES, name="page", account="other"))

    await index.remove("acme", "page")

    assert await found(index, "bread") == []
    assert await found(index, "bread", account="other") == [TIDES]


async def test_a_removed_document_is_not_found(index: PassageIndex) -> None:
    await fill(index)

    await index.remove("acme", "tides")

    assert TIDES not in await found(index, "tides and the moon")


async def test_a_document_without_passages_leaves_the_index(index: PassageIndex) -> None:
    await fill(index)

    await index.replace(document(" ", name="tides"), [])

    assert TIDES not in await found(index, "tides and the moon")


async def test_what_was_folded_is_found_and_goes_when_it_is_removed(index: PassageIndex) -> None:
    await fill(index)
    await index.fold()

    assert (await found(index, "4417"))[0] == TAXES

    await index.remove("acme", "taxes")
    await index.fold()

    assert TAXES not in await found(index, "4417")


async def test_a_replica_sees_what_another_wrote(tmp_path: Path) -> None:
    mine, theirs = (PassageIndex(tmp_path, WordLlamaEmbedder()) for _ in range(2))
    await mine.prepare()
    await theirs.prepare()

    await put(mine, document(BREAD, name="bread"))

    assert await found(theirs, "bread") == [BREAD]


@pytest.mark.parametrize("query", ['"', "' OR 1=1 --", "bread AND (", "a:b^2~", "世界 🌍", "\x00", "   "])
async def test_any_query_is_only_words(index: PassageIndex, query: str) -> None:
    await fill(index)
    await put(index, document(BREAD, name="theirs", account="other", base="theirs"))

    assert len(await found(index, query)) <= 3


async def test_an_id_that_is_no_token_never_reaches_a_filter(index: PassageIndex) -> None:
    await fill(index)

    with pytest.raises(Invalid, match="is not an id"):
        await index.remove("acme' OR 'a' = 'a", "bread")
    with pytest.raises(Invalid, match="is not an id"):
        await index.remove("acme\n", "bread")
