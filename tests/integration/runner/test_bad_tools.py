"""Tools that hang, break, flood, lie and fork: the run ends with what is true, and the journal stays small."""

import asyncio
import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from headrace.contracts.journal import StepReport
from headrace.contracts.run_questions import RunReport
from headrace.contracts.runs import RunState
from headrace.tools import (
    CannotTell,
    DidNotHappen,
    Effect,
    Happened,
    Tool,
    ToolContext,
    ToolError,
    Verdict,
    forbid_fork,
    tool,
)
from tests.support.runner_rig import Rig, ScriptedTurns, calls, request, runner_rig, says
from tests.support.servers import PostgresEndpoint

Kind = Literal["async", "sync"]
KINDS: tuple[Kind, ...] = ("async", "sync")
EFFECTS: tuple[Effect, ...] = ("none", "idempotent", "unsafe")
ACTING: tuple[Effect, ...] = ("idempotent", "unsafe")
LATE = "the tool `bad`: it did not end within 0.05 seconds"


def bad(kind: Kind, effect: Effect, act: Callable[[], Any], **options: Any) -> Tool:
    """A tool that does something bad, on the loop or in a thread."""

    async def on_the_loop() -> Any:
        """Do it."""
        return act()

    def in_a_thread() -> Any:
        """Do it."""
        return act()

    function: Callable[[], Any] = on_the_loop if kind == "async" else in_a_thread
    return declared(function, effect, **options)


def declared(function: Callable[[], Any], effect: Effect, **options: Any) -> Tool:
    if effect == "idempotent":
        options["key"] = lambda *_: ("once",)
    return tool(function, name="bad", effect=effect, **options)


def hanging(kind: Kind, effect: Effect, released: threading.Event, **options: Any) -> Tool:
    """A tool that does not come back while it is waited for."""

    async def forever() -> None:
        """Hang."""
        await asyncio.Event().wait()

    def blocked() -> None:
        """Hang."""
        released.wait()

    function: Callable[[], Any] = forever if kind == "async" else blocked
    return declared(function, effect, timeout=0.05, **options)


def raising(error: BaseException) -> Callable[[], Any]:
    def act() -> None:
        raise error

    return act


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """Lets threads go when the test is over."""
    event = threading.Event()
    yield event
    event.set()


@dataclass(frozen=True)
class Use:
    """A run that used the tool `bad` once, and what that left."""

    rig: Rig
    report: RunReport
    call: StepReport
    told: list[str]
    """What the model read of its tools."""

    @property
    def effect(self) -> str | None:
        """Where the ledger has it."""
        return None if self.call.effect is None else self.call.effect.state


@asynccontextmanager
async def used(postgres: PostgresEndpoint, made: Tool) -> AsyncIterator[Use]:
    """Let a run use a tool."""
    model, asked = ScriptedTurns(calls(("bad", "{}")), says("done")), request()
    async with runner_rig(postgres.superuser_url, model=model, tools=[made]) as rig:
        report = await rig.run(asked)
        [call] = [step for step in (await rig.journal(asked.run_id)).steps if step.kind == "tool"]
        yield Use(rig, report, call, results(model))


def results(model: ScriptedTurns) -> list[str]:
    return [each["content"] for each in model.requests[-1].messages if each["role"] == "tool"]


def assert_told(use: Use, text: str, effect: str | None, *, is_error: bool) -> None:
    """The run came to its end, the model read this, and journal and ledger have it so."""
    assert (use.report.state, use.report.output) == (RunState.SUCCEEDED, "done")
    assert use.told == [text]
    assert (use.call.state, use.call.output) == ("done", {"text": text, "is_error": is_error})
    assert use.effect == effect


async def assert_doubted(use: Use, why: str) -> None:
    """The run waits for a person, who is told why; the model was told nothing."""
    assert (use.report.state, use.told) == (RunState.WAITING_REVIEW, [])
    assert (use.call.state, use.effect) == ("doubt", "intent")
    [ask] = (await use.rig.journal(use.report.run_id)).waiting
    assert (ask.tool, ask.choices) == ("bad", ("happened", "again", "skip"))
    assert why in ask.why


