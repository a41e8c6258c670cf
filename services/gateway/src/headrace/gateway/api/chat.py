"""`/v1/chat/completions` and `/v1/models`: what every OpenAI client speaks. A model here is an agent."""

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header
from pydantic import BaseModel, Field
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from headrace.common.clock import Clock
from headrace.common.errors import HeadraceError, Invalid
from headrace.common.problems import problem
from headrace.contracts.runs import ChatMessage, Door
from headrace.contracts.text import Text
from headrace.gateway import repository
from headrace.gateway.api.sse import EventStream
from headrace.gateway.auth import Caller, KeyDoor
from headrace.gateway.chat_stream import ChatStream
from headrace.gateway.events import EventLog
from headrace.gateway.starting import Wish, start_run


class TextPart(BaseModel):
    """A part of a message's content."""

    type: Literal["text"]
    text: Text


class InputMessage(BaseModel):
    """A message as OpenAI clients send it; text only."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Text | list[TextPart] | None = None

    def said(self) -> ChatMessage:
        """The message as Headrace keeps it."""
        text = self.content if isinstance(self.content, str) else "".join(p.text for p in self.content or ())
        role = "system" if self.role == "developer" else self.role
        return ChatMessage(role=role, content=text)


class StreamOptions(BaseModel):
    """What a stream should contain besides the answer."""

    include_usage: bool = False


class ChatWanted(BaseModel):
    """The request of a chat completion. Fields that an agent decides by itself (temperature, tools) are ignored."""

    model: Text = Field(min_length=1, max_length=128, description="Name or id of an agent.")
    messages: list[InputMessage] = Field(min_length=1, max_length=2_000)
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()


class WholeAnswer(JSONResponse):
    """Waits for the run after the request's transaction has ended, and answers with the completion or a problem."""

    def __init__(self, chat: ChatStream, patience: float) -> None:
        super().__init__(None)
        self._chat, self._patience = chat, patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Wait, then answer."""
        headers = {"X-Headrace-Run-Id": self._chat.run_id}
        try:
            async with asyncio.timeout(self._patience):
                end = await self._chat.end()
            answer = JSONResponse(self._chat.completion(end), headers=headers)
        except TimeoutError:
            sentence = f"the run goes on; follow it at /v1/runs/{self._chat.run_id}/events"
            answer = problem(504, "not_yet", sentence, headers=headers)
        except HeadraceError as error:
            answer = problem(error.status, error.code, error.message, headers=error.headers)
        await answer(scope, receive, send)


def chat_router(door: KeyDoor, events: EventLog, clock: Clock, *, patience: float) -> APIRouter:
    """The OpenAI-compatible routes."""
    router = APIRouter(prefix="/v1", tags=["openai"])

    async def begin(wanted: ChatWanted, caller: Caller, key: str | None) -> ChatStream:
        said = tuple(message.said() for message in wanted.messages)
        if not any(message.role == "user" and message.content for message in said):
            raise Invalid("messages must contain at least one user message with text")
        started = await start_run(Wish(Door.CHAT, wanted.model, said, idempotency_key=key), caller, clock)
        following = events.follow(caller.account_id, started.run_id, is_new=started.is_new, until="waiting")
        return ChatStream(following, started.run_id, wanted.model, round(clock.now().timestamp()))

    @router.post("/chat/completions", response_model=None)
    async def complete(
        wanted: ChatWanted,
        caller: Annotated[Caller, door.dependency()],
        idempotency_key: Annotated[str | None, Header(min_length=1, max_length=255)] = None,
    ) -> EventStream | WholeAnswer:
        """Answer as the agent, streamed or at once."""
        chat = await begin(wanted, caller, idempotency_key)
        if wanted.stream:
            return EventStream(
                chat.frames(include_usage=wanted.stream_options.include_usage), run_id=chat.run_id
            )
        return WholeAnswer(chat, patience)

    @router.get("/models")
    async def models(caller: Annotated[Caller, door.dependency()]) -> dict[str, Any]:
        """The agents of the account, as models."""
        agents = await repository.list_agents(caller.tx.connection, caller.account_id)
        return {
            "object": "list",
            "data": [{"id": a.name, "object": "model", "created": 0, "owned_by": "headrace"} for a in agents],
        }

    return router
