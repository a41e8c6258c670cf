"""Text that every store and every wire can carry: Postgres keeps no NUL, and UTF-8 has no half of a surrogate pair."""

from typing import Annotated

from pydantic import AfterValidator


def storable(text: str) -> str:
    """Let a text pass as it is.

    Raises:
        ValueError: It cannot be stored or sent.
    """
    if "\0" in text:
        raise ValueError("a text cannot hold the NUL character (U+0000); leave it out")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"the character at {error.start} is half of a surrogate pair") from error
    return text


Text = Annotated[str, AfterValidator(storable)]
"""A text from a caller, who is told when it cannot be kept."""


def mended(text: str) -> str:
    """A text from a vendor, who cannot be told: without NUL, surrogate pairs joined and halves replaced."""
    if text.isascii():
        return text.replace("\0", "")
    return text.replace("\0", "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
