"""Deeds of whole runs: an intent is done once, and again only where it is known that it may be."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from headrace.contracts.runs import Decision, RunState
from headrace.runner.steps import ROOT
from headrace.tools import CannotTell, DidNotHappen, Happened, Tool, ToolContext, ToolError, Verdict, tool
from tests.support.runner_rig import ScriptedTurns, calls, crash_at, request, runner_rig, says
from tests.support.servers import PostgresEndpoint


class Post:
    """A post office that counts letters, and knows them by what they are called there."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []
        self.looked_for: list[str] = []
        self.refuses: set[str] = set()
        self.is_open, self.domain = True, "mail"
        self.begun, self.goes_on = asyncio.Event(), asyncio.Event()
        self.goes_on.set()

    async def look(self, name: str, _: ToolContext) -> Verdict:
        self.looked_for.append(name)
        if not self.is_open:
            return CannotTell("the post office is closed")
        return Happened("sent") if name in {known for known, _ in self.sent} else DidNotHappen()

    def tools(self) -> list[Tool]:
        def purpose(given: Mapping[str, Any], _: ToolContext) -> tuple[str, str]:
            return given["to"], given["template"]

        @tool(
            effect="idempotent",
            key=purpose,
            provider_key=lambda key, _: f"<{key[:8]}@{self.domain}>",
            reconcile=self.look,
        )
        async def send(to: str, template: str, body: str, context: ToolContext) -> str:
            """Send a letter."""
            if to in self.refuses:
                self.refuses.remove(to)
                raise ToolError("the box is full; nothing was sent")
            self.begun.set()
            await self.goes_on.wait()
            self.sent.append((context.provider_key, f"{to} {template} {body}"))
            return "sent"

        @tool(
            effect="idempotent", key=purpose, undoes=lambda given, context: ("send", purpose(given, context))
        )
        async def recall(to: str, template: str) -> str:
            """Take a letter back."""
            return f"took back {template} to {to}"

        return [send, recall]


def letter(to: str, body: str = "hi", *, template: str = "greeting", name: str = "send") -> tuple[str, str]:
    given = {"to": to, "template": template}
    return name, json.dumps(given if name == "recall" else {**given, "body": body})


async def test_taken_back_letter_may_be_sent_again(postgres_server: PostgresEndpoint) -> None:
    post = Post()
    model = ScriptedTurns(
        calls(letter("ann", "first")),
        calls(letter("ann", "second")),
        calls(letter("ann", name="recall")),
        calls(letter("ann", "third")),
        says("done"),
    )
    async with runner_rig(postgres_server.superuser_url, model=model, tools=post.tools()) as rig:
        report = await rig.run(request())

    assert report.state is RunState.SUCCEEDED
    assert [text for _, text in post.sent] == ["ann greeting first", "ann greeting third"]


async def test_letter_that_a_person_says_was_taken_back_may_be_sent_again_by_a_replay(
    postgres_server: PostgresEndpoint,
) -> None:
    post, asked = Post(), request("first")
    model = ScriptedTurns(*[calls(letter("ann")), says("done")] * 3)
    async with runner_rig(postgres_server.superuser_url, model=model, tools=post.tools()) as rig:
        await rig.run(asked)
        await rig.run(request(replay_of="first", origin="first"))
        assert len(post.sent) == 1

        await rig.decide(asked, "resolve", Decision(path=ROOT, seq=2, choice="undone"))
        await rig.run(request(replay_of="first", origin="first"))

    assert len(post.sent) == 2


async def test_letter_that_was_seen_not_to_be_sent_is_sent_when_the_model_tries_again(
    postgres_server: PostgresEndpoint,
) -> None:
    post = Post()
    post.refuses = {"ann"}
    model = ScriptedTurns(calls(letter("ann")), calls(letter("ann")), calls(letter("ann")), says("done"))
    async with runner_rig(postgres_server.superuser_url, model=model, tools=post.tools()) as rig:
        await rig.run(request())

    told = [message["content"] for message in model.requests[-1].messages if message["role"] == "tool"]
    assert told == ["error: the box is full; nothing was sent", "sent", "sent"]
    assert len(post.sent) == 1