@pytest.mark.parametrize("kind", KINDS)
async def test_hanging_tool_that_cannot_act_is_an_error_for_the_model(
    postgres_server: PostgresEndpoint, released: threading.Event, kind: Kind
) -> None:
    async with used(postgres_server, hanging(kind, "none", released)) as use:
        assert_told(use, f"error: {LATE}", None, is_error=True)


@pytest.mark.parametrize("effect", ACTING)
@pytest.mark.parametrize("kind", KINDS)
async def test_hanging_tool_that_may_still_act_is_a_doubt_for_a_person(
    postgres_server: PostgresEndpoint, released: threading.Event, kind: Kind, effect: Effect
) -> None:
    async with used(postgres_server, hanging(kind, effect, released)) as use:
        await assert_doubted(use, f"{LATE}, and may still act")


@pytest.mark.parametrize(
    ("verdict", "text", "effect"),
    [
        (Happened("sent at noon"), "sent at noon", "confirmed"),
        (DidNotHappen(), f"error: {LATE}, and may still act", "failed"),
    ],
)
async def test_hanging_tool_that_can_be_looked_up_is_answered_with_what_was_found(
    postgres_server: PostgresEndpoint,
    released: threading.Event,
    verdict: Verdict,
    text: str,
    effect: str,
) -> None:
    async def look(_key: str, _context: ToolContext) -> Verdict:
        return verdict

    async with used(postgres_server, hanging("sync", "idempotent", released, reconcile=look)) as use:
        assert_told(use, text, effect, is_error=isinstance(verdict, DidNotHappen))


@pytest.mark.parametrize("found", [CannotTell("the post office is closed"), RuntimeError("no route")])
async def test_hanging_tool_whose_look_up_does_not_help_is_a_doubt_with_both_reasons(
    postgres_server: PostgresEndpoint, released: threading.Event, found: CannotTell | RuntimeError
) -> None:
    async def look(_key: str, _context: ToolContext) -> Verdict:
        if isinstance(found, RuntimeError):
            raise found
        return found

    async with used(postgres_server, hanging("async", "idempotent", released, reconcile=look)) as use:
        await assert_doubted(use, LATE)
        await assert_doubted(use, found.why if isinstance(found, CannotTell) else "RuntimeError: no route")


@pytest.mark.parametrize("error", [RuntimeError("boom"), SystemExit("boom")], ids=["error", "exit"])
@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("kind", KINDS)
async def test_raising_tool_is_an_error_where_it_cannot_act_and_else_a_doubt(
    postgres_server: PostgresEndpoint, kind: Kind, effect: Effect, error: BaseException
) -> None:
    sentence = f"{type(error).__name__}: boom"
    async with used(postgres_server, bad(kind, effect, raising(error))) as use:
        if effect == "none":
            assert_told(use, f"error: {sentence}", None, is_error=True)
        else:
            await assert_doubted(use, sentence)


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("kind", KINDS)
async def test_tool_that_says_that_nothing_was_done_is_an_error_whatever_its_effect(
    postgres_server: PostgresEndpoint, kind: Kind, effect: Effect
) -> None:
    async with used(postgres_server, bad(kind, effect, raising(ToolError("closed")))) as use:
        assert_told(use, "error: closed", None if effect == "none" else "failed", is_error=True)


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("kind", KINDS)
async def test_fifty_megabytes_are_cut_for_the_model_the_journal_and_the_ledger(
    postgres_server: PostgresEndpoint, kind: Kind, effect: Effect
) -> None:
    many = 50_000_000
    async with used(postgres_server, bad(kind, effect, lambda: "x" * many)) as use:
        [[stored]] = await use.rig.sql(
            "SELECT (SELECT sum(octet_length(steps::text)) FROM steps)"
            " + (SELECT coalesce(sum(octet_length(effects::text)), 0) FROM effects)"
        )
        cut = f"{'x' * 100_000}\n[cut: these are the first 100000 of {many} characters]"
        assert_told(use, cut, None if effect == "none" else "confirmed", is_error=False)
    assert stored < 250_000
    assert max(len(event.model_dump_json()) for event in use.rig.told.events) < 110_000


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("kind", KINDS)
async def test_value_that_is_not_json_is_an_error_where_nothing_was_done_and_else_done(
    postgres_server: PostgresEndpoint, kind: Kind, effect: Effect
) -> None:
    what = "the tool returned a value of type object, which is not JSON"
    async with used(postgres_server, bad(kind, effect, object)) as use:
        if effect == "none":
            assert_told(use, f"error: {what}", None, is_error=True)
        else:
            assert_told(use, f"done; {what}", "confirmed", is_error=False)


