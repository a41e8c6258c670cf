"""Effect keys: the same intent has one key, and two intents never share one."""

import enum
import itertools
import unicodedata
from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.tools import KeyPart, effect_key
from headrace.tools.keys import MAX_DEPTH


def key(parts: KeyPart, *, account_id: str = "acc", tool: str = "send", trigger: str = "evt") -> str:
    return effect_key(account_id=account_id, tool=tool, trigger=trigger, parts=parts)


def meaning(part: Any) -> Hashable:
    """What a part says, as a value that Python compares: an independent notion of `the same`."""
    if isinstance(part, str):
        return ("text", unicodedata.normalize("NFC", part))
    if isinstance(part, Mapping):
        pairs = Counter((meaning(name), meaning(value)) for name, value in part.items())
        return ("mapping", frozenset(pairs.items()))
    if isinstance(part, set | frozenset):
        return ("set", frozenset(map(meaning, part)))
    if isinstance(part, list | tuple):
        return ("list", tuple(map(meaning, part)))
    return (type(part).__name__, part)


def respelled(part: Any) -> Any:
    """The same, written otherwise: decomposed, in another order, a list for a tuple."""
    if isinstance(part, str):
        return unicodedata.normalize("NFD", part)
    if isinstance(part, Mapping):
        return {name: respelled(value) for name, value in reversed(list(part.items()))}
    if isinstance(part, frozenset):
        return frozenset(respelled_in_set(item) for item in sorted(part, key=repr, reverse=True))
    if isinstance(part, list | tuple):
        return [respelled(item) for item in part]
    return part


def respelled_in_set(item: Any) -> Any:
    if isinstance(item, tuple):
        return tuple(respelled_in_set(inner) for inner in item)
    return respelled(item)


# Few and confusable leaves, so that two parts that were drawn apart often nearly are, or are, the same.
CONFUSABLE: list[Any] = [
    "",
    "1",
    "1:",
    "a",
    "n0:",
    "s1:a",
    "é",
    "e\u0301",
    "\ud800",
    "\0",
    0,
    1,
    -1,
    True,
    False,
    None,
]
LEAVES: st.SearchStrategy[Any] = (
    st.sampled_from(CONFUSABLE) | st.text(max_size=4) | st.integers() | st.booleans()
)
IN_SETS: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
    max_leaves=5,
)
PARTS: st.SearchStrategy[Any] = st.recursive(
    LEAVES | st.frozensets(IN_SETS, max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)


@given(PARTS, PARTS)
def test_keys_are_equal_exactly_when_the_parts_mean_the_same(one: Any, other: Any) -> None:
    assert (key(one) == key(other)) == (meaning(one) == meaning(other))


@given(st.sampled_from(CONFUSABLE), st.sampled_from(CONFUSABLE), st.sampled_from([list, tuple, frozenset]))
def test_confusable_pairs_keep_their_borders(one: Any, other: Any, kind: Any) -> None:
    parts: list[Any] = [
        one,
        other,
        kind([one]),
        kind([one, other]),
        kind([other, one]),
        {"a": one},
        [[one], other],
    ]

    for left in parts:
        for right in parts:
            assert (key(left) == key(right)) == (meaning(left) == meaning(right))


def test_texts_that_look_like_the_encoding_do_not_collide() -> None:
    texts = ["".join(letters) for size in range(4) for letters in itertools.product("sn1:", repeat=size)]
    leaves: list[KeyPart] = [*texts, None, 1, True]
    lists: list[KeyPart] = [[], *([leaf] for leaf in leaves), *map(list, itertools.product(leaves, repeat=2))]

    keys = {key(part) for part in [*leaves, *lists]}

    assert len(keys) == len(leaves) + len(lists)


@given(PARTS)
def test_spelling_and_order_do_not_count(part: Any) -> None:
    assert key(respelled(part)) == key(part)


@given(*[st.tuples(*[st.sampled_from(["", "a", "aa", "a:", "é"])] * 4)] * 2)
def test_account_tool_trigger_and_parts_do_not_run_together(one: Any, other: Any) -> None:
    def of(names: Any) -> str:
        return key(names[3], account_id=names[0], tool=names[1], trigger=names[2])

    assert (of(one) == of(other)) == (one == other)


def test_key_stays_the_same_for_ever() -> None:
    parts: KeyPart = ["a", 1, True, None, {"é", "b"}, {"x": -255}]

    assert key(parts) == "570b8d32f656196ae1f78ac1ed329a8303c9b7ce422f55c10321c653b7a3b5f6"


@pytest.mark.parametrize(
    "part", [1.0, b"a", bytearray(b"a"), memoryview(b"a"), object(), 1j, ..., [1.5], {"a": b""}]
)
def test_what_has_no_stable_form_is_refused(part: Any) -> None:
    with pytest.raises(TypeError, match="which has no one stable form: give texts"):
        key(part)


def test_mapping_with_other_names_than_texts_is_refused() -> None:
    with pytest.raises(TypeError, match="a name of type int; give texts"):
        key({1: "a"})  # type: ignore[dict-item]  # what is tested


def test_list_that_holds_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)

    with pytest.raises(TypeError, match=f"deeper than {MAX_DEPTH} levels"):
        key(endless)


def test_text_of_an_enum_is_the_text() -> None:
    class Template(enum.StrEnum):
        WELCOME = "welcome"

    assert key(Template.WELCOME) == key("welcome")


def test_whole_number_of_any_size_has_a_key() -> None:
    assert key(10**5000) != key(10**5000 + 1)