async def test_letter_that_a_person_left_in_doubt_is_in_doubt_for_the_next_run_and_then_found(
    postgres_server: PostgresEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    post, asked, replay = Post(), request("first"), request("again", replay_of="first", origin="first")
    post.is_open = False
    model = ScriptedTurns(*[calls(letter("ann")), says("done")] * 2)
    async with runner_rig(postgres_server.superuser_url, model=model, tools=post.tools()) as rig:
        crash_at(monkeypatch, "runner.act.after")
        await rig.crashes(asked)
        assert (await rig.run(asked)).state is RunState.WAITING_REVIEW
        await rig.decide(asked, "resolve", Decision(path=ROOT, seq=2, choice="skip"))
        assert (await rig.run(asked)).state is RunState.SUCCEEDED

        assert (await rig.run(replay)).state is RunState.WAITING_REVIEW
        post.is_open = True
        await rig.decide(replay, "resolve", Decision(path=ROOT, seq=2, choice="again"))

        assert (await rig.run(replay)).state is RunState.SUCCEEDED


async def test_one_event_sends_one_letter_for_each_declared_purpose_whatever_the_texts(
    postgres_server: PostgresEndpoint,
) -> None:
    post = Post()
    letters = [
        letter(to, f"{template} {n}", template=template)
        for n, (to, template) in enumerate([("a", "b"), ("a", "c"), ("b", "b"), ("a", "b"), ("a", "c")])
    ]
    model = ScriptedTurns(calls(*letters), says("done"))
    async with runner_rig(postgres_server.superuser_url, model=model, tools=post.tools()) as rig:
        await rig.run(request())

    assert sorted(text[:3] for _, text in post.sent) == ["a b", "a c", "b b"]
    assert len({name for name, _ in post.sent}) == 3


@pytest.mark.parametrize("point", ["runner.act.before", "runner.act.after"])
async def test_letter_is_looked_for_under_the_name_that_the_provider_was_told_although_it_would_be_another_now(
    postgres_server: PostgresEndpoint, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    post, asked = Post(), request()
    model = ScriptedTurns(calls(letter("ann")), says("done"))
    async with runner_rig(postgres_server.superuser_url, model=model, tools=post.tools()) as rig:
        crash_at(monkeypatch, point)
        await rig.crashes(asked)
        post.domain = "mail-that-moved"

        report = await rig.run(asked)

    assert report.state is RunState.SUCCEEDED
    ((name, _),) = post.sent
    assert post.looked_for == [name]
    assert name.endswith("@mail>")


@pytest.mark.parametrize("choice", ["again", "happened", "skip"])
async def test_decision_about_one_run_leaves_alone_what_another_run_is_doing_with_the_same_intent(
    postgres_server: PostgresEndpoint, monkeypatch: pytest.MonkeyPatch, choice: Any
) -> None:
    post, asked = Post(), request("first")
    post.is_open = False
    model = ScriptedTurns(*[calls(letter("ann"))] * 2, *[says("done")] * 2)
    async with runner_rig(postgres_server.superuser_url, model=model, tools=post.tools()) as rig:
        crash_at(monkeypatch, "runner.act.before")
        await rig.crashes(asked)
        assert (await rig.run(asked)).state is RunState.WAITING_REVIEW
        post.is_open = True
        post.goes_on.clear()
        acting = asyncio.create_task(rig.run(request("second", origin="first")))
        await post.begun.wait()

        await rig.decide(asked, "resolve", Decision(path=ROOT, seq=2, choice=choice))
        post.goes_on.set()

        assert (await acting).state is RunState.SUCCEEDED
        assert (await rig.run(asked)).state is RunState.SUCCEEDED
        assert len(post.sent) == 1
        assert await rig.sql("SELECT state, run_id FROM effects") == [("confirmed", "second")]


@pytest.mark.parametrize("broken", ["key", "provider_key"])
async def test_deed_that_its_tool_cannot_name_is_not_done_and_the_run_goes_on(
    postgres_server: PostgresEndpoint, broken: str
) -> None:
    sent: list[str] = []
    names: dict[str, Any] = {"key": lambda given, _: given["to"], "provider_key": lambda key, _: key}

    @tool(effect="idempotent", reconcile="call_again", **names | {broken: lambda *_: 1 // 0})
    async def send(to: str) -> str:
        """Send a letter."""
        sent.append(to)
        return "sent"

    model = ScriptedTurns(calls(("send", '{"to": "ann"}')), says("done"))
    async with runner_rig(postgres_server.superuser_url, model=model, tools=[send]) as rig:
        report = await rig.run(request())

    assert report.state is RunState.SUCCEEDED
    assert sent == []
    assert (
        "send cannot name what it would do (ZeroDivisionError" in model.requests[-1].messages[-1]["content"]
    )
