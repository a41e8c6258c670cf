"""Limits: what an account, an agent, a user or a key may use, and how a refusal says so."""

from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import Field

from headrace.contracts.message import Contract

EVERYBODY = "*"
"""The subject of a limit that holds for each one who has none of their own."""


class Scope(StrEnum):
    """Whom a limit is for. A run is in one of each, and the strictest wins."""

    ACCOUNT = "account"
    AGENT = "agent"
    USER = "user"
    API_KEY = "api_key"


class Limits(Contract):
    """What a subject may use; 0 is unlimited."""

    tokens_a_month: int = Field(default=0, ge=0)
    """Weighted tokens of the shared model within a calendar month of the account's time zone."""
    runs_a_minute: int = Field(default=0, ge=0)
    """Runs that begin within any sixty seconds."""
    runs_at_once: int = Field(default=0, ge=0)
    """Runs that were let in and have not ended."""


RefusalCode = Literal["account_suspended", "quota_exceeded", "rate_limited", "too_many_at_once"]
STATUS_OF_REFUSAL: dict[RefusalCode, int] = {
    "account_suspended": 403,
    "quota_exceeded": 402,
    "rate_limited": 429,
    "too_many_at_once": 429,
}
"""The HTTP status that says it."""


class Refusal(Contract):
    """Why a run was not let in: which limit, how much of it is used, and until when."""

    code: RefusalCode
    scope: Scope = Scope.ACCOUNT
    subject: str
    limit: int = 0
    used: int = 0
    """Of the limit, by what is spent and what is set aside."""
    asked: int = 1
    """What the run would have added."""
    until: datetime | None = None
    """When it is worth asking again; `None` where no time brings it about."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        return STATUS_OF_REFUSAL[self.code]

    @property
    def sentence(self) -> str:
        """What, how much and until when, for a person."""
        whose = "the account" if self.scope == Scope.ACCOUNT else f"{_NAMES[self.scope]} {self.subject}"
        until = "" if self.until is None else f"; again from {self.until:%Y-%m-%d %H:%M:%S %Z}".rstrip()
        match self.code:
            case "account_suspended":
                return "the account is suspended; ask the operator of this platform"
            case "quota_exceeded":
                return (
                    f"{whose} may use {self.limit} tokens a month; {self.used} are used or set aside, "
                    f"and this run may need {self.asked}{until}"
                )
            case "rate_limited":
                return f"{whose} may start {self.limit} runs a minute, and has{until}"
            case "too_many_at_once":
                return f"{whose} may have {self.limit} runs at once, and has; try again when one of them has ended"


_NAMES = {Scope.AGENT: "agent", Scope.USER: "user", Scope.API_KEY: "API key"}

LimitName = Literal["tokens_a_month", "runs_a_minute", "runs_at_once"]


class Left(Contract):
    """What is left of one limit after a run was let in."""

    name: LimitName
    scope: Scope
    limit: int
    left: int = Field(ge=0)
    resets_in: int = Field(default=0, ge=0)
    """Seconds until all of it is there again; 0 where no time brings it about."""
