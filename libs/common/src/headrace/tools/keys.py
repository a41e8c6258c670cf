"""The name of an effect: a digest of who, what and why, in which different intents never meet."""

import hashlib
import unicodedata
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Union

KeyPart = Union[  # noqa: UP007  (an alias that names itself cannot be built with `|`)
    str, int, bool, None, Sequence["KeyPart"], AbstractSet["KeyPart"], Mapping[str, "KeyPart"]
]
"""What identifies an effect. Sequences are ordered; sets and mappings are not."""

KeyParts = KeyPart

MAX_DEPTH = 64
"""Levels of nesting; deeper parts are a mistake, such as a list that holds itself."""

_DOMAIN = "headrace effect 1"


def effect_key(*, account_id: str, tool: str, trigger: str, parts: KeyPart) -> str:
    """Name an effect: SHA-256, hexadecimal, of an injective encoding of its parts.

    The same parts give the same key whatever the order of sets and mappings and whatever the Unicode form of texts
    (NFC is taken). Everything else tells keys apart: types, borders, order, letter case.

    Args:
        account_id: For whom it is done.
        tool: What does it.
        trigger: The event that it is done for.
        parts: What tells it from the tool's other effects for that event.

    Raises:
        TypeError: A part is of a type that has no one stable form, such as a float.
    """
    return hashlib.sha256(_encoded((_DOMAIN, account_id, tool, trigger, parts), depth=0)).hexdigest()


def _encoded(part: object, *, depth: int) -> bytes:
    if depth > MAX_DEPTH:
        raise TypeError(f"the parts of an effect key are nested deeper than {MAX_DEPTH} levels")
    match part:
        case None:
            return _framed(b"n", b"")
        case bool():
            return _framed(b"b", b"%d" % part)
        case int():
            return _framed(b"i", b"%x" % part)
        case str():
            return _framed(b"s", unicodedata.normalize("NFC", part).encode("utf-8", "surrogatepass"))
        case _:
            return _gathered(part, depth=depth + 1)


def _gathered(part: object, *, depth: int) -> bytes:
    match part:
        case Mapping():
            return _framed(b"m", b"".join(sorted(_pair(*pair, depth=depth) for pair in part.items())))
        case AbstractSet():
            return _framed(b"u", b"".join(sorted({_encoded(item, depth=depth) for item in part})))
        case Sequence() if not isinstance(part, bytes | bytearray | memoryview):
            return _framed(b"l", b"".join(_encoded(item, depth=depth) for item in part))
        case _:
            raise TypeError(
                f"a part of an effect key is of type {type(part).__name__}, which has no one stable form: "
                "give texts, whole numbers, booleans, None, or lists, sets and mappings of them"
            )


def _pair(name: object, value: object, *, depth: int) -> bytes:
    if not isinstance(name, str):
        raise TypeError(f"a mapping in an effect key has a name of type {type(name).__name__}; give texts")
    return _encoded(name, depth=depth) + _encoded(value, depth=depth)


def _framed(tag: bytes, body: bytes) -> bytes:
    """A type and a length before the body: what follows can never be read as part of it."""
    return b"%b%d:%b" % (tag, len(body), body)
