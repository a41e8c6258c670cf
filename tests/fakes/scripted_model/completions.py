"""`POST /v1/chat/completions` as a bare ASGI endpoint: the benchmarks measure others, so it must cost little."""

import asyncio
import itertools
import time

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from tests.fakes.scripted_model.answer import Answer, error_body
from tests.fakes.scripted_model.chat_request import MalformedRequestError, read_chat_request
from tests.fakes.scripted_model.journal import Outcome
from tests.fakes.scripted_model.performance import Performance
from tests.fakes.scripted_model.script import Failure
from tests.fakes.scripted_model.stage import Stage


class Completions:
    """Answers each request with the script's next step and writes both in the journal."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._numbers = itertools.count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        try:
            request = read_chat_request(await _read(receive))
        except MalformedRequestError as error:
            await JSONResponse(error_body(Failure(status=400, message=str(error))), 400)(scope, receive, send)
            return
        journal = self._stage.journal
        cue = self._stage.playbook.next_cue(request)
        call = journal.open(request, cue, key_tail=_key_tail(scope))
        name = f"chatcmpl-{next(self._numbers):08d}"
        answer = Answer(id=name, created=int(time.time()), step=cue.step, request=request)
        performance = Performance(answer, holds=self._stage.holds, send=send)
        outcome = await (_play_watched(performance, receive) if cue.step.takes_time else performance.play())
        input_tokens, output_tokens = _cost(answer, performance, outcome)
        journal.settle(call, outcome, input_tokens=input_tokens, output_tokens=output_tokens)


async def _play_watched(performance: Performance, receive: Receive) -> Outcome:
    """Play an answer that takes time, and stop when the client leaves."""
    async with asyncio.TaskGroup() as group:
        playing = group.create_task(performance.play())
        watching = group.create_task(_stop_with_client(receive, playing))
        playing.add_done_callback(lambda _: watching.cancel())
    return "cut_by_client" if playing.cancelled() else playing.result()


async def _stop_with_client(receive: Receive, playing: asyncio.Task[Outcome]) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
    playing.cancel()


async def _read(receive: Receive) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


def _key_tail(scope: Scope) -> str:
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    keys = (value for name, value in headers if name == b"authorization")
    return next(keys, b"").decode("latin-1").removeprefix("Bearer ")[-4:]


def _cost(answer: Answer, performance: Performance, outcome: Outcome) -> tuple[int, int]:
    """Return the input and output tokens that a provider would count for an answer with this end."""
    if outcome == "failed" and not answer.step.in_band_error:
        return 0, 0
    sent = None if outcome == "finished" else performance.characters_sent
    usage = answer.usage(characters=sent)
    return usage.prompt_tokens, usage.completion_tokens
