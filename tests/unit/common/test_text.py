"""Text from outside: refused at a door, mended from a vendor."""

import pytest

from headrace.contracts.text import mended, storable


@pytest.mark.parametrize("text", ["a\0b", "half \ud83d of a pair"])
def test_text_that_cannot_be_kept_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"NUL|surrogate"):
        storable(text)


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("plain", "plain"),
        ("a\0b", "ab"),
        ("é\0😀", "é😀"),
        ("\ud83d\ude00", "😀"),
        ("half \ud83d!", "half \ufffd!"),
    ],
)
def test_vendors_text_is_mended_until_it_can_be_kept(said: str, kept: str) -> None:
    assert mended(said) == kept
    assert storable(mended(said)) == kept
