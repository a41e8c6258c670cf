"""Rows that this code cannot go on with: of another version, damaged, or about files that are gone. Each is said so."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from typing import Any

import nats
import pytest
import pytest_asyncio

from headrace.common import topology
from headrace.common.bus import Bus
from headrace.common.errors import Conflict
from headrace.common.files import Files
from headrace.common.rpc import Rpc, answers
from headrace.contracts.broker import inbox_prefix
from headrace.contracts.journal import PlanReplay, PlanResume, ResumePlan
from headrace.contracts.runs import InputFile, RunRequested, RunState
from headrace.contracts.streams import FILES
from headrace.runner import sweep
from headrace.runner.admissible import Admissible
from headrace.runner.errors import JournalMismatch
from headrace.runner.tools.read_file import read_file_tool
from headrace.tools import Tool, tool
from tests.support.eventually import eventually
from tests.support.runner_rig import Rig, ScriptedTurns, calls, crash_at, request, runner_rig, says
from tests.support.servers import NatsEndpoint, PostgresEndpoint

REPLAY = "replay the run instead"


class Post:
    """Counts letters."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def tool(self) -> Tool:
        @tool(effect="idempotent", key=lambda given, _: (str(given["to"]),))
        async def send(to: str) -> str:
            """Send a letter."""
            self.sent.append(to)
            return "sent"

        return send


LETTER = calls(("send", '{"to": "ann"}'))


@asynccontextmanager
async def bus_of(server: NatsEndpoint, service: str) -> AsyncIterator[Bus]:
    bus = Bus(server.url(service), service=service, drain_seconds=1)
    await bus.connect()
    try:
        yield bus
    finally:
        await bus.close()


@asynccontextmanager
async def broken_off(
    postgres: PostgresEndpoint, monkeypatch: pytest.MonkeyPatch, post: Post
) -> AsyncIterator[tuple[Rig, RunRequested]]:
    """A run that sent a letter, and whose runner died when the model was to hear of it."""
    asked = request()
    async with runner_rig(
        postgres.superuser_url, model=ScriptedTurns(LETTER, says("done")), tools=[post.tool()]
    ) as rig:
        crash_at(monkeypatch, "runner.model.before", 2)
        await rig.crashes(asked)
        yield rig, asked


async def refusal(rig: Rig, asked: RunRequested) -> str:
    """Why a run cannot be resumed: a conflict (409), in a sentence."""
    with pytest.raises(Conflict) as refused:
        await rig.answers.plan_resume(PlanResume(account_id="acme", run_id=asked.run_id))
    return refused.value.message


