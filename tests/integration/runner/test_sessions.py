"""What a run leaves in its session is whole, said once and readable, however the run ended and whatever broke."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from headrace.common.delivery import DeliveryPolicy
from headrace.contracts.runs import ChatMessage, Decision, RunRequested, RunState
from headrace.runner.errors import ModelFailed
from headrace.runner.model import ModelTurn
from headrace.tools import CannotTell, DidNotHappen, Happened, Tool, ToolContext, Verdict, tool
from tests.support.runner_rig import Rig, ScriptedTurns, calls, crash_at, request, runner_rig, says
from tests.support.servers import PostgresEndpoint

ONE_TRY = DeliveryPolicy(attempts=1)
CUT = ModelFailed("the stream broke")


class Post:
    """A post office that may know what it took."""

    def __init__(self) -> None:
        self.sent: Counter[str] = Counter()
        self.names: set[str] = set()
        self.can_tell = True
        self.then: Callable[[], None] = lambda: None

    async def look(self, name: str, _: ToolContext) -> Verdict:
        if not self.can_tell:
            return CannotTell("the post office is closed")
        return Happened("sent") if name in self.names else DidNotHappen()

    def send(self) -> Tool:
        @tool(effect="idempotent", key=lambda given, _: (str(given["to"]),), reconcile=self.look)
        async def send(to: str, context: ToolContext) -> str:
            """Send a letter."""
            self.sent[to] += 1
            self.names.add(context.provider_key)
            self.then()
            return f"sent to {to}"

        return send


def letters(*names: str) -> ModelTurn:
    return calls(*(("send", json.dumps({"to": name})) for name in names))


def turn_of(session: str = "s-1", words: str = "hi", **changes: Any) -> RunRequested:
    said = (ChatMessage(role="user", content=words),)
    return request(session_id=session, input=said, **changes)


def shape(messages: Any) -> list[str]:
    """Messages in short, a call and its result by what names them."""
    return [
        ",".join([m["role"], *(c["id"] for c in m.get("tool_calls") or ())])
        if m["role"] != "tool"
        else f"tool {m['tool_call_id']}"
        for m in messages
    ]


async def stored(rig: Rig, session: str = "s-1") -> list[dict[str, Any]]:
    rows = await rig.sql(f"SELECT body FROM messages WHERE session_id = '{session}' ORDER BY seq")
    return [body for (body,) in rows]


async def read_by_the_next_turn(rig: Rig) -> list[dict[str, Any]]:
    """Say something else in the same session, and see what the model is given of it."""
    model = ScriptedTurns(says("and on"))
    report = await rig.another(model).run(turn_of(words="go on"))
    assert report.state is RunState.SUCCEEDED
    system, *messages, last = model.requests[0].messages
    assert (system["role"], last) == ("system", {"role": "user", "content": "go on"})
    return messages


@pytest.mark.parametrize("ends", [says("done"), CUT])
async def test_se_2_run_that_was_approved_leaves_the_call_and_its_result_or_neither(
    postgres_server: PostgresEndpoint, ends: ModelTurn | Exception
) -> None:
    post, asked = Post(), turn_of()
    model = ScriptedTurns(letters("ann"), ends)
    async with runner_rig(
        postgres_server.superuser_url, model=model, tools=[post.send()], approvals=("send",), policy=ONE_TRY
    ) as rig:
        await rig.run(asked)
        assert await stored(rig) == []
        (ask,) = (await rig.journal(asked.run_id)).waiting
        await rig.decide(asked, "approve", Decision(path=ask.path, seq=ask.seq, choice="approve"))

        await rig.run(asked)

        assert shape(model.requests[1].messages) == ["system", "user", "assistant,call_0", "tool call_0"]
        left = shape(await stored(rig))
        read = await read_by_the_next_turn(rig)
    assert left == shape(read) == ["user", "assistant,call_0", "tool call_0", "assistant"]
    assert read[2]["content"] == "sent to ann"


async def test_se_3_turn_that_failed_after_a_call_leaves_the_session_readable(
    postgres_server: PostgresEndpoint,
) -> None:
    model = ScriptedTurns(letters("ann", "bob"), CUT)
    async with runner_rig(
        postgres_server.superuser_url, model=model, tools=[Post().send()], policy=ONE_TRY
    ) as rig:
        assert (await rig.run(turn_of())).state is RunState.FAILED

        read = await read_by_the_next_turn(rig)

    assert shape(read) == ["user", "assistant,call_0,call_1", "tool call_0", "tool call_1", "assistant"]
    assert read[-1]["content"].startswith("[This turn ended without an answer: ")


@pytest.mark.parametrize(
    ("point", "told"),
    [
        ("runner.intent.before", "error: this call was not made"),
        ("runner.act.after", "error: it is not known whether this was done"),
    ],
)
async def test_se_3_turn_that_was_cancelled_amid_its_calls_says_of_each_what_became_of_it(
    postgres_server: PostgresEndpoint, monkeypatch: pytest.MonkeyPatch, point: str, told: str
) -> None:
    asked = turn_of()
    model = ScriptedTurns(letters("ann", "bob"))
    async with runner_rig(postgres_server.superuser_url, model=model, tools=[Post().send()]) as rig:
        crash_at(monkeypatch, point)
        await rig.crashes(asked)
        await rig.decide(asked, "cancel")

        read = await read_by_the_next_turn(rig)

    assert shape(read) == ["user", "assistant,call_0,call_1", "tool call_0", "tool call_1", "assistant"]
    assert read[2]["content"].startswith(told)
    assert read[3]["content"] == "sent to bob"


async def test_se_5_results_of_parallel_calls_stand_in_the_order_of_the_calls_whoever_is_first(
    postgres_server: PostgresEndpoint,
) -> None:
    ended: dict[str, asyncio.Event] = {name: asyncio.Event() for name in "abc"}
    order: list[str] = []

    @tool(effect="none")
    async def wait_for(name: str, before: str = "") -> str:
        """Wait until another call has ended."""
        if before:
            await ended[before].wait()
        order.append(name)
        ended[name].set()
        return name

    waits = [{"name": "a", "before": "b"}, {"name": "b", "before": "c"}, {"name": "c"}]
    model = ScriptedTurns(calls(*(("wait_for", json.dumps(each)) for each in waits)), says("done"))
    asked = turn_of()
    async with runner_rig(postgres_server.superuser_url, model=model, tools=[wait_for]) as rig:
        await rig.run(asked)

        written = [step.output for step in (await rig.journal(asked.run_id)).steps if step.kind == "tool"]
        read = await read_by_the_next_turn(rig)
    told = [(m["tool_call_id"], m["content"]) for m in model.requests[1].messages if m["role"] == "tool"]
    assert order == ["c", "b", "a"]
    assert told == [("call_0", "a"), ("call_1", "b"), ("call_2", "c")]
    assert [output and output["text"] for output in written] == ["a", "b", "c"]
    assert [(m["tool_call_id"], m["content"]) for m in read if m["role"] == "tool"] == told


async def test_se_7_run_that_is_tried_again_and_asked_for_again_says_the_users_words_once(
    postgres_server: PostgresEndpoint,
) -> None:
    asked = turn_of()
    model = ScriptedTurns(CUT, CUT, says("done"))
    async with runner_rig(postgres_server.superuser_url, model=model) as rig:
        for _ in range(3):
            await rig.run(asked)
            await rig.expire(asked.run_id)
        assert await rig.take(asked) is None

        left = await stored(rig)
    assert [(m["role"], m["content"]) for m in left] == [("user", "hi"), ("assistant", "done")]
    assert {tuple(shape(sent.messages)) for sent in model.requests} == {("system", "user")}


async def test_se_7_run_that_is_resumed_takes_the_place_of_what_it_left_and_other_turns_stay(
    postgres_server: PostgresEndpoint,
) -> None:
    asked, between = turn_of(), turn_of(words="meanwhile")
    model = ScriptedTurns(CUT, says("so"), says("done"))
    async with runner_rig(postgres_server.superuser_url, model=model, policy=ONE_TRY) as rig:
        await rig.run(asked)
        await rig.run(between)
        await rig.decide(asked, "resume")

        await rig.run(asked)

        said = [m["content"] for m in await stored(rig)]
    assert said == ["meanwhile", "so", "hi", "done"]
    assert shape(model.requests[2].messages) == ["system", "user"]


RUBBISH = {
    "no object": '"rubbish"',
    "no role": '{"content": "hi"}',
    "a role that there is not": '{"role": "wizard", "content": "hi"}',
    "arguments that are no JSON": """{"role": "assistant", "content": null, "tool_calls": [
        {"id": "call_0", "type": "function", "function": {"name": "send", "arguments": "{\\"to"}}]}""",
    "a result without its call": '{"role": "tool", "tool_call_id": "call_of_nobody", "content": "sent"}',
}


@pytest.mark.parametrize("rubbish", RUBBISH.values(), ids=RUBBISH)
async def test_message_that_was_damaged_is_left_out_and_the_next_turn_answers(
    postgres_server: PostgresEndpoint, rubbish: str
) -> None:
    model = ScriptedTurns(letters("ann"), says("done"))
    async with runner_rig(postgres_server.superuser_url, model=model, tools=[Post().send()]) as rig:
        await rig.run(turn_of())
        await rig.sql(
            f"UPDATE messages SET body = '{rubbish}' WHERE body->>'role' = 'assistant'".replace(":", "\\:")
        )

        read = await read_by_the_next_turn(rig)
        left = await stored(rig)

    assert read == [{"role": "user", "content": "hi"}]
    assert left[1] == left[3] == json.loads(rubbish)


async def test_result_that_was_damaged_is_said_to_be_lost_and_its_call_stays(
    postgres_server: PostgresEndpoint,
) -> None:
    model = ScriptedTurns(letters("ann", "bob"), says("done"))
    async with runner_rig(postgres_server.superuser_url, model=model, tools=[Post().send()]) as rig:
        await rig.run(turn_of())
        await rig.sql("UPDATE messages SET body = 'null' WHERE place = 3")

        read = await read_by_the_next_turn(rig)

    assert shape(read) == ["user", "assistant,call_0,call_1", "tool call_0", "tool call_1", "assistant"]
    assert [m["content"] for m in read[2:4]] == ["error: the result of this call was lost", "sent to bob"]
