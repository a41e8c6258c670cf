"""Questions between services: NATS request/reply, registered with the services API so that `nats micro ls` shows them."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import nats.errors
import nats.micro
from nats.micro.request import Request
from opentelemetry import propagate
from pydantic import ValidationError

from headrace.common.bus import Bus
from headrace.common.errors import Conflict, HeadraceError, Invalid, NotFound, Terminal, Unavailable
from headrace.common.files import FileGone
from headrace.common.telemetry import span_of_question
from headrace.contracts.message import Contract
from headrace.contracts.question import Question, question_subject

log = logging.getLogger(__name__)

ASK_SECONDS = 5.0
ANSWERS_AT_ONCE = 32
"""Questions in hand at once in one replica."""
VERSION = "0.1.0"

Q = TypeVar("Q", bound=Contract)
R = TypeVar("R", bound=Contract)

_KNOWN: dict[str, type[HeadraceError]] = {
    error.code: error for error in (Invalid, NotFound, Conflict, FileGone, Unavailable)
}


@dataclass(frozen=True, slots=True)
class Answer(Generic[Q, R]):
    """A verb of a service: what is asked, and who answers."""

    verb: str
    question: type[Q]
    answer: Callable[[Q], Awaitable[R]]


def answers(question: type[Question[R]], answer: Callable[[Any], Awaitable[R]]) -> Answer[Any, R]:
    """Answer a kind of question."""
    return Answer(question.verb, question, answer)


class Rpc:
    """Asks and answers questions on one bus."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._places = asyncio.Semaphore(ANSWERS_AT_ONCE)
        self._answering: set[asyncio.Task[None]] = set()

    async def ask(self, question: Question[R]) -> R:
        """Ask a service.

        Raises:
            NotFound | Conflict | Invalid: What the other service said.
            Unavailable: Nobody answers, or not in time.
        """
        reply: Any = question.reply
        answer: R = await self.ask_verb(question.service, question.verb, question, reply)
        return answer

    async def ask_verb(self, service: str, verb: str, question: Contract, reply: type[R]) -> R:
        """Ask a verb that several services answer. See `ask` for its errors."""
        headers: dict[str, str] = {"content-type": "application/json"}
        propagate.inject(headers)
        subject = question_subject(service, verb)
        try:
            answer = await self._bus.client.request(
                subject, question.model_dump_json().encode(), timeout=ASK_SECONDS, headers=headers
            )
        except (TimeoutError, nats.errors.Error, OSError) as error:
            raise Unavailable(f"service {service} does not answer {subject}", after=1) from error
        code = (answer.headers or {}).get("Nats-Service-Error-Code")
        if code is not None:
            told = json.loads(answer.data or b"{}")
            unknown: type[HeadraceError] = Invalid if told.get("kind") == "terminal" else Unavailable
            if code == str(Conflict.status):
                unknown = Conflict
            raise _KNOWN.get(told.get("code", ""), unknown)(told.get("message", f"{subject} failed"))
        return reply.model_validate_json(answer.data)

    async def serve(self, service: str, verbs: Sequence[Answer[Any, Any]], *, description: str) -> None:
        """Register the service, and answer its verbs; replicas share the questions."""
        micro = await nats.micro.add_service(
            self._bus.client, name=f"headrace-{service}", version=VERSION, description=description
        )
        for each in verbs:
            await micro.add_endpoint(
                name=each.verb,
                subject=question_subject(service, each.verb),
                queue_group=service,
                handler=self._handler(each),
            )

    def _handler(self, answer: Answer[Any, Any]) -> Callable[[Request], Awaitable[None]]:
        """Answer many at once: the client would wait for one answer before it hands over the next question."""

        async def take(request: Request) -> None:
            await self._places.acquire()
            task = asyncio.create_task(reply(request))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
            task.add_done_callback(lambda _: self._places.release())

        async def reply(request: Request) -> None:
            with span_of_question(answer.verb, request.headers):
                try:
                    question = answer.question.model_validate_json(request.data)
                    given = await answer.answer(question)
                except ValidationError:
                    await _refuse(request, Invalid(f"that is not a question for {answer.verb}"))
                except HeadraceError as error:
                    await _refuse(request, error)
                except Exception:
                    log.exception("rpc.failed", extra={"verb": answer.verb})
                    await _refuse(request, Unavailable(f"{answer.verb} failed; see the service's log"))
                else:
                    await request.respond(given.model_dump_json().encode())

        return take


async def _refuse(request: Request, error: HeadraceError) -> None:
    kind = "terminal" if isinstance(error, Terminal) else "retryable"
    body = json.dumps({"code": error.code, "message": error.message, "kind": kind})
    await request.respond_error(str(error.status), error.code, data=body.encode())
