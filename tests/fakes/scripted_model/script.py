"""The language of scripts: what `PUT /script` accepts. Unknown words are refused, so that a typing error is seen."""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class _Word(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ScriptedToolCall(_Word):
    """One tool call of an answer; arguments given as text are sent as they are, well formed or not."""

    name: str
    arguments: dict[str, object] | str = {}
    id: str | None = None


class Failure(_Word):
    """One provider error; `retry_after` in seconds becomes the header of that name."""

    status: int = Field(default=500, ge=400, le=599)
    message: str = "scripted error"
    retry_after: float | None = None
    type: str | None = None
    code: str | None = None


class Usage(BaseModel):
    """Token counts to report; other fields, such as details of cached tokens, are reported as they are."""

    model_config = ConfigDict(extra="allow", frozen=True)

    prompt_tokens: int = 0
    completion_tokens: int = 0

    def report(self) -> dict[str, object]:
        """Return the counts as they go over the wire, with their sum unless the script gives another."""
        return {"total_tokens": self.prompt_tokens + self.completion_tokens, **self.model_dump()}


class Step(_Word):
    """One answer. A step that says neither text, tool calls, error nor empty repeats the last user message.

    Attributes:
        text: The answer's content.
        tool_calls: Calls that the model asks for, after the text if there is one.
        error: An HTTP error in place of an answer; with `in_band_error` it comes after the chunks of a 200 answer.
        empty: An answer without content.
        first_delay: Seconds before the response begins.
        chunk_delay: Seconds between two chunks.
        chunks: Pieces into which the text, and each call's arguments, are split.
        cut_after: The connection is dropped after this many chunks (the role's chunk is not counted).
        usage: Token counts to report in place of the estimate; none reports no counts.
        finish_reason: What to report in place of `stop` or `tool_calls`.
        in_band_error: The stream ends with an error event after its chunks.
        hold: Name of a hold: the answer waits until `POST /release/<name>`.
        hold_after: Chunks that are sent before the hold; without it the response does not begin.
    """

    text: str | None = None
    tool_calls: tuple[ScriptedToolCall, ...] = ()
    error: Failure | None = None
    empty: bool = False
    first_delay: float = Field(default=0, ge=0)
    chunk_delay: float = Field(default=0, ge=0)
    chunks: int = Field(default=4, ge=1)
    cut_after: int | None = Field(default=None, ge=0)
    usage: Usage | Literal["estimate"] | None = "estimate"
    finish_reason: str | None = None
    in_band_error: bool = False
    hold: str | None = None
    hold_after: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> Self:
        said = self.text is not None or bool(self.tool_calls)
        if self.empty and said:
            raise ValueError("an empty step has neither text nor tool calls")
        if self.error and said and not self.in_band_error:
            raise ValueError("a step with an error has an answer only when the error is in band")
        if self.hold_after is not None and self.hold is None:
            raise ValueError("hold_after needs the name of a hold")
        return self

    @property
    def takes_time(self) -> bool:
        """Whether the answer waits anywhere, so that the client may leave in the middle."""
        return bool(self.first_delay or self.chunk_delay or self.hold)


class When(_Word):
    """Conditions of a rule; all that are given must hold.

    Attributes:
        contains: A part of the last message from a user.
        turns: How often the model has answered since then, so that a request that comes again is answered alike.
    """

    contains: str | None = None
    model: str | None = None
    last_role: str | None = None
    turns: int | None = Field(default=None, ge=0)


class Rule(_Word):
    """Steps for the requests that match, in order; `repeat` starts over after the last."""

    when: When = When()
    steps: tuple[Step, ...] = Field(min_length=1)
    repeat: bool = False


class Script(_Word):
    """Rules, of which the first that matches answers, and the step for requests that match none."""

    rules: tuple[Rule, ...] = ()
    default: Step = Step()
