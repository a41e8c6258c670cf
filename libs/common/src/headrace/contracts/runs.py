"""Runs: how one is asked for, let in, steered, and told about."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from headrace.contracts.ids import AccountId, AgentId, RunId, SessionId, Sha256, Token, UserId
from headrace.contracts.limits import Left, Refusal
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
    WAITING_APPROVAL = "waiting_approval"
    """A person is asked before something is done; no process waits."""
    WAITING_REVIEW = "waiting_review"
    """Something may have been done, and only a person can say; no process waits."""
    WAITING_QUOTA = "waiting_quota"
    """An allowance was spent in the middle of the run, which goes on after a top-up; no process waits."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REFUSED = "refused"

    @property
    def is_final(self) -> bool:
        """Whether nothing can follow."""
        return self in FINAL_STATES

    @property
    def is_waiting(self) -> bool:
        """Whether the run stands still until something is decided."""
        return self in WAITING_STATES


FINAL_STATES = frozenset({RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED, RunState.REFUSED})
WAITING_STATES = frozenset({RunState.WAITING_APPROVAL, RunState.WAITING_REVIEW, RunState.WAITING_QUOTA})


class ChatMessage(Contract):
    """One message of a conversation as a caller gives it: text from the user, the assistant or the system."""

    role: Literal["system", "user", "assistant"]
    content: Text


class InputFile(Contract):
    """A file that a run is given; its content is in the object store under its hash, and nowhere else."""

    sha256: Sha256
    name: Annotated[Text, StringConstraints(min_length=1, max_length=255)]
    media_type: Annotated[Text, StringConstraints(max_length=255)] = "application/octet-stream"
    size: int = Field(ge=0)
    """Bytes."""


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
    user: UserId | None = None
    """On whose behalf the caller asks, in the caller's own words; limits may name it."""
    api_key: Token | None = None
    """The name of the key that was shown, never the key; limits may name it."""
    trigger: str
    """The identity of what started the run: an event id, a fire time, an idempotency key, or the run's own id."""
    input: tuple[ChatMessage, ...] = Field(min_length=1)
    files: tuple[InputFile, ...] = ()
    requested_at: datetime
    replay_of: RunId | None = None
    """The run that this one does again."""
    origin: RunId | None = None
    """The first run of the same trigger, for a replay: what that one did to the world is not done again."""
    forced_by: str | None = None
    """Who decided to replay although something might be done twice."""

    @property
    def intent(self) -> RunId:
        """The identity of the trigger: the same for a run and all its replays."""
        return self.origin or self.run_id

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
    held: int | None = None
    """Weighted tokens of the shared model that the run may use in all; `None` where nothing caps it."""
    left: tuple[Left, ...] = ()
    """What is left of the limits that the run was let in under."""

    @property
    def message_id(self) -> str:
        """One admission per run."""
        return f"{self.run_id}.admitted"


class Decision(Contract):
    """What a person decided about one call of a tool."""

    path: str
    seq: int
    """With `path`, the step of the call."""
    choice: Literal["approve", "reject", "happened", "again", "skip", "undone"]
    """Approve or reject what is asked; of what may have happened: it did, do it (again), or leave it; of what
    happened: it was taken back, so that it may be done once more."""
    note: Annotated[Text, StringConstraints(max_length=2_000)] = ""
    """Why, for people and for the model."""
    result: Annotated[Text, StringConstraints(max_length=100_000)] = ""
    """With `happened`: what the tool would have answered."""


class RunControl(Message):
    """A decision about a run, from outside of it."""

    type: ClassVar[str] = "headrace.run.control.v1"
    address: ClassVar[str] = "run.control.{verb}.{run_id}"

    run_id: RunId
    verb: Literal["cancel", "refuse", "approve", "resolve", "resume"]
    """A caller cancels, approves, or resolves a review. The usage service refuses, and lets a run go on that failed,
    since going on costs as beginning does."""
    account_id: AccountId
    command_id: Token
    code: str | None = None
    reason: str | None = None
    by: str | None = None
    """Who decided."""
    decisions: tuple[Decision, ...] = ()
    held: int | None = None
    """With `resume`, what `RunAdmitted.held` says of a run that begins."""

    @property
    def message_id(self) -> str:
        """One command, however often it is sent."""
        return f"{self.run_id}.control.{self.command_id}"


