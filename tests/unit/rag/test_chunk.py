"""Chunking is pure: these are its laws and a few of its choices."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from headrace.rag.chunk import Chunk, split

texts = st.text(alphabet=st.sampled_from("ab .!?\n\t。é😀"), max_size=400) | st.text(max_size=400)
lengths = st.integers(2, 60).flatmap(
    lambda longest: st.tuples(st.just(longest), st.integers(0, longest // 2))
)


@given(text=texts, sizes=lengths)
def test_nothing_of_the_text_is_lost(text: str, sizes: tuple[int, int]) -> None:
    longest, overlap = sizes

    chunks = split(text, longest=longest, overlap=overlap)

    held = {place for chunk in chunks for place in range(chunk.start, chunk.start + len(chunk.text))}
    assert all(place in held for place, character in enumerate(text) if not character.isspace())


@given(text=texts, sizes=lengths)
def test_a_passage_is_a_bounded_piece_of_the_text(text: str, sizes: tuple[int, int]) -> None:
    longest, overlap = sizes

    chunks = split(text, longest=longest, overlap=overlap)

    assert all(chunk.text == text[chunk.start :][: len(chunk.text)] for chunk in chunks)
    assert all(0 < len(chunk.text) <= longest for chunk in chunks)


@given(text=texts, sizes=lengths)
def test_passages_go_forward_and_repeat_no_more_than_the_overlap(text: str, sizes: tuple[int, int]) -> None:
    longest, overlap = sizes

    chunks = split(text, longest=longest, overlap=overlap)

    for earlier, later in pairwise(chunks):
        assert earlier.start < later.start
        assert earlier.start + len(earlier.text) - later.start <= overlap


@pytest.mark.parametrize("text", ["", " ", "\n\n\t \u00a0"])
def test_a_text_of_blanks_has_no_passages(text: str) -> None:
    assert split(text, longest=100, overlap=10) == []


def test_a_short_text_is_one_passage() -> None:
    assert split("  One thought.\n", longest=100, overlap=10) == [Chunk(2, "One thought.")]


def test_a_paragraph_ends_a_passage_before_a_sentence_does() -> None:
    text = "The river rises in the hills.\n\nIt falls to the sea. It turns a mill on its way."

    assert [chunk.text for chunk in split(text, longest=55, overlap=0)] == snapshot(
        ["The river rises in the hills.", "It falls to the sea. It turns a mill on its way."]
    )


def test_a_passage_repeats_whole_sentences_of_the_one_before() -> None:
    text = "One is first. Two is next. Three is after. Four is late. Five is last."

    assert [chunk.text for chunk in split(text, longest=45, overlap=20)] == snapshot(
        ["One is first. Two is next. Three is after.", "Three is after. Four is late. Five is last."]
    )


def test_a_word_longer_than_a_passage_is_cut() -> None:
    assert [chunk.text for chunk in split("x" * 25, longest=10, overlap=0)] == ["x" * 10, "x" * 10, "x" * 5]


def test_an_overlap_of_more_than_half_a_passage_is_refused() -> None:
    with pytest.raises(ValueError, match="an overlap of 6 characters does not fit passages of 10"):
        split("text", longest=10, overlap=6)
