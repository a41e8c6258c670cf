"""The small vocabulary of what can go wrong.

HeadraceError
├── Terminal            trying again cannot help
│   ├── Invalid         400  the request makes no sense
│   ├── Unauthorized    401  who are you
│   ├── QuotaExceeded   402  the allowance is spent
│   ├── NotFound        404  there is no such thing (for you)
│   ├── Conflict        409  it contradicts what is
│   ├── TooLarge        413  more bytes than a door takes
│   └── Undecodable     400  a message that no version of ours can read
└── Retryable           trying again later may help
    ├── RateLimited     429  too often
    └── Unavailable     503  something we depend on does not answer
"""

from typing import Any, ClassVar


class HeadraceError(Exception):
    """An error with a sentence that a person can act on.

    Attributes:
        status: The HTTP status at a door.
        code: A stable name for programs.
    """

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    @property
    def headers(self) -> dict[str, str]:
        """Headers that belong to the answer."""
        return {}

    @property
    def members(self) -> dict[str, Any]:
        """What a program may read besides the sentence; members of the problem document."""
        return {}


class Terminal(HeadraceError):
    """Trying again cannot help: a delivery that raises this is a dead letter at once."""


class Invalid(Terminal):
    """The request makes no sense as it stands."""

    status = 400
    code = "invalid"


class Unauthorized(Terminal):
    """Nobody we know, or nobody at all."""

    status = 401
    code = "unauthorized"

    @property
    def headers(self) -> dict[str, str]:
        """The scheme that would work (RFC 6750)."""
        return {"WWW-Authenticate": "Bearer"}


class QuotaExceeded(Terminal):
    """An allowance is spent."""

    status = 402
    code = "quota_exceeded"


class NotFound(Terminal):
    """There is no such thing, or it is somebody else's."""

    status = 404
    code = "not_found"


class Conflict(Terminal):
    """It contradicts what is already there."""

    status = 409
    code = "conflict"


class TooLarge(Terminal):
    """More bytes than the door takes."""

    status = 413
    code = "too_large"


class Undecodable(Terminal):
    """A message of an unknown type or version, or a body that is not what its type says."""

    status = 400
    code = "undecodable"


class Retryable(HeadraceError):
    """Trying again later may help.

    Args:
        message: What is wrong.
        after: Seconds to wait at least; the policy decides where absent.
    """

    status = 503
    code = "retryable"

    def __init__(self, message: str, *, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after

    @property
    def headers(self) -> dict[str, str]:
        """When to come back (RFC 9110)."""
        return {} if self.after is None else {"Retry-After": str(max(1, round(self.after)))}


class RateLimited(Retryable):
    """Too often within a window."""

    status = 429
    code = "rate_limited"


class Unavailable(Retryable):
    """A server that we depend on does not answer. Never counted against a delivery."""

    status = 503
    code = "unavailable"
