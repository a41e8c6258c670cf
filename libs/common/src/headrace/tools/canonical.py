"""One spelling for what people spell in many ways, for use in effect keys."""

import re
import unicodedata
from typing import Literal

from headrace.tools.errors import ToolError

MAX_ADDRESS = 1_000
"""Characters that are read, with a display name. RFC 5321 has 320 for the address itself."""

_BETWEEN_BRACKETS = re.compile(r"[^<>]*<([^<>]*)>")
_QUOTED = re.compile(r'"([^"]*)"')
_LOCAL = re.compile(r"[^\s\"(),:;<>@\[\]\\.]+(\.[^\s\"(),:;<>@\[\]\\.]+)*")
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_DOTS = str.maketrans("\u3002\uff0e\uff61", "...")


def text(value: str) -> str:
    """A name or a code in one spelling: NFC, trimmed, inner white space as one blank, letter case folded."""
    return " ".join(_folded(value).split())


def email_address(address: str, *, plus: Literal["keep", "strip"] = "keep") -> str:
    """An address in one spelling: no display name, NFC, letter case folded, the domain in its ASCII form.

    Args:
        address: Such as `Ann <Ann+shop@Example.com>`.
        plus: `strip` removes the tag (`+shop`), for providers that deliver all tags to one mailbox.

    Raises:
        ToolError: It is no address.
    """
    if len(address) > MAX_ADDRESS:
        raise ToolError(f"an e-mail address has at most {MAX_ADDRESS} characters, not {len(address)}")
    bare = address.strip()
    if bracketed := _BETWEEN_BRACKETS.fullmatch(bare):
        bare = bracketed[1].strip()
    local, _, domain = bare.rpartition("@")
    local = _folded(_QUOTED.sub(r"\1", local))
    host = _host(domain)
    if not host or not _LOCAL.fullmatch(local) or not _visible(local):
        raise ToolError(f"{address[:100]!r} is not an e-mail address")
    if plus == "strip":
        local = local.partition("+")[0] or local
    return f"{local}@{host}"


def _folded(value: str) -> str:
    """Unicode's canonical caseless form: decomposed first, or some accents would end in another order."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", value).casefold())


def _visible(value: str) -> bool:
    return not any(unicodedata.category(character)[0] in "CZ" for character in value)


def _host(domain: str) -> str:
    """The domain in its ASCII form; empty when it is none.

    Lower case, not case-folded: folding would make two domains that different people own (`straße`, `strasse`) one.
    """
    labels = unicodedata.normalize("NFKC", domain.translate(_DOTS)).lower().translate(_DOTS)
    if not _visible(labels):
        return ""
    host = ".".join(map(_ascii, labels.removesuffix(".").split(".")))
    good = len(host) <= 253 and all(map(_LABEL.fullmatch, host.split(".")))
    return host if good else ""


def _ascii(label: str) -> str:
    if label.isascii():
        return label
    return "xn--" + unicodedata.normalize("NFC", label).encode("punycode").decode("ascii")
