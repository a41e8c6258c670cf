"""Ids: ordered by the time they were made, or derived from what they name."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from headrace.contracts.ids import Token, new_id, trigger_id

IDENTITIES = st.lists(st.text(alphabet="ab:1", max_size=3), max_size=3).map(tuple)


def test_new_id_is_a_uuid_of_version_7() -> None:
    made = uuid.UUID(new_id())

    assert (made.version, made.variant) == (7, uuid.RFC_4122)


@given(st.integers(0, 2**48 - 1))
def test_new_id_begins_with_its_millisecond(now_ms: int) -> None:
    assert uuid.UUID(new_id(now_ms=now_ms)).int >> 80 == now_ms


@given(st.lists(st.integers(0, 2**48 - 1), unique=True))
def test_new_ids_sort_as_text_by_the_millisecond(moments: list[int]) -> None:
    ids = {moment: new_id(now_ms=moment) for moment in moments}

    assert sorted(ids.values()) == [ids[moment] for moment in sorted(ids)]


def test_new_ids_of_one_millisecond_differ() -> None:
    assert len({new_id(now_ms=1) for _ in range(1_000)}) == 1_000


def test_borders_between_the_parts_of_a_trigger_count() -> None:
    assert trigger_id("webhook", "ab", "c") != trigger_id("webhook", "a", "bc")


def test_part_that_looks_like_a_border_is_none() -> None:
    assert trigger_id("webhook", "a1:b") != trigger_id("webhook", "a", "b")


def test_trigger_id_never_changes() -> None:
    assert trigger_id("schedule", "sch_1", "noon") == "48881971-0901-5a4f-bc56-6194dc138f54"


@given(IDENTITIES, IDENTITIES)
def test_triggers_have_one_id_exactly_when_they_are_the_same(
    one: tuple[str, ...], other: tuple[str, ...]
) -> None:
    assert (trigger_id("webhook", *one) == trigger_id("webhook", *other)) == (one == other)


@pytest.mark.parametrize("made", [new_id(now_ms=1), trigger_id("webhook", "a.b *")], ids=["new", "derived"])
def test_id_is_one_token_of_a_subject(made: str) -> None:
    assert TypeAdapter(Token).validate_python(made) == made
