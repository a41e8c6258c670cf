"""The envelope of a message on NATS: CloudEvents 1.0 (binary mode), W3C trace context, `Nats-Msg-Id`."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

from opentelemetry import propagate
from pydantic import ValidationError

from headrace.common.errors import Undecodable
from headrace.contracts.message import Message

M = TypeVar("M", bound=Message)

TYPE = "ce-type"
MESSAGE_ID = "Nats-Msg-Id"


def headers_of(message: Message, *, source: str, now: datetime) -> dict[str, str]:
    """The headers a message travels with, in the trace that is current.

    Args:
        message: What is sent.
        source: The service that sends it.
        now: When.
    """
    headers = {
        MESSAGE_ID: message.message_id,
        "ce-specversion": "1.0",
        "ce-id": message.message_id,
        TYPE: message.type,
        "ce-source": f"/headrace/{source}",
        "ce-subject": message.subject,
        "ce-time": now.isoformat(),
        "content-type": "application/json",
    }
    propagate.inject(headers)
    return headers


def decode(message: type[M], headers: Mapping[str, str] | None, body: bytes) -> M:
    """Read a message of the kind that a consumer declared.

    Raises:
        Undecodable: Another type, an unknown version, or a body that is not what the type says.
    """
    given = (headers or {}).get(TYPE)
    if given != message.type:
        raise Undecodable(f"expected a message of type {message.type}, got {given or 'no ce-type header'}")
    try:
        return message.model_validate_json(body)
    except ValidationError as error:
        # not `from error`: its text repeats the body, and would be logged with the traceback
        raise Undecodable(f"the body is not a {message.type}: {_summary(error)}") from None


def _summary(error: ValidationError) -> str:
    """Where a body is wrong, without repeating what it says."""
    problems: list[Any] = error.errors(include_input=False, include_url=False)
    return "; ".join(f"{'.'.join(map(str, p['loc'])) or 'body'}: {_sentence(p)}" for p in problems[:5])


def _sentence(problem: dict[str, Any]) -> str:
    """Pydantic's own sentence, less the one that has what was given in it."""
    return "no such kind" if problem["type"] == "union_tag_invalid" else str(problem["msg"])
