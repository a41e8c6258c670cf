"""Tool calls as models make them: cut, malformed, made up; and runs that end while their tools act."""

import asyncio
import json
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal

import pytest

from headrace.common.delivery import DeliveryPolicy
from headrace.contracts.runs import RunState
from headrace.runner import leases
from headrace.runner.limits import RunLimits
from headrace.tools import Tool, tool
from tests.support.runner_rig import Rig, ScriptedTurns, calls, crash_at, request, runner_rig, says
from tests.support.servers import PostgresEndpoint

WHOLE = json.dumps({"city": "San Francisco"})
CUT = '{"city": "San Fra'
MALFORMED = {
    "cut": CUT,
    "no quotes": "{city: Rome}",
    "a word": "Rome",
    "a list": '["Rome"]',
    "null": "null",
    "a text": '"Rome"',
    "two objects": '{"city": "Rome"}{"city": "Bonn"}',
    "python": "{'city': 'Rome'}",
}


class Cities:
    """What was asked of cities, and what was done to them."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.deleted: list[str] = []

    def tools(self) -> list[Tool]:
        @tool(effect="none")
        async def weather(city: str) -> str:
            """Look at the weather."""
            self.seen.append(city)
            return "sunny"

        @tool(effect="unsafe")
        async def delete(city: str = "every city") -> str:
            """Delete a city."""
            self.deleted.append(city)
            return "deleted"

        return [weather, delete]


def results(model: ScriptedTurns) -> list[str]:
    """What the model read of its tools at its last call."""
    return [each["content"] for each in model.requests[-1].messages if each["role"] == "tool"]


async def made(rig: Rig, asked_id: str) -> list[tuple[str, str, str]]:
    """The steps of a run: kind, name, state."""
    page = await rig.journal(asked_id)
    return [(step.kind, step.name, step.state) for step in page.steps]


@pytest.mark.parametrize("arguments", ["", CUT], ids=["empty", "cut"])
async def test_tj_1_empty_or_cut_arguments_are_an_error_for_the_model_and_the_run_goes_on(
    postgres_server: PostgresEndpoint, arguments: str
) -> None:
    cities = Cities()
    model = ScriptedTurns(calls(("weather", arguments)), calls(("weather", WHOLE)), says("done"))
    async with runner_rig(postgres_server.superuser_url, model=model, tools=cities.tools()) as rig:
        report = await rig.run(request())

    assert (report.state, report.output) == (RunState.SUCCEEDED, "done")
    assert cities.seen == ["San Francisco"]
    assert "nothing was done" in model.requests[1].messages[-1]["content"].lower()
    assert results(model)[-1] == "sunny"


@pytest.mark.parametrize("arguments", MALFORMED.values(), ids=MALFORMED)
async def test_tj_4_malformed_arguments_of_a_deletion_are_never_dispatched_as_none(
    postgres_server: PostgresEndpoint, arguments: str
) -> None:
    cities = Cities()
    model = ScriptedTurns(calls(("delete", arguments)), says("I leave it"))
    asked = request()
    async with runner_rig(postgres_server.superuser_url, model=model, tools=cities.tools()) as rig:
        report = await rig.run(asked)

        assert await made(rig, asked.run_id) == [("model", "default", "done")]
        assert await rig.sql("SELECT key FROM effects") == []
    assert (report.state, cities.deleted) == (RunState.SUCCEEDED, [])


async def test_tj_4_sound_call_beside_a_malformed_one_is_not_made_either_until_both_can_be_read(
    postgres_server: PostgresEndpoint,
) -> None:
    cities = Cities()
    both = calls(("delete", '{"city": "Rome"}'), ("delete", '{"city": "Bonn"}'))
    model = ScriptedTurns(calls(("delete", '{"city": "Rome"}'), ("delete", CUT)), both, says("done"))
    async with runner_rig(postgres_server.superuser_url, model=model, tools=cities.tools()) as rig:
        report = await rig.run(request())

    assert (report.state, Counter(cities.deleted)) == (RunState.SUCCEEDED, {"Rome": 1, "Bonn": 1})


@pytest.mark.parametrize("name", ["whether", "delete everything!", "", "x" * 200], ids=repr)
async def test_tj_7_tool_that_the_model_made_up_is_an_error_for_it_and_the_session_lives_on(
    postgres_server: PostgresEndpoint, name: str
) -> None:
    cities = Cities()
    model = ScriptedTurns(calls((name, "{}")), says("sorry"), says("still here"))
    async with runner_rig(postgres_server.superuser_url, model=model, tools=cities.tools()) as rig:
        first = await rig.run(request(session_id="s-1"))
        told = results(model)
        second = await rig.run(request(session_id="s-1"))

    assert told == [f"error: there is no tool {name!r}; there are: delete, weather"]
    assert [first.output, second.output] == ["sorry", "still here"]
    read = model.requests[-1].messages
    [(call, answer)] = [(one, next_) for one, next_ in pairwise(read) if one.get("tool_calls")]
    assert answer["tool_call_id"] == call["tool_calls"][0]["id"]


async def test_tj_8_run_that_no_turn_could_be_read_of_fails_with_the_first_cause(
    postgres_server: PostgresEndpoint,
) -> None:
    cities = Cities()
    model = ScriptedTurns(calls(("weather", CUT)), says(""))
    asked, once = request(session_id="s-1"), DeliveryPolicy(attempts=1)
    async with runner_rig(
        postgres_server.superuser_url, model=model, tools=cities.tools(), policy=once
    ) as rig:
        report = await rig.run(asked)

        steps = await made(rig, asked.run_id)
        [[last]] = await rig.sql("SELECT body->>'content' FROM messages ORDER BY seq DESC LIMIT 1")
    first = "your call of `weather` was not made: the arguments are not JSON"
    assert (report.state, report.error_code) == (RunState.FAILED, "model_failed")
    assert report.error is not None
    assert first in report.error
    assert first in last
    assert (steps, cities.seen) == ([("model", "default", "failed")], [])


class Bells:
    """Receives strokes. Each ringer gives one and wants to go on."""

    def __init__(self, ringers: int) -> None:
        self.strokes: Counter[str] = Counter()
        self.at_rest: set[str] = set()
        self.all_ring, self.more = asyncio.Event(), asyncio.Event()
        self._ringers = ringers

    def tool(self, effect: Literal["none", "idempotent", "unsafe"]) -> Tool:
        key: Any = {"key": lambda given, _: (given["bell"],)} if effect == "idempotent" else {}

        @tool(effect=effect, timeout=600, **key)
        async def ring(bell: str) -> str:
            """Ring a bell."""
            try:
                for _ in range(10):
                    self.strokes[bell] += 1
                    if len(self.strokes) == self._ringers:
                        self.all_ring.set()
                    await self.more.wait()
            finally:
                self.at_rest.add(bell)
            return "rung"

        return ring


@pytest.mark.parametrize("effect", ["none", "idempotent", "unsafe"])
@pytest.mark.parametrize("by", ["the runner that has it", "another runner"])
async def test_st_13_cancel_stops_all_tools_of_a_turn_and_nothing_more_is_done(
    postgres_server: PostgresEndpoint,
    monkeypatch: pytest.MonkeyPatch,
    effect: Literal["none", "idempotent", "unsafe"],
    by: str,
) -> None:
    monkeypatch.setattr(leases, "LONGEST_BEAT", 0.02)
    bells = Bells(ringers=3)
    names = ("great", "middle", "small")
    model = ScriptedTurns(calls(*(("ring", json.dumps({"bell": name})) for name in names)), says("done"))
    asked = request()
    async with runner_rig(postgres_server.superuser_url, model=model, tools=[bells.tool(effect)]) as rig:
        holding = asyncio.create_task(rig.leases.keep())
        running = asyncio.create_task(rig.run(asked))
        await bells.all_ring.wait()

        await (rig if by == "the runner that has it" else replace(rig)).decide(asked, "cancel")
        report = await running
        bells.more.set()

        taken_again = await rig.take(asked)
        states = {state for kind, _, state in await made(rig, asked.run_id) if kind == "tool"}
        holding.cancel()
    assert (report.state, taken_again) == (RunState.CANCELLED, None)
    assert bells.at_rest == set(names)
    assert bells.strokes == dict.fromkeys(names, 1)
    assert (states, len(model.requests)) == ({"intent"}, 1)


@pytest.mark.parametrize(
    ("limits", "may_be_made", "sentence"),
    [
        (RunLimits(model_calls=4, tokens=1_000, seconds=900), 4, "made 4 model calls, and may make 4"),
        (RunLimits(model_calls=25, tokens=5, seconds=900), 3, "used 6 tokens, and may use 5"),
    ],
    ids=["calls", "tokens"],
)
async def test_ceiling_holds_for_a_run_that_dies_at_every_turn(
    postgres_server: PostgresEndpoint,
    monkeypatch: pytest.MonkeyPatch,
    limits: RunLimits,
    may_be_made: int,
    sentence: str,
) -> None:
    model, cities, asked = ScriptedTurns(*[calls(("weather", WHOLE))] * 30), Cities(), request()
    async with runner_rig(
        postgres_server.superuser_url, model=model, tools=cities.tools(), limits=limits
    ) as rig:
        for _ in range(may_be_made - 1):
            crash_at(monkeypatch, "runner.model.before", 2)
            await rig.another().crashes(asked)
        report = await rig.another().run(asked)

        finished = [kind for kind, _, state in await made(rig, asked.run_id) if state == "done"]
    assert (report.state, report.error_code) == (RunState.FAILED, "limit_reached")
    assert report.error is not None
    assert sentence in report.error
    assert (len(model.requests), finished) == (may_be_made, ["model", "tool"] * may_be_made)
