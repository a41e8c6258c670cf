"""Reads in a user's words which tool they plainly ask for: pure patterns, no guessing."""

import re
from collections.abc import Callable
from dataclasses import dataclass

_READ_AT_MOST = 2_000
"""Characters of a message that are searched for a wish; a longer text is pasted matter, not a request."""

_POLITE = r"(?:(?:hi|hello|hey|please|can you|could you|would you|now)[\s,!.]+)*"
_OPERATION = re.compile(r"[\d)]\s*(?:\*\*|[-+*/%^])\s*[-+(\d.]")
_EXPRESSION = re.compile(r"[-+(\d.][\d\s.+\-*/%^()]*")

_NAMED_TOOL = re.compile(
    _POLITE + r"use\s+(?:the\s+)?(?:tool\s+)?[`\"']?(?P<tool>[\w.\-]*\w)[`\"']?(?:\s+tool\b)?"
    r"(?:\s+(?:with|to|on|for)\b)?[:,]?\s*(?P<argument>.*)",
    re.IGNORECASE | re.DOTALL,
)
_SEARCH = re.compile(
    _POLITE
    + r"(?:search|find|look\s+up)\b(?:\s+(?:(?:in\s+)?(?:the\s+)?(?:docs|documents)\s+)?for\b)?[:\s]+(?P<query>.+)",
    re.IGNORECASE | re.DOTALL,
)
_BY_THE_DOCS = re.compile(
    r"[\s,]*\baccording to (?:the|our|my) (?:docs|documents|documentation)\b[\s,:]*", re.IGNORECASE
)
_CALCULATE = re.compile(_POLITE + r"(?:calculate|compute)\s+(?P<sum>.+)", re.IGNORECASE | re.DOTALL)
_HOW_MUCH = re.compile(_POLITE + r"(?:what is|what's|how much is)?\s*(?P<sum>[-+(\d.][^a-z]*)", re.IGNORECASE)
_TIME = re.compile(
    r"\bwhat time is it\b"
    r"|\b(?:what is|what's|tell me) the (?:current |exact )?time(?=\s*(?:$|[?.!,]|now\b|in\b|right\b|here\b|please\b))"
    r"|^\W*(?:the\s+)?(?:current\s+)?time(?:\s+now)?(?:\s+please)?\W*$",
    re.IGNORECASE,
)
_TIME_ZONE = re.compile(r"\bin ([A-Z][A-Za-z]+/[A-Z][A-Za-z_/]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """One tool that a user plainly asks for.

    Attributes:
        tool: The tool's name, or a word that its name should contain.
        argument: What to give it: plain text or a JSON object.
        if_required: Whether the argument is given only to a tool that cannot be called without one.
    """

    tool: str
    argument: str = ""
    if_required: bool = False


def read_wish(text: str) -> Wish | None:
    """Return the tool that this text plainly asks for, or nothing when it asks for none."""
    readable = text[:_READ_AT_MOST].strip()
    wishes = (read(readable) for read in _READERS)
    return next((wish for wish in wishes if wish is not None), None)


def _read_named_tool(text: str) -> Wish | None:
    match = _NAMED_TOOL.fullmatch(text)
    return match and Wish(tool=match["tool"], argument=match["argument"].strip())


def _read_search(text: str) -> Wish | None:
    if match := _SEARCH.fullmatch(text):
        return Wish(tool="search", argument=_without_closing(match["query"]))
    if _BY_THE_DOCS.search(text):
        return Wish(tool="search", argument=_without_closing(_BY_THE_DOCS.sub(" ", text)))
    return None


def _read_calculation(text: str) -> Wish | None:
    if match := _CALCULATE.fullmatch(text):
        return Wish(tool="calc", argument=_expression(match["sum"]) or _without_closing(match["sum"]))
    if (match := _HOW_MUCH.fullmatch(text)) and (expression := _expression(match["sum"])):
        return Wish(tool="calc", argument=expression)
    return None


def _read_time(text: str) -> Wish | None:
    if not _TIME.search(text):
        return None
    zone = _TIME_ZONE.search(text)
    return Wish(tool="time", argument=zone[1] if zone else "UTC", if_required=not zone)


def _expression(text: str) -> str | None:
    found = (match[0].strip() for match in _EXPRESSION.finditer(text))
    return next((expression for expression in found if _OPERATION.search(expression)), None)


def _without_closing(text: str) -> str:
    return re.sub(r"(?:[\s,]+please)?[\s?.!,]*$", "", text.strip(), flags=re.IGNORECASE)


_READERS: tuple[Callable[[str], Wish | None], ...] = (
    _read_named_tool,
    _read_search,
    _read_calculation,
    _read_time,
)
