"""Runs: how one is asked for, let in, steered, and told about."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from headrace.contracts.ids import AccountId, AgentId, RunId, SessionId, Token
from headrace.contracts.message import Contract, Message
from headrace.contracts.text import Text


class Door(StrEnum):
    """Where a run came in; a token of its subject, so the broker knows who may ask through which."""

    CHAT = "chat"
    API = "api"
    WEBHOOK = "webhook"
    SCHEDULE = "schedule"


class Lane(StrEnum):
    """Two queues of admitted runs, so that a burst of events never starves a person who is chatting."""

    INTERACTIVE = "interactive"
    BACKGROUND = "background"


class RunState(StrEnum):
    """The life of a run."""

    REQUESTED = "requested"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REFUSED = "refused"

    @property
    def is_final(self) -> bool:
        """Whether nothing can follow."""
        return self in FINAL_STATES


FINAL_STATES = frozenset({RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED, RunState.REFUSED})


class ChatMessage(Contract):
    """One message of a conversation as a caller gives it: text from the user, the assistant or the system."""

    role: Literal["system", "user", "assistant"]
    content: Text


class RunRequested(Message):
    """Somebody wants a run. It carries the whole input, so that what is durable is complete."""

    type: ClassVar[str] = "headrace.run.requested.v1"
    address: ClassVar[str] = "run.requested.{door}.{run_id}"

    run_id: RunId
    door: Door
    lane: Lane
    account_id: AccountId
    agent_id: AgentId
    agent_revision: int | None = None
    """The revision the door saw; `None` pins the one that is current when the run starts."""
    session_id: SessionId | None = None
    """The conversation to go on with; without one, the input is the whole conversation."""
    trigger: str
    """The identity of what started the run: an event id, a fire time, an idempotency key, or the run's own id."""
    input: tuple[ChatMessage, ...] = Field(min_length=1)
    requested_at: datetime

    @property
    def message_id(self) -> str:
        """One request per run."""
        return f"{self.run_id}.requested"


class RunAdmitted(Message):
    """The usage service let a run in. Only this makes a runner act."""

    type: ClassVar[str] = "headrace.run.admitted.v1"
    address: ClassVar[str] = "run.admitted.{lane}.{run_id}"

    run_id: RunId
    lane: Lane
    request: RunRequested
    admitted_at: datetime

    @property
    def message_id(self) -> str:
        """One admission per run."""
        return f"{self.run_id}.admitted"


class RunControl(Message):
    """A decision about a run, from outside of it."""

    type: ClassVar[str] = "headrace.run.control.v1"
    address: ClassVar[str] = "run.control.{verb}.{run_id}"

    run_id: RunId
    verb: Literal["cancel", "refuse"]
    """A caller cancels; the usage service refuses, and has told the caller by an event."""
    account_id: AccountId
    command_id: Token
    code: str | None = None
    reason: str | None = None

    @property
    def message_id(self) -> str:
        """One command, however often it is sent."""
        return f"{self.run_id}.control.{self.command_id}"


class RunStarted(Contract):
    """An attempt begins. What an earlier attempt streamed and did not finish is superseded."""

    kind: Literal["run.started"] = "run.started"
    attempt: int
    agent_revision: int


class TextDelta(Contract):
    """A piece of the answer, to be appended."""

    kind: Literal["text.delta"] = "text.delta"
    text: str


class ToolCalled(Contract):
    """The model asked for a tool."""

    kind: Literal["tool.called"] = "tool.called"
    call_id: str
    name: str
    arguments: str


class ToolReturned(Contract):
    """A tool answered, or failed with a sentence for the model."""

    kind: Literal["tool.returned"] = "tool.returned"
    call_id: str
    name: str
    result: str
    is_error: bool = False


class TokenCount(Contract):
    """Tokens of one run or one call, in disjoint classes."""

    input_tokens: int = 0
    """Input that was neither read from nor written to a cache."""
    cached_input_tokens: int = 0
    output_tokens: int = 0
    is_estimated: bool = False
    """The provider did not report; counted from the text."""

    def __add__(self, other: "TokenCount") -> "TokenCount":
        """Sum class by class; estimated when any part is."""
        return TokenCount(
            input_tokens=self.input_tokens + other.input_tokens,
            cached_input_tokens=self.cached_input_tokens + other.cached_input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            is_estimated=self.is_estimated or other.is_estimated,
        )


class RunFinished(Contract):
    """The end of a run, with its whole answer: who saw only this saw everything that counts."""

    kind: Literal["run.finished"] = "run.finished"
    state: Literal["succeeded", "failed", "cancelled", "refused"]
    output: str = ""
    error_code: str | None = None
    error: str | None = None
    usage: TokenCount = TokenCount()


RunNews = Annotated[
    RunStarted | TextDelta | ToolCalled | ToolReturned | RunFinished, Field(discriminator="kind")
]

EVENTS_PER_ATTEMPT = 1_000_000
"""The events of a later taking sort after those of an earlier one: `seq = epoch * EVENTS_PER_ATTEMPT + n`."""
LAST_EVENT = EVENTS_PER_ATTEMPT - 1
"""The place of `run.finished`, after anything else that could be said before it."""


class RunEvent(Message):
    """Something happened in a run. `seq` rises through the whole life of the run and is the SSE id of every protocol."""

    type: ClassVar[str] = "headrace.run.event.v1"
    address: ClassVar[str] = "run.event.{run_id}"

    run_id: RunId
    account_id: AccountId
    seq: int = Field(ge=0)
    at: datetime
    news: RunNews

    @property
    def message_id(self) -> str:
        """One event per place in the run."""
        return f"{self.run_id}.event.{self.seq}"
