"""What a reconciliation found out at the provider about an effect that was begun and not seen to end."""

from dataclasses import dataclass
from typing import Final

CALL_AGAIN: Final = "call_again"
"""As `reconcile=`: the provider takes the provider key, and answers a repeated call with the first result."""


@dataclass(frozen=True, slots=True)
class Happened:
    """The effect is there; it must not be made again."""

    result: str
    """What the tool would have answered."""


@dataclass(frozen=True, slots=True)
class DidNotHappen:
    """The effect is not there, and will not come: it may be made."""


@dataclass(frozen=True, slots=True)
class CannotTell:
    """The provider does not say; a person decides."""

    why: str


Verdict = Happened | DidNotHappen | CannotTell
