"""What the usage service can be asked: limits, allowances, what was used and what it cost, and leave to go on."""

from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from headrace.contracts.ids import AccountId, RunId, Token
from headrace.contracts.limits import Left, Limits, Refusal, Scope
from headrace.contracts.message import Contract
from headrace.contracts.question import Question
from headrace.contracts.runs import TokenCount
from headrace.contracts.text import Text

Subject = Annotated[Text, StringConstraints(min_length=1, max_length=256)]


class Quota(Contract):
    """One limit, and how much of it is used in the current month."""

    scope: Scope
    subject: str
    """An id; `*` for each one who has no limit of their own. An account's subject is its id."""
    limits: Limits
    spent: int = 0
    """Weighted tokens of the shared model that calls of this month's runs used."""
    held: int = 0
    """Weighted tokens set aside for runs that have not ended, beyond what they spent."""
    forecast: int = 0
    """What will be spent by the end of the month, at the rate of its days so far."""
    running: int = 0
    """Runs that were let in and have not ended."""

    @property
    def left(self) -> int | None:
        """Weighted tokens that a new run could have set aside; `None` where unlimited."""
        cap = self.limits.tokens_a_month
        return None if cap == 0 else max(cap - self.spent - self.held, 0)


class Quotas(Contract):
    """An account's standing, and its limits."""

    account_id: AccountId
    state: Literal["active", "suspended"]
    zone: str
    """The IANA time zone in which a month begins and ends."""
    period: date
    """The first day of the current month."""
    resets_at: datetime
    """When the next month begins."""
    items: tuple[Quota, ...]
    """The account first, whether it is limited or not."""


class ReadQuotas(Question[Quotas]):
    """The standing and all limits of an account."""

    service: ClassVar[str] = "usage"
    verb: ClassVar[str] = "read-quotas"
    reply: ClassVar[type[Contract]] = Quotas

    account_id: AccountId


class SetLimits(Question[Quota]):
    """Set, change or lift the limits of a subject; they hold for the next run, and what is spent stays spent."""

    service: ClassVar[str] = "usage"
    verb: ClassVar[str] = "set-limits"
    reply: ClassVar[type[Contract]] = Quota

    account_id: AccountId
    scope: Scope
    whom: Subject
    """The subject."""
    limits: Limits
    by: str
    """Who wants it, for the record."""


class SetAccount(Question[Quotas]):
    """Change an account's standing: suspended accounts start no run; the time zone says when months begin."""

    service: ClassVar[str] = "usage"
    verb: ClassVar[str] = "set-account"
    reply: ClassVar[type[Contract]] = Quotas

    account_id: AccountId
    state: Literal["active", "suspended"] | None = None
    zone: str | None = Field(default=None, max_length=64)
    by: str


class Resumed(Contract):
    """Whether a run may go on; where it may, it does."""

    refusal: Refusal | None = None
    left: tuple[Left, ...] = ()


class ResumeRun(Question[Resumed]):
    """Let a run go on that failed or was cancelled, under the limits that hold now. One command id is one answer."""

    service: ClassVar[str] = "usage"
    verb: ClassVar[str] = "resume-run"
    reply: ClassVar[type[Contract]] = Resumed

    account_id: AccountId
    run_id: RunId
    command_id: Token
    by: str


class Extended(Contract):
    """What is set aside for a run now."""

    held: int | None = None
    """Weighted tokens that the run may use in all, over its whole life; `None` where nothing caps it."""
    refusal: Refusal | None = None
    """The run should park: its allowance is spent, and the platform lets it wait for a top-up."""


class ExtendHold(Question[Extended]):
    """Set more aside for a run that needs more than was thought."""

    service: ClassVar[str] = "usage"
    verb: ClassVar[str] = "extend-hold"
    reply: ClassVar[type[Contract]] = Extended

    account_id: AccountId
    run_id: RunId
    tokens: int = Field(ge=0)
    """Weighted tokens that the run needs in all, over its whole life, as it looks now."""


Dimension = Literal["day", "agent", "model", "user", "api_key", "run"]


class UsageRow(Contract):
    """What a group of model calls used. Dimensions that were not asked for are absent."""

    day: date | None = None
    agent: str | None = None
    model: str | None = None
    user: str | None = None
    api_key: str | None = None
    run: str | None = None
    runs: int
    calls: int
    estimated_calls: int = 0
    """Of which the provider did not report; their tokens were counted from the text."""
    unpriced_calls: int = 0
    """Of which no price is known; their cost is not in `cost`."""
    tokens: TokenCount
    weighted: int = 0
    """Of the shared model, as allowances count them."""
    cost: Decimal = Decimal(0)
    """US dollars."""

    @property
    def cache_share(self) -> float:
        """The part of what was read that came from a cache, from 0 to 1."""
        return self.tokens.cached_input_tokens / self.tokens.read if self.tokens.read else 0.0


class UsagePage(Contract):
    """A part of a breakdown; `more` says whether rows follow."""

    zone: str
    rows: tuple[UsageRow, ...]
    more: bool = False


class ReadUsage(Question[UsagePage]):
    """What an account used on some days of its time zone, grouped as asked."""

    service: ClassVar[str] = "usage"
    verb: ClassVar[str] = "read-usage"
    reply: ClassVar[type[Contract]] = UsagePage

    account_id: AccountId
    since: date
    until: date
    """The last day, which counts."""
    by: tuple[Dimension, ...] = ()
    skip: int = Field(default=0, ge=0)


class Price(Contract):
    """What one model costs from a day on, in US dollars for each token; what is absent is not known."""

    model: Annotated[Text, StringConstraints(min_length=1, max_length=200)]
    since: date
    input: Decimal | None = None
    cached_input: Decimal | None = None
    cache_write: Decimal | None = None
    output: Decimal | None = None
    reasoning: Decimal | None = None
    """Where it differs from `output`."""
    audio_input: Decimal | None = None
    image_input: Decimal | None = None
    audio_output: Decimal | None = None
    image_output: Decimal | None = None
    cached_weight: float | None = Field(default=None, ge=0, le=1)
    """How much a cached token counts in allowances; the platform's setting where absent."""


class SetPrice(Question[Price]):
    """Set a model's price from a day on. A version never changes: a second price of one day is a conflict."""

    service: ClassVar[str] = "usage"
    verb: ClassVar[str] = "set-price"
    reply: ClassVar[type[Contract]] = Price

    price: Price
    by: str


class Rerated(Contract):
    """How many ledger rows were corrected, and by how much in all."""

    corrections: int
    cost: Decimal


class Rerate(Question[Rerated]):
    """Price the calls of some days again with the prices as they are now; each difference is a new ledger row."""

    service: ClassVar[str] = "usage"
    verb: ClassVar[str] = "rerate"
    reply: ClassVar[type[Contract]] = Rerated

    since: date
    until: date
    model: str | None = None
    by: str
