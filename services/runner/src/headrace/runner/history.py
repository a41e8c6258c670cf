"""What a run reads of its session: stored messages, checked, and repaired where one half of a call is missing."""

import logging
from collections.abc import Iterable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

log = logging.getLogger(__name__)

LOST_RESULT = "error: the result of this call was lost"


class _Function(BaseModel):
    model_config = ConfigDict(extra="ignore")

    name: str
    arguments: str


class _ToolCall(BaseModel):
    model_config = ConfigDict(extra="ignore")

    id: str
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
    open_calls: list[str] = []
    for raw in stored:
        body = _readable(raw)
        if body is None:
            continue
        if body["role"] == "tool":
            if body.get("tool_call_id") in open_calls:
                open_calls.remove(body["tool_call_id"])
                bodies.append(body)
            continue
        bodies += [_lost(call) for call in open_calls]
        bodies.append(body)
        open_calls = [call["id"] for call in body.get("tool_calls") or ()]
    return [*bodies, *(_lost(call) for call in open_calls)]


def _readable(raw: Any) -> dict[str, Any] | None:
    try:
        body = _BODY.validate_python(raw)
    except ValidationError:
        log.warning("session.message_unreadable")
        return None
    kept = body.model_dump(exclude_none=True)
    if body.role == "assistant" and body.content is None and not body.tool_calls:
        return None
    return {"content": None, **kept} if body.tool_calls else kept


def _lost(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": LOST_RESULT}