class RunStarted(Contract):
    """An attempt begins. What was told of the step `resumes_at` and of later ones is superseded; the rest stands."""

    kind: Literal["run.started"] = "run.started"
    attempt: int
    agent_revision: int
    resumes_at: int = 1
    """The first step that is not finished."""
    left: tuple[Left, ...] = ()
    """What is left of the limits that the run was let in under."""


class TextDelta(Contract):
    """A piece of the answer, to be appended."""

    kind: Literal["text.delta"] = "text.delta"
    text: str
    step: int = 0
    """The model call that says it."""


class ToolCalled(Contract):
    """The model asked for a tool."""

    kind: Literal["tool.called"] = "tool.called"
    call_id: str
    name: str
    arguments: str
    step: int = 0


class ToolReturned(Contract):
    """A tool answered, or failed with a sentence for the model."""

    kind: Literal["tool.returned"] = "tool.returned"
    call_id: str
    name: str
    result: str
    is_error: bool = False
    step: int = 0


class RunWaiting(Contract):
    """The run is parked until a person decides, see `GET /v1/runs/{id}/waiting`, or until its allowance is raised."""

    kind: Literal["run.waiting"] = "run.waiting"
    state: Literal["waiting_approval", "waiting_review", "waiting_quota"]
    tools: tuple[str, ...] = ()
    """The tools whose calls are asked about, one for each call."""
    refusal: Refusal | None = None
    """The allowance that is spent, with its numbers."""


class TokenCount(Contract):
    """Tokens of one run or one call, in disjoint classes: each token is in one of them, whatever the provider's shape."""

    input_tokens: int = Field(default=0, ge=0)
    """Text read, neither from a cache nor into one."""
    cached_input_tokens: int = Field(default=0, ge=0)
    """Read from a cache."""
    cache_write_tokens: int = Field(default=0, ge=0)
    """Read, and written to a cache."""
    audio_input_tokens: int = Field(default=0, ge=0)
    image_input_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)
    """Text written, without the reasoning."""
    reasoning_tokens: int = Field(default=0, ge=0)
    audio_output_tokens: int = Field(default=0, ge=0)
    image_output_tokens: int = Field(default=0, ge=0)
    is_estimated: bool = False
    """The provider did not report; counted from the text."""

    @property
    def read(self) -> int:
        """Tokens that the model read, of all classes."""
        return (
            self.input_tokens
            + self.cached_input_tokens
            + self.cache_write_tokens
            + self.audio_input_tokens
            + self.image_input_tokens
        )

    @property
    def written(self) -> int:
        """Tokens that the model wrote, of all classes."""
        return (
            self.output_tokens + self.reasoning_tokens + self.audio_output_tokens + self.image_output_tokens
        )

    @property
    def total(self) -> int:
        """Tokens of all classes."""
        return self.read + self.written

    def __add__(self, other: "TokenCount") -> "TokenCount":
        """Sum class by class; estimated when any part is."""
        sums = {name: getattr(self, name) + getattr(other, name) for name in TOKEN_CLASSES}
        return TokenCount(**sums, is_estimated=self.is_estimated or other.is_estimated)


TOKEN_CLASSES = tuple(name for name in TokenCount.model_fields if name.endswith("_tokens"))
"""The names of the classes, in the order in which they are shown."""


class RunFinished(Contract):
    """The end of a run, with its whole answer: who saw only this saw everything that counts."""

    kind: Literal["run.finished"] = "run.finished"
    state: Literal["succeeded", "failed", "cancelled", "refused"]
    output: str = ""
    error_code: str | None = None
    error: str | None = None
    usage: TokenCount = TokenCount()
    refusal: Refusal | None = None
    """Which limit refused the run, with its numbers."""


class RunEnded(Message):
    """A run came to its end, told to the usage service: what was set aside for it is free."""

    type: ClassVar[str] = "headrace.run.ended.v1"
    address: ClassVar[str] = "run.ended.{account_id}"

    account_id: AccountId
    run_id: RunId
    epoch: int
    """The end's place in the life of the run: one that is resumed ends again."""
    state: RunState
    shared: TokenCount = TokenCount()
    """What finished calls of the shared model used over the whole run; the ledger may know of more."""
    ended_at: datetime

    @property
    def message_id(self) -> str:
        """One message per end."""
        return f"{self.run_id}.ended.{self.epoch}"


RunNews = Annotated[
    RunStarted | TextDelta | ToolCalled | ToolReturned | RunWaiting | RunFinished, Field(discriminator="kind")
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
