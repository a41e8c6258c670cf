"""A text that cannot be kept is refused at the door, not found out later."""

import pytest
from pydantic import BaseModel, ValidationError

from headrace.gateway.api.agents import AgentWanted
from headrace.gateway.api.chat import ChatWanted
from headrace.gateway.api.knowledge import SearchWanted, TextWanted
from headrace.gateway.api.runs import RunWanted
from headrace.gateway.api.triggers import ScheduleWanted, WebhookWanted


@pytest.mark.parametrize("bad", ["a\0b", "\ud800"])
@pytest.mark.parametrize(
    ("wanted", "fields", "place"),
    [
        (AgentWanted, {"name": "a"}, "instruction"),
        (AgentWanted, {"name": "a"}, "model"),
        (ChatWanted, {"messages": [{"role": "user", "content": "hi"}]}, "model"),
        (RunWanted, {"input": "hi"}, "agent"),
        (RunWanted, {"agent": "a"}, "input"),
        (RunWanted, {"agent": "a", "input": "hi"}, "session_id"),
        (SearchWanted, {}, "query"),
        (TextWanted, {"text": "t"}, "title"),
        (TextWanted, {"title": "t"}, "text"),
        (ScheduleWanted, {"agent": "a", "every_seconds": 1, "prompt": "p"}, "name"),
        (ScheduleWanted, {"agent": "a", "every_seconds": 1, "name": "n"}, "prompt"),
        (WebhookWanted, {"agent": "a"}, "name"),
    ],
)
def test_field_refuses_what_cannot_be_kept(
    wanted: type[BaseModel], fields: dict[str, object], place: str, bad: str
) -> None:
    with pytest.raises(ValidationError, match=r"NUL|surrogate|unicode"):
        wanted.model_validate({**fields, place: bad})


@pytest.mark.parametrize("content", ["a\0b", [{"type": "text", "text": "a\0b"}]])
def test_message_refuses_what_cannot_be_kept(content: object) -> None:
    with pytest.raises(ValidationError, match="NUL"):
        ChatWanted.model_validate({"model": "m", "messages": [{"role": "user", "content": content}]})
