"""ST-1: a stream that is cut at any byte goes on from the last whole event, with nothing lost and nothing twice."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.run_questions import FindRun
from headrace.contracts.runs import (
    EVENTS_PER_ATTEMPT,
    LAST_EVENT,
    RunEvent,
    RunFinished,
    RunNews,
    RunStarted,
    RunState,
    RunWaiting,
    TextDelta,
    ToolCalled,
    ToolReturned,
)
from headrace.gateway.api.runs import frames_of
from headrace.gateway.events import EventLog
from tests.unit.gateway.fakes import KeepingBus, ToldRpc, event, report

TEXT = st.text(st.sampled_from("ab \n\r\t\x85\u2028é🎉:{\"'"), max_size=6)
NEWS: st.SearchStrategy[RunNews] = st.one_of(
    st.builds(TextDelta, text=TEXT, step=st.integers(0, 5)),
    st.builds(ToolCalled, call_id=TEXT, name=TEXT, arguments=TEXT),
    st.builds(ToolReturned, call_id=TEXT, name=TEXT, result=TEXT),
    st.builds(RunWaiting, state=st.just("waiting_review"), tools=st.just(("t",))),
)


@st.composite
def lives(draw: st.DrawFn) -> list[RunEvent]:
    """The events of a run that was taken a few times, some of them not kept; it failed, was resumed, and ended."""
    told: list[RunEvent] = []
    epochs = draw(st.integers(1, 3))
    for epoch in range(1, epochs + 1):
        news: list[RunNews] = [RunStarted(attempt=epoch, agent_revision=1), *draw(st.lists(NEWS, max_size=4))]
        told += [event(epoch, place, each) for place, each in enumerate(news) if draw(st.booleans())]
        is_last = epoch == epochs
        if is_last or draw(st.booleans()):
            state = "succeeded" if is_last else "failed"
            told.append(
                event(epoch, LAST_EVENT, RunFinished.model_validate({"state": state, "output": draw(TEXT)}))
            )
    return told


@dataclass(frozen=True)
class Frame:
    """An event as a client reads it."""

    id: str | None
    event: str
    data: str


def read(sent: bytes) -> list[Frame]:
    """The whole events of a stream, as the HTML standard reads it: what is not closed by an empty line is dropped."""
    frames: list[Frame] = []
    fields: dict[str, str] = {}
    lines = sent.decode(errors="ignore").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for line in lines[:-1]:  # the last one has no end yet
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
            continue
        if "data" in fields:
            frames.append(Frame(fields.get("id"), fields["event"], fields["data"]))
        fields = {}
    return frames


async def stream(events: Sequence[RunEvent], after: int) -> bytes:
    rpc = ToldRpc({FindRun: report(RunState.SUCCEEDED, epoch=events[-1].seq // EVENTS_PER_ATTEMPT)})
    log = EventLog(KeepingBus(events), rpc, doubt=3_600, ping=3_600)
    async with asyncio.timeout(10):
        return "".join([each async for each in frames_of(log, "acc_1", "run_1", after)]).encode()


@given(events=lives())
def test_st_1_every_frame_has_a_rising_id(events: list[RunEvent]) -> None:
    frames = read(asyncio.run(stream(events, -1)))

    ids = [int(frame.id) for frame in frames if frame.id is not None]
    assert len(ids) == len(frames)
    assert ids == sorted(set(ids))
    assert [i for i, frame in zip(ids, frames, strict=True) if frame.event != "gap"] == [
        e.seq for e in events
    ]


@given(events=lives(), data=st.data())
def test_st_1_cut_at_any_byte_leaves_exactly_the_rest(events: list[RunEvent], data: st.DataObject) -> None:
    whole = asyncio.run(stream(events, -1))
    cut = data.draw(st.integers(0, len(whole)))

    before = read(whole[:cut])
    last = -1 if not before else int(before[-1].id or -1)
    after = read(asyncio.run(stream(events, last)))

    assert before + after == read(whole)


def test_st_1_every_byte_of_one_stream() -> None:
    """Each position, without chance: two takings, a gap, text that looks like the protocol's own."""
    events = [
        event(1, 0, RunStarted(attempt=1, agent_revision=1)),
        event(1, 1, TextDelta(text="id: 7\n\ndata: é🎉\r\n\r\n")),
        event(1, LAST_EVENT, RunFinished(state="failed")),
        event(2, 3, TextDelta(text="two")),
        event(2, LAST_EVENT, RunFinished(state="succeeded", output="two")),
    ]
    whole = asyncio.run(stream(events, -1))
    expected = read(whole)

    async def rest_of_every_cut() -> list[int]:
        wrong = []
        for cut in range(len(whole) + 1):
            before = read(whole[:cut])
            last = -1 if not before else int(before[-1].id or -1)
            if before + read(await stream(events, last)) != expected:
                wrong.append(cut)
        return wrong

    assert [frame.event for frame in expected].count("gap") == 1
    assert asyncio.run(rest_of_every_cut()) == []
