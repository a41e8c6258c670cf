"""The language of scripts: what `PUT /script` accepts. Unknown words are refused, so that a typing error is seen."""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Point = Literal["mail", "rcpt", "data", "before_accept", "before_answer", "search"]
"""Where a fault can happen.

- mail, rcpt, data: before these commands are answered; of the mail's body nothing was sent yet.
- before_accept: the body's end was received, and nothing of it is stored.
- before_answer: the mail is stored and in Sent; its 250 is not sent.
- search: before an IMAP search is answered.
"""


class _Word(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Refusal(_Word):
    """One refusal; over IMAP it is a NO with this message."""

    code: int = Field(default=550, ge=400, le=599)
    message: str = "scripted refusal"


class Fault(_Word):
    """What goes wrong at a point: first the hold, if there is one, then the drop or the refusal.

    Attributes:
        to: Pattern of the recipients that it happens to, such as `*@slow.example.com`.
        hold: Name of a hold: the connection stands still until `POST /release/<name>`. A client that leaves
            while its mail stands at `before_accept` takes the mail with it.
        drop: The connection is reset.
        times: How often it happens; none is always.
    """

    at: Point
    to: str = "*"
    hold: str | None = None
    drop: bool = False
    refuse: Refusal | None = None
    times: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> Self:
        if self.drop and self.refuse:
            raise ValueError("a fault drops or refuses, not both")
        if not (self.hold or self.drop or self.refuse):
            raise ValueError("a fault holds, drops or refuses")
        if self.at == "before_answer" and self.refuse:
            raise ValueError("a mail that is stored cannot be refused any more")
        if self.at in ("mail", "search") and self.to != "*":
            raise ValueError(f"no recipient is known at `{self.at}`")
        return self


class Script(_Word):
    """Faults, of which the first that fits happens, and the state of Sent.

    Attributes:
        imap: `down` ends every IMAP connection with a BYE in place of a greeting.
        sent_lag: A mail is not found by so many of the first searches that could have found it.
    """

    faults: tuple[Fault, ...] = ()
    imap: Literal["up", "down"] = "up"
    sent_lag: int = Field(default=0, ge=0)
