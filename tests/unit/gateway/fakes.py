"""Doubles of what the gateway talks to: a runner that answers as it is told, and a broker that keeps what it is given."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import RawStreamMsg

from headrace.common.bus import Bus
from headrace.common.envelope import headers_of
from headrace.common.errors import HeadraceError, NotFound
from headrace.common.rpc import Rpc
from headrace.contracts.journal import Ask, EffectReport, EffectState, JournalPage, StepReport
from headrace.contracts.message import Contract
from headrace.contracts.question import Question, R
from headrace.contracts.run_questions import RunReport
from headrace.contracts.runs import EVENTS_PER_ATTEMPT, LAST_EVENT, Door, RunEvent, RunNews, RunState

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)

Answer = Contract | HeadraceError | Callable[[Any], Contract]


class ToldRpc(Rpc):
    """Answers each kind of question with what a test put there, or that it knows nothing."""

    def __init__(self, answers: Mapping[type[Question[Any]], Answer | list[Answer]] | None = None) -> None:
        self.answers: dict[type[Question[Any]], Answer | list[Answer]] = dict(answers or {})
        self.asked: list[Contract] = []

    async def ask(self, question: Question[R]) -> R:
        """The last answer of a list is given again and again."""
        self.asked.append(question)
        answer = self.answers.get(type(question), NotFound("there is none"))
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        if isinstance(answer, HeadraceError):
            raise answer
        given: Any = answer if isinstance(answer, Contract) else answer(question)
        return given  # type: ignore[no-any-return]  # what a test put there

    def questions(self, kind: type[Question[Any]]) -> list[Contract]:
        return [each for each in self.asked if isinstance(each, kind)]


class KeepingBus(Bus):
    """Keeps events, and tells one that happens to whoever watches."""

    def __init__(self, kept: Sequence[RunEvent] = ()) -> None:
        self.events = list(kept)
        self._heard: Callable[[Msg], Awaitable[None]] | None = None

    async def watch(self, subject: str, heard: Callable[[Msg], Awaitable[None]], *, queue: str = "") -> None:
        assert (subject, queue) == (RunEvent.wildcard(), "")
        self._heard = heard

    async def kept(self, stream: str, subject: str) -> AsyncIterator[RawStreamMsg]:
        for place, event in enumerate(list(self.events), start=1):
            assert (stream, subject) == ("EVENTS", event.subject)
            yield RawStreamMsg(event.subject, place, body(event), headers=headers(event))

    async def happens(self, event: RunEvent) -> None:
        """Something is said now."""
        assert self._heard is not None, "nobody listens"
        self.events.append(event)
        unconnected = Client()
        await self._heard(Msg(unconnected, event.subject, "", body(event), headers(event)))


def headers(event: RunEvent) -> dict[str, str]:
    return headers_of(event, source="runner", now=event.at)


def body(event: RunEvent) -> bytes:
    return event.model_dump_json().encode()


def event(epoch: int, place: int, news: RunNews) -> RunEvent:
    """An event of `run_1`."""
    seq = epoch * EVENTS_PER_ATTEMPT + place
    return RunEvent(run_id="run_1", account_id="acc_1", seq=seq, at=NOW, news=news)


def end(epoch: int, news: RunNews) -> RunEvent:
    """The last event of a taking."""
    return event(epoch, LAST_EVENT, news)


def report(state: RunState, *, epoch: int = 1, **more: Any) -> RunReport:
    """Where `run_1` stands."""
    return RunReport(
        run_id="run_1",
        account_id="acc_1",
        agent_id="agent_1",
        agent_revision=1,
        session_id=None,
        door=Door.API,
        state=state,
        attempt=epoch,
        epoch=epoch,
        requested_at=NOW,
        finished_at=NOW if state.is_final else None,
        **more,
    )


def effect(state: EffectState) -> EffectReport:
    return EffectReport(key="k", state=state, provider_key="p", run_id="run_1", begun_at=NOW)


def step(seq: int, *, effect_state: EffectState | None = None) -> StepReport:
    """A call of `send_email`."""
    return StepReport(
        path="root",
        seq=seq,
        kind="tool",
        state="done",
        name="send_email",
        epoch=1,
        effect=None if effect_state is None else effect(effect_state),
        started_at=NOW,
    )


def ask(seq: int, *choices: str) -> Ask:
    """A question about a call of `send_email`."""
    return Ask(
        path="root",
        seq=seq,
        call_id=f"call_{seq}",
        tool="send_email",
        arguments="{}",
        why="it is unsafe",
        choices=choices,
    )


def page(*steps: StepReport, waiting: Sequence[Ask] = (), more: bool = False) -> JournalPage:
    return JournalPage(steps=steps, waiting=tuple(waiting), more=more)
