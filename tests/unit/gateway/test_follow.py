"""Following a run: to its last end, over what is kept, what is heard, and what was missed."""

import asyncio
from contextlib import aclosing

import pytest

from headrace.common.errors import HeadraceError, Unavailable
from headrace.contracts.journal import ReadJournal
from headrace.contracts.run_questions import FindRun, RunReport
from headrace.contracts.runs import (
    EVENTS_PER_ATTEMPT,
    LAST_EVENT,
    RunEvent,
    RunFinished,
    RunStarted,
    RunState,
    RunWaiting,
    TextDelta,
    ToolCalled,
)
from headrace.gateway.events import EventLog, Gap, Silence, Until
from headrace.gateway.settings import GatewaySettings
from tests.unit.gateway.fakes import KeepingBus, ToldRpc, ask, end, event, page, report

SOON = 0.001
"""Seconds of silence after which the runner is asked, where a test is about silence."""
NEVER = 3_600.0
FAILED = RunFinished(state="failed", error_code="model_failed", error="no answer")
DONE = RunFinished(state="succeeded", output="one")
PARKED = RunWaiting(state="waiting_approval", tools=("send_email",))
FIRST = [event(1, 0, RunStarted(attempt=1, agent_revision=1)), event(1, 1, TextDelta(text="one", step=1))]
SECOND = [
    event(2, 0, RunStarted(attempt=2, agent_revision=1, resumes_at=2)),
    event(2, 1, TextDelta(text="x")),
]

Answers = RunReport | HeadraceError | list[RunReport | HeadraceError]


class Followed:
    """A run, its events, and one who follows it."""

    def __init__(
        self, kept: list[RunEvent], reports: Answers, *, doubt: float = NEVER, ping: float = NEVER
    ) -> None:
        self.bus = KeepingBus(kept)
        self.rpc = ToldRpc({ReadJournal: page(waiting=[ask(2), ask(3)])})
        self.rpc.answers[FindRun] = list(reports) if isinstance(reports, list) else reports
        self.log = EventLog(self.bus, self.rpc, doubt=doubt, ping=ping)

    async def to_its_end(
        self, *, after: int = -1, is_new: bool = False, until: Until = "end"
    ) -> list[RunEvent | Gap | Silence]:
        await self.log.listen()
        async with asyncio.timeout(10):
            following = self.log.follow("acc_1", "run_1", after=after, is_new=is_new, until=until)
            return [item async for item in following]


async def test_kept_success_is_the_end_and_nobody_is_asked() -> None:
    run = Followed([*FIRST, end(1, DONE)], Unavailable("away"))

    assert await run.to_its_end() == [*FIRST, end(1, DONE)]
    assert run.rpc.asked == []


async def test_kept_failure_is_the_end_where_the_runner_says_so() -> None:
    run = Followed([*FIRST, end(1, FAILED)], report(RunState.FAILED))

    assert await run.to_its_end() == [*FIRST, end(1, FAILED)]


async def test_failure_that_was_followed_by_more_is_not_the_end() -> None:
    events = [*FIRST, end(1, FAILED), *SECOND, end(2, DONE)]

    assert await Followed(events, report(RunState.SUCCEEDED, epoch=2)).to_its_end() == events


async def test_failure_of_a_run_that_was_resumed_is_followed_live() -> None:
    run = Followed([*FIRST, end(1, FAILED)], report(RunState.RUNNING, epoch=2))
    await run.log.listen()
    seen: list[RunEvent | Gap | Silence] = []

    async with asyncio.timeout(10), aclosing(run.log.follow("acc_1", "run_1")) as following:
        seen += [await anext(following) for _ in range(3)]
        for each in (*SECOND, end(2, DONE)):
            await run.bus.happens(each)
        seen += [item async for item in following]

    assert seen == [*FIRST, end(1, FAILED), *SECOND, end(2, DONE)]


async def test_live_failure_that_was_followed_by_more_is_not_the_end() -> None:
    run = Followed([], report(RunState.SUCCEEDED, epoch=2))
    await run.log.listen()
    events = [*FIRST, end(1, FAILED), *SECOND, end(2, DONE)]

    async with asyncio.timeout(10), aclosing(run.log.follow("acc_1", "run_1", is_new=True)) as following:
        first = asyncio.ensure_future(anext(following))
        await asyncio.sleep(0)  # the reader takes its place
        for each in events:
            await run.bus.happens(each)
        seen = [await first] + [item async for item in following]

    assert seen == events
    assert run.rpc.asked == []


async def test_live_failure_ends_where_the_runner_says_so() -> None:
    run = Followed([], report(RunState.FAILED))
    await run.log.listen()

    async with asyncio.timeout(10), aclosing(run.log.follow("acc_1", "run_1", is_new=True)) as following:
        first = asyncio.ensure_future(anext(following))
        await asyncio.sleep(0)  # the reader takes its place
        await run.bus.happens(end(1, FAILED))
        seen = [await first] + [item async for item in following]

    assert seen == [end(1, FAILED)]