@pytest.mark.parametrize("effect", EFFECTS)
async def test_text_that_no_database_takes_is_mended(
    postgres_server: PostgresEndpoint, effect: Effect
) -> None:
    async with used(postgres_server, bad("async", effect, lambda: "a\0b\ud800")) as use:
        assert_told(use, "ab\ufffd", None if effect == "none" else "confirmed", is_error=False)


LIES = {
    "writes": ("write the file", lambda folder, _: (folder / "new").write_text("x")),
    "deletes": ("remove a file", lambda folder, _: (folder / "old").unlink()),
    "calls": ("reach the network", lambda _, port: socket.create_connection(("127.0.0.1", port))),
    "starts a program": ("start a process", lambda folder, _: os.system(f"touch {folder}/new")),
    "forks": ("start a process", lambda *_: os.fork()),
}


@pytest.mark.parametrize(("what", "lie"), LIES.values(), ids=LIES)
@pytest.mark.parametrize("kind", KINDS)
async def test_tool_that_says_it_cannot_act_and_tries_to_is_refused_and_the_run_goes_on(
    postgres_server: PostgresEndpoint, tmp_path: Path, kind: Kind, what: str, lie: Callable[[Path, int], Any]
) -> None:
    (tmp_path / "old").write_text("kept")
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        listener.setblocking(False)
        port = listener.getsockname()[1]
        async with used(postgres_server, bad(kind, "none", lambda: lie(tmp_path, port))) as use:
            assert (use.report.state, use.call.state, use.effect) == (RunState.SUCCEEDED, "done", None)
            [told] = use.told
        with pytest.raises(BlockingIOError):
            listener.accept()

    assert told.startswith("error: the tool `bad` declares no effect and tried to ")
    assert what in told
    assert names_in(tmp_path) == ["old"]


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def forked() -> str:
    child = os.fork()
    if child == 0:
        print("the copy goes on", flush=True)  # noqa: T201  (what must not be seen)
    return f"the copy ended with {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}"


async def run_that_forks(superuser_url: str) -> None:
    """In a process of its own, since a runner forbids forks for as long as it lives."""
    forbid_fork()
    async with used(PostgresEndpoint(superuser_url, {}), bad("sync", "unsafe", forked)) as use:
        print(use.report.state, use.told)  # noqa: T201  (read by the test)


def test_copy_that_a_tool_forks_ends_at_once_and_the_run_goes_on_alone(
    postgres_server: PostgresEndpoint,
) -> None:
    script = f"import asyncio; from {__name__} import run_that_forks as run; import sys; asyncio.run(run(sys.argv[1]))"

    ended = subprocess.run(
        [sys.executable, "-c", script, postgres_server.superuser_url],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )

    assert ended.stdout == "succeeded ['the copy ended with 70']\n"


async def test_tool_that_hangs_does_not_cost_the_others_of_its_turn_their_results(
    postgres_server: PostgresEndpoint, released: threading.Event
) -> None:
    @tool(effect="none")
    async def good() -> str:
        """Do well."""
        return "well"

    model, asked = ScriptedTurns(calls(("good", "{}"), ("bad", "{}"), ("good", "{}"))), request()
    tools = [good, hanging("async", "unsafe", released)]
    async with runner_rig(postgres_server.superuser_url, model=model, tools=tools) as rig:
        report = await rig.run(asked)

        ends = [(step.name, step.state) for step in (await rig.journal(asked.run_id)).steps[1:]]
    assert report.state is RunState.WAITING_REVIEW
    assert ends == [("good", "done"), ("bad", "doubt"), ("good", "done")]
