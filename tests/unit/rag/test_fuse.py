"""Rank fusion is pure."""

from headrace.rag.fuse import fuse


def test_what_both_rankings_know_beats_what_one_ranks_first() -> None:
    ranked = fuse([["vector", "both"], ["words", "both"]])

    assert [key for key, _ in ranked] == ["both", "vector", "words"]


def test_scores_fall_with_the_place() -> None:
    assert fuse([["a", "b"]]) == [("a", 1 / 61), ("b", 1 / 62)]


def test_no_rankings_rank_nothing() -> None:
    assert fuse([[], []]) == []