async def test_end_that_is_sent_again_after_later_events_is_told_once() -> None:
    again = [*FIRST, end(1, FAILED), *SECOND, end(1, FAILED)]

    assert await Followed(again, report(RunState.CANCELLED, epoch=3)).to_its_end() == [
        *FIRST,
        end(1, FAILED),
        *SECOND,
        end(3, RunFinished(state="cancelled")),
    ]


async def test_failure_is_followed_until_a_runner_that_is_away_is_back() -> None:
    run = Followed(
        [*FIRST, end(1, FAILED)],
        [Unavailable("away"), Unavailable("away"), report(RunState.FAILED)],
        doubt=SOON,
    )

    assert await run.to_its_end() == [*FIRST, end(1, FAILED)]
    assert len(run.rpc.questions(FindRun)) == 3


async def test_st_1_reader_that_has_the_end_already_is_let_go() -> None:
    run = Followed([*FIRST, end(1, FAILED)], report(RunState.FAILED))

    assert await run.to_its_end(after=EVENTS_PER_ATTEMPT + LAST_EVENT) == []


async def test_st_12_end_that_nobody_heard_is_told_all_the_same() -> None:
    run = Followed(FIRST, report(RunState.SUCCEEDED, output="one"))

    assert await run.to_its_end() == [*FIRST, end(1, DONE)]


async def test_st_12_end_that_was_missed_while_following_is_told_all_the_same() -> None:
    reports: Answers = [report(RunState.RUNNING), report(RunState.SUCCEEDED, output="one")]

    assert await Followed(FIRST, reports, doubt=SOON).to_its_end() == [*FIRST, end(1, DONE)]


def test_st_4_ping_comes_every_15_seconds_unless_said_otherwise() -> None:
    assert GatewaySettings().ping_seconds == 15


async def test_st_4_silence_is_told_again_and_again() -> None:
    run = Followed(FIRST, report(RunState.RUNNING), doubt=SOON, ping=SOON)
    await run.log.listen()

    async with asyncio.timeout(10), aclosing(run.log.follow("acc_1", "run_1")) as following:
        seen = [await anext(following) for _ in range(5)]

    assert seen == [*FIRST, Silence(), Silence(), Silence()]


async def test_waiting_run_is_followed_on_with_pings() -> None:
    kept = [*FIRST, event(1, 2, PARKED)]
    run = Followed(kept, report(RunState.WAITING_APPROVAL), doubt=SOON, ping=SOON)
    await run.log.listen()

    async with asyncio.timeout(10), aclosing(run.log.follow("acc_1", "run_1")) as following:
        seen = [await anext(following) for _ in range(5)]
        await run.bus.happens(end(2, DONE))
        rest = [item async for item in following if not isinstance(item, Silence)]

    assert (seen, rest) == ([*kept, Silence(), Silence()], [end(2, DONE)])


async def test_who_wants_an_answer_is_let_go_where_the_run_waits() -> None:
    kept = [*FIRST, event(1, 2, PARKED)]

    assert await Followed(kept, report(RunState.WAITING_APPROVAL)).to_its_end(until="waiting") == kept


async def test_wait_that_is_over_does_not_let_anybody_go() -> None:
    kept = [*FIRST, event(1, 2, PARKED), *SECOND, end(2, DONE)]

    assert await Followed(kept, report(RunState.SUCCEEDED, epoch=2)).to_its_end(until="waiting") == kept


@pytest.mark.parametrize("kept", [FIRST, [*FIRST, event(1, 2, PARKED), *SECOND]])
async def test_wait_that_nobody_heard_is_told_with_its_tools(kept: list[RunEvent]) -> None:
    run = Followed(kept, report(RunState.WAITING_REVIEW, epoch=2))

    told = await run.to_its_end(until="waiting")

    wait = RunWaiting(state="waiting_review", tools=("send_email", "send_email"))
    assert told[-1] == event(2, LAST_EVENT - 1, wait)
    assert [item for item in told if isinstance(item, RunEvent)][:-1] == kept


async def test_wait_that_nobody_heard_is_told_once() -> None:
    run = Followed(FIRST, report(RunState.WAITING_REVIEW), doubt=SOON, ping=SOON)
    await run.log.listen()

    async with asyncio.timeout(10), aclosing(run.log.follow("acc_1", "run_1")) as following:
        seen = [await anext(following) for _ in range(6)]

    waits = [item for item in seen if isinstance(item, RunEvent) and isinstance(item.news, RunWaiting)]
    assert (len(waits), seen[-1]) == (1, Silence())


async def test_events_that_are_not_kept_any_more_are_said_to_be_missing() -> None:
    kept = [event(1, 4, ToolCalled(call_id="c", name="t", arguments="{}")), end(1, DONE)]

    assert await Followed(kept, report(RunState.SUCCEEDED)).to_its_end() == [
        Gap(-1, EVENTS_PER_ATTEMPT + 4),
        *kept,
    ]
