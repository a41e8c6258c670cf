"""Chunking: cuts a text into overlapping passages where a reader would pause."""

import re
from dataclasses import dataclass

_PAUSES = (
    re.compile(r"\n\s*\n"),
    re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s|[。！？]"),  # noqa: RUF001  (typographic marks are meant)
    re.compile(r"\n"),
    re.compile(r"\s"),
)
"""Ends of paragraphs, sentences, lines and words: the best place to cut first."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage, and the character of the document it begins at."""

    start: int
    text: str


def split(text: str, *, longest: int, overlap: int) -> list[Chunk]:
    """Cut a text into passages that together hold everything but the blanks between them.

    Args:
        text: A document; one of blanks only has no passages.
        longest: Characters in a passage at most.
        overlap: Characters of a passage that the next one repeats at most.

    Raises:
        ValueError: The overlap is more than half a passage, so that cutting might not come to an end.
    """
    if not 0 <= overlap <= longest // 2:
        raise ValueError(f"an overlap of {overlap} characters does not fit passages of {longest}")
    chunks: list[Chunk] = []
    start = _visible_from(text, 0)
    while start < len(text):
        end = _pause_before(text, start, longest)
        chunks.append(Chunk(start, text[start:end].rstrip()))
        if not text[end:].strip():
            break
        start = _visible_from(text, _pause_after(text, end - overlap, end))
    return chunks


def _pause_before(text: str, start: int, longest: int) -> int:
    """Where a passage ends: the last good pause of its second half, or as far as it may go."""
    limit = start + longest
    if limit >= len(text):
        return len(text)
    for pause in _PAUSES:
        ends = [found.end() for found in pause.finditer(text, start + longest // 2, limit)]
        if ends:
            return ends[-1]
    return limit


def _pause_after(text: str, earliest: int, end: int) -> int:
    """Where the next passage begins: at the first sentence, or else word, that is wholly in the overlap."""
    for pause in _PAUSES[1:]:
        found = pause.search(text, earliest, end)
        if found and found.end() < end:
            return found.end()
    return end


def _visible_from(text: str, start: int) -> int:
    return len(text) - len(text[start:].lstrip())