async def test_journal_of_another_version_ends_the_run_with_a_sentence_and_can_only_be_replayed(
    postgres_server: PostgresEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    post = Post()
    async with broken_off(postgres_server, monkeypatch, post) as (rig, asked):
        await rig.sql("UPDATE runs SET journal_version = 99")

        report = await rig.another().run(asked)

        sentence = await refusal(rig, asked)
        plan = await rig.answers.plan_replay(PlanReplay(account_id="acme", run_id=asked.run_id))
        await rig.decide(asked, "resume")
        again = await rig.another().run(asked)
    assert (report.state, report.error_code) == (RunState.FAILED, "journal_mismatch")
    assert report.error == "the run's journal has version 99, and this runner writes version 1; " + REPLAY
    assert sentence == "the run's journal has version 99, and this deployment writes version 1; " + REPLAY
    assert plan.allowed
    assert (again.state, again.error_code) == (RunState.FAILED, "journal_mismatch")
    assert post.sent == ["ann"]


TURN = {"text": "", "model": "m", "tool_calls": []}
DAMAGE: dict[str, tuple[str, str, object]] = {
    "turn: nothing": ("model", "output", {}),
    "turn: no object": ("model", "output", 5),
    "turn: text is a number": ("model", "output", {**TURN, "text": 5}),
    "turn: no text": ("model", "output", {**TURN, "text": None}),
    "turn: calls are a text": ("model", "output", {**TURN, "tool_calls": "send"}),
    "turn: call is too short": ("model", "output", {**TURN, "tool_calls": [["call_0", "send"]]}),
    "turn: call is of numbers": ("model", "output", {**TURN, "tool_calls": [[1, 2, 3]]}),
    "turn: tokens are a text": ("model", "tokens", "many"),
    "turn: tokens are texts": ("model", "tokens", {"input_tokens": "many"}),
    "result: nothing": ("tool", "output", {}),
    "result: a list": ("tool", "output", ["sent"]),
}


@pytest.mark.parametrize(("kind", "column", "value"), DAMAGE.values(), ids=DAMAGE)
async def test_damaged_step_ends_the_run_with_a_sentence_and_a_replay_knows_what_it_can_still_tell_apart(
    postgres_server: PostgresEndpoint,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    column: str,
    value: object,
) -> None:
    post = Post()
    async with broken_off(postgres_server, monkeypatch, post) as (rig, asked):
        where = f"kind = '{kind}' AND state = 'done'"
        await rig.sql(f"UPDATE steps SET {column} = '{json.dumps(value)}' WHERE {where}")

        report = await rig.another().run(asked)

        sentence = await refusal(rig, asked)
        plan = await rig.answers.plan_replay(PlanReplay(account_id="acme", run_id=asked.run_id))
        read = [step.kind for step in (await rig.journal(asked.run_id)).steps]
    assert (report.state, report.error_code) == (RunState.FAILED, "journal_mismatch")
    assert report.error is not None
    assert "damaged" in report.error
    assert report.error.endswith(REPLAY)
    assert report.error in sentence
    assert (plan.allowed, plan.tools) == ((True, ()) if kind == "tool" else (False, ("send",)))
    assert read[:2] == ["model", "tool"]
    assert post.sent == ["ann"]


async def test_refusal_by_a_name_that_only_the_runner_knows_is_a_conflict_for_who_asked(
    nats_server: NatsEndpoint,
) -> None:
    async def refuse(_: PlanResume) -> ResumePlan:
        raise JournalMismatch("the journal is damaged")

    async with bus_of(nats_server, "runner") as runner, bus_of(nats_server, "gateway") as gateway:
        await Rpc(runner).serve("runner", [answers(PlanResume, refuse)], description="Refuses.")
        await runner.check()  # the broker has heard of it

        with pytest.raises(Conflict, match="the journal is damaged"):
            await Rpc(gateway).ask(PlanResume(account_id="acme", run_id="r-1"))


WITHOUT_INPUT = {"run_id": "r", "door": "api", "lane": "interactive", "account_id": "acme"}
UNREADABLE: dict[str, object] = {
    "nothing": None,
    "a-list": [],
    "a-number": 5,
    "empty": {},
    "half": WITHOUT_INPUT,
    "unknown-door": {**request("r").model_dump(mode="json"), "door": "window"},
    "no-words": {**request("r").model_dump(mode="json"), "input": []},
}


async def test_runs_whose_stored_request_is_damaged_are_settled_and_the_others_go_on(
    postgres_server: PostgresEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "RECOVERY_SECONDS", 0.01)
    async with runner_rig(postgres_server.superuser_url, model=ScriptedTurns(says("done"))) as rig:
        for run_id in (*UNREADABLE, "sound"):
            assert await rig.take(request(run_id)) is not None
            await rig.expire(run_id)
        for run_id, stored in UNREADABLE.items():
            await rig.sql(f"UPDATE runs SET request = '{json.dumps(stored)}' WHERE run_id = '{run_id}'")

        async def sound_run_succeeded() -> None:
            assert (await rig.report("sound")).state is RunState.SUCCEEDED

        recovering = asyncio.create_task(rig.sweep.recover())
        await eventually(sound_run_succeeded)
        recovering.cancel()
        ends = [await rig.report(run_id) for run_id in UNREADABLE]
    assert {(end.state, end.error_code) for end in ends} == {(RunState.FAILED, "unreadable")}
    assert {end.error for end in ends} == {"the run's stored request is damaged"}


async def test_run_whose_stored_request_is_damaged_can_be_read_and_neither_resumed_nor_replayed(
    postgres_server: PostgresEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with broken_off(postgres_server, monkeypatch, Post()) as (rig, asked):
        await rig.decide(asked, "cancel")
        await rig.sql("UPDATE runs SET request = 'null'")

        sentence = await refusal(rig, asked)
        with pytest.raises(Conflict, match="damaged; ask for a new run instead"):
            await rig.answers.plan_replay(PlanReplay(account_id="acme", run_id=asked.run_id))

        assert (await rig.report(asked.run_id)).state is RunState.CANCELLED
        assert len((await rig.journal(asked.run_id)).steps) == 3
    assert sentence == "the run's stored request is damaged; ask for a new run instead"


@dataclass
class Store:
    """Contents of files, and an operator who takes them away."""

    files: Files
    operator: Any

    async def keep(self, data: bytes) -> InputFile:
        async def content() -> AsyncIterator[bytes]:
            yield data

        kept = await self.files.put(content(), max_bytes=len(data))
        return InputFile(sha256=kept.sha256, name="list.csv", media_type="text/csv", size=kept.size)

    async def lose(self, file: InputFile) -> None:
        await (await self.operator.jetstream().object_store(FILES)).delete(file.sha256)

    def looked_at_by(self, rig: Rig) -> Rig:
        """The same runner, which sees whether a run's files are there before it begins."""
        admissible = Admissible(self.files, {})

        class Looking(Rig):
            async def admissible(self, lease: Any, tx: Any) -> None:
                await admissible.check(lease, tx)

        return Looking(**{each.name: getattr(rig, each.name) for each in fields(rig)})


@pytest_asyncio.fixture
async def store(nats_server: NatsEndpoint) -> AsyncIterator[Store]:
    await topology.apply(nats_server.operator_url)
    operator = await nats.connect(nats_server.operator_url, inbox_prefix=inbox_prefix("operator"))
    async with bus_of(nats_server, "gateway") as bus:
        yield Store(Files(bus), operator)
    await operator.close()


@pytest.mark.parametrize("is_replay", [False, True], ids=["first time", "replay"])
async def test_run_whose_file_is_gone_does_not_begin_and_says_which(
    postgres_server: PostgresEndpoint, store: Store, *, is_replay: bool
) -> None:
    file = await store.keep(b"name,age\nann,7\n")
    model = ScriptedTurns(says("done"))
    async with runner_rig(postgres_server.superuser_url, model=model) as rig:
        await store.lose(file)

        asked = request(files=(file,), replay_of="an-earlier-one" if is_replay else None)
        report = await store.looked_at_by(rig).run(asked)
    assert (report.state, report.error_code) == (RunState.FAILED, "file_gone")
    assert report.error == "the file 'list.csv' of this run is no longer kept"
    assert model.requests == []


async def test_file_that_goes_while_a_run_is_under_way_is_an_error_for_the_model(
    postgres_server: PostgresEndpoint, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = await store.keep(b"name,age\nbob,9\n")
    asked = request(files=(file,))
    reading = calls(("read_file", '{"name": "list.csv"}'))
    model = ScriptedTurns(reading, reading, says("it is gone"))
    read_file = read_file_tool(store.files, lambda _: asked.files)
    async with runner_rig(postgres_server.superuser_url, model=model, tools=[read_file]) as rig:
        crash_at(monkeypatch, "runner.model.before", 2)
        await store.looked_at_by(rig).crashes(asked)
        await store.lose(file)

        report = await store.looked_at_by(rig).run(asked)
    told = [each["content"] for each in model.requests[-1].messages if each["role"] == "tool"]
    assert (report.state, report.output) == (RunState.SUCCEEDED, "it is gone")
    assert told[0] == "name,age\nbob,9\n"
    assert told[1].startswith("error: 'list.csv' cannot be read: ")
    assert told[1].endswith("is no longer stored; upload the same content again")
