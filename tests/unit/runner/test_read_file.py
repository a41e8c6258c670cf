"""What of a file a model gets to read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.runner.tools.read_file import Window, is_text
from headrace.tools import ToolError


def told(pieces: list[str], offset: int, length: int) -> str:
    window = Window(offset, length)
    for piece in pieces:
        window.add(piece)
    return window.told()


@given(st.lists(st.text(max_size=10), max_size=6), st.integers(0, 20), st.integers(1, 20))
def test_part_is_the_same_however_the_text_comes(pieces: list[str], offset: int, length: int) -> None:
    text = "".join(pieces)
    if 0 < len(text) <= offset:
        with pytest.raises(ToolError):
            told(pieces, offset, length)
        return

    assert told(pieces, offset, length) == told([text], offset, length)
    assert told(pieces, offset, length).startswith(text[offset : offset + length] or "the file is empty")


def test_more_is_announced_with_the_offset_to_go_on_with() -> None:
    assert told(["hello ", "world"], 2, 5) == "llo w\n[characters 2 to 7 of 11; go on with offset=7]"


def test_end_of_a_text_stands_alone() -> None:
    assert told(["hello ", "world"], 6, 5) == "world"


@pytest.mark.parametrize(
    ("media_type", "beginning", "expected"),
    [
        ("text/plain", b"caf\xe9", True),  # Latin-1: shown with a mark in place of what is not UTF-8
        ("application/octet-stream", "café".encode(), True),
        ("application/octet-stream", "café".encode()[:-1], True),  # cut within a character
        ("application/json", b"{}", True),
        ("application/octet-stream", b"", True),
        ("application/octet-stream", b"caf\xe9 au lait", False),
        ("application/pdf", b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", False),
        ("image/png", b"\x89PNG\r\n\x1a\n\x00\x00", False),
        ("text/plain", "UTF-16".encode("utf-16"), False),
    ],
)
def test_text_is_told_from_its_type_and_its_beginning(
    media_type: str,
    beginning: bytes,
    expected: bool,  # noqa: FBT001  (a parameter of a table)
) -> None:
    assert is_text(media_type, beginning) is expected
