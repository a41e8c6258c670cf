"""What a model reads of what a tool returned or raised."""

import json
from typing import Any

from pydantic import BaseModel

from headrace.contracts.text import mended

MAX_SENTENCE = 500
"""Characters of an error that a model or a person gets to read."""


class NotJson(Exception):
    """A tool returned what has no text; the message is the name of its type."""


def as_text(value: object) -> str:
    """A tool's result as text.

    Raises:
        NotJson: It is neither text nor anything that JSON can hold.
    """
    if value is None:
        return "done"
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=_plain)
    except Exception as error:
        raise NotJson(type(value).__name__) from error


def _plain(value: object) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} is not JSON")


def readable(text: str, *, limit: int) -> str:
    """A text that can be stored, and is not longer than a model should read.

    Args:
        text: Of any length: it is cut before anything else is done with it.
        limit: Characters; a line that says what is missing comes after them.
    """
    if len(text) <= limit:
        return mended(text)
    return f"{mended(text[:limit])}\n[cut: these are the first {limit} of {len(text)} characters]"


def sentence(text: str) -> str:
    """One line of at most MAX_SENTENCE characters."""
    line = " ".join(mended(text[: 4 * MAX_SENTENCE]).split())
    return line if len(line) <= MAX_SENTENCE else line[: MAX_SENTENCE - 1] + "…"


def told(error: BaseException) -> str:
    """An error's class and message, as a sentence; never its trace."""
    return sentence(f"{type(error).__name__}: {message(error)}".removesuffix(": "))


def message(error: BaseException) -> str:
    """What an error says; empty when it cannot even say that."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001  (a stranger's `__str__`)
        return ""
