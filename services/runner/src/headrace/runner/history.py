"""What a run reads of its session: stored messages, checked, and repaired where one half of a call is missing."""

import logging
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from headrace.runner.model import ToolCall

log = logging.getLogger(__name__)

LOST_RESULT = "error: the result of this call was lost"


def _object(arguments: str) -> str:
    ToolCall("", "", arguments).read_arguments()
    return arguments


class _Function(BaseModel):
    model_config = ConfigDict(extra="ignore")

    name: str = Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")
    arguments: Annotated[str, AfterValidator(_object)]


class _ToolCall(BaseModel):
    model_config = ConfigDict(extra="ignore")

    id: str = Field(min_length=1)
    type: Literal["function"] = "function"
    function: _Function


class _Body(BaseModel):
    """A message in the shape that models read."""

    model_config = ConfigDict(extra="ignore")

    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    tool_calls: list[_ToolCall] | None = None
    tool_call_id: str | None = None


_BODY: TypeAdapter[_Body] = TypeAdapter(_Body)


def repaired(stored: Iterable[Any]) -> list[dict[str, Any]]:
    """The messages that a model can be given.

    What is no message is left out, a result without its call as well, and a call without a result gets one that says
    so: a damaged history never spoils the next turn. What is stored stays as it is.
    """
    bodies: list[dict[str, Any]] = []
    results: dict[str, dict[str, Any] | None] = {}
    """Of the last message's calls, in order; `None` where it is missing yet."""
    for raw in stored:
        body = _readable(raw)
        if body is None:
            continue
        if body["role"] == "tool":
            call_id = body["tool_call_id"]
            if call_id in results:
                results[call_id] = results[call_id] or body
            continue
        bodies += _answered(results)
        bodies.append(body)
        results = dict.fromkeys(call["id"] for call in body.get("tool_calls", ()))
    return bodies + _answered(results)


def _answered(results: dict[str, dict[str, Any] | None]) -> list[dict[str, Any]]:
    return [
        result or {"role": "tool", "tool_call_id": call_id, "content": LOST_RESULT}
        for call_id, result in results.items()
    ]


def _readable(raw: Any) -> dict[str, Any] | None:
    try:
        body = _BODY.validate_python(raw)
    except ValidationError:
        log.warning("session.message_unreadable")
        return None
    said = {"role": body.role, "content": body.content}
    calls = body.tool_calls or []
    match body.role:
        case "tool" if body.content is not None and body.tool_call_id is not None:
            return {"role": "tool", "tool_call_id": body.tool_call_id, "content": body.content}
        case "assistant" if calls and len({call.id for call in calls}) == len(calls):
            return said | {"tool_calls": [call.model_dump() for call in calls]}
        case "assistant" if body.content and not calls:
            return said
        case "user" | "system" if body.content is not None:
            return said
        case _:
            return None
