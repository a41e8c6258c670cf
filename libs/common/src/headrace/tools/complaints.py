"""What is wrong with a call's arguments, as a sentence that a model can act on."""

import reprlib
from collections.abc import Sequence

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from headrace.contracts.text import mended

MAX_COMPLAINTS = 5
"""How many are told at once; the rest shows after these are mended."""


def complaint(error: ValidationError, known: Sequence[str]) -> str:
    """Everything that does not fit, up to MAX_COMPLAINTS.

    Args:
        error: What the validation found.
        known: The arguments that there are.
    """
    found = error.errors(include_url=False, include_context=False)
    told = [_one(detail, known) for detail in found[:MAX_COMPLAINTS]]
    if len(found) > MAX_COMPLAINTS:
        told.append(f"and {len(found) - MAX_COMPLAINTS} more")
    return mended("; ".join(told))


def _one(detail: ErrorDetails, known: Sequence[str]) -> str:
    path = _path(detail["loc"])
    if detail["type"] == "missing":
        return f"the argument `{path}` is missing"
    if detail["type"] == "extra_forbidden" and len(detail["loc"]) == 1:
        names = ", ".join(f"`{name}`" for name in known) or "none"
        return f"there is no argument `{path}` (there are: {names})"
    if detail["type"] == "extra_forbidden":
        return f"the argument `{path}` does not exist"
    words = detail["msg"].removeprefix("Value error, ")
    if words.startswith("Input should "):
        return f"the argument `{path}` {words.removeprefix('Input ')}, not {reprlib.repr(detail['input'])}"
    return f"the argument `{path}` does not fit: {words}"


def _path(location: tuple[int | str, ...]) -> str:
    """Such as `people[0].name`."""
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
    return path.removeprefix(".")[:100]
