"""Whatever happens to runs, in whatever order: the world is acted on as often as is permitted, and what is settled stays."""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Literal, TypeVar, get_args

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from headrace.common import faults
from headrace.contracts.runs import ChatMessage, Decision, RunRequested, RunState
from headrace.runner.repository.runs import Lease
from tests.integration.runner.test_durable_run import POINTS
from tests.integration.runner.world import Gate, Mood, Script, Where, World
from tests.support.runner_rig import Crash, CrashAt, Rig, request, runner_rig
from tests.support.servers import PostgresEndpoint

T = TypeVar("T")
MOST_RUNS = 5
SCRIPTS = st.lists(st.lists(st.sampled_from("aab"), min_size=1, max_size=2), min_size=1, max_size=2)


@dataclass
class Sleeper:
    """A runner that stands still in a run, and the way to wake it."""

    lease: Lease
    where: Where
    gate: Gate
    task: "asyncio.Task[None]"


@dataclass
class Stage:
    """What all examples share: a loop, a runner, and the crash that is to come."""

    loop: asyncio.AbstractEventLoop
    rig: Rig
    world: World
    crash: CrashAt
    examples: int = 0

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)


@dataclass
class Ledgered:
    """What is known of the world's letters, by key: how often each may be sent, and what people said of it."""

    permitted: Counter[str] = field(default_factory=Counter)
    vouched: set[str] = field(default_factory=set)
    reopened: set[str] = field(default_factory=set)


class RunnerMachine(RuleBasedStateMachine):
    """Runs that crash, stall, come twice, are replayed, decided on, undone, cancelled and resumed."""

    runs = Bundle("runs")

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        stage.examples += 1
        self.stage, self.rig, self.world = stage, stage.rig, stage.world
        self.asked: dict[str, RunRequested] = {}
        self.sleepers: dict[str, Sleeper] = {}
        self.parked: set[str] = set()
        self.known = Ledgered()
        self.settled: dict[tuple[Any, ...], Any] = {}
        self.world.can_tell, self.world.mood = True, "fine"
        self.world.acts.clear()

    def _made(self, script: Script, **changes: Any) -> str:
        run_id = f"e{self.stage.examples}-{len(self.asked)}"
        self.world.scripts[run_id] = script
        said = ChatMessage(role="user", content=run_id)
        self.asked[run_id] = request(run_id, input=(said,), **changes)
        return run_id

    def _replayed(self, of: str, script: Script) -> str:
        return self._made(script, replay_of=of, origin=self.asked[of].intent, forced_by="ann")

    @precondition(lambda self: len(self.asked) < MOST_RUNS)
    @rule(target=runs, script=SCRIPTS)
    def ask(self, script: Script) -> str:
        return self._made(script)

    @precondition(lambda self: len(self.asked) < MOST_RUNS)
    @rule(target=runs, of=runs, script=SCRIPTS)
    def replay(self, of: str, script: Script) -> str:
        return self._replayed(of, script)

    @rule(
        run=runs,
        point=st.just("") | st.sampled_from(POINTS),
        nth=st.integers(1, 2),
        mood=st.just("fine") | st.sampled_from(get_args(Mood)),
    )
    def go_on(self, run: str, point: str, nth: int, mood: Mood) -> None:
        self.world.mood = mood
        self.stage.crash.name, self.stage.crash.left = point, nth
        self.stage.wait(self._go_on(run))
        self.stage.crash.name, self.world.mood = "", "fine"

    @precondition(lambda self: not self.sleepers)
    @rule(run=runs, where=st.sampled_from(get_args(Where)))
    def stand_still(self, run: str, where: Where) -> None:
        self.stage.wait(self._stand_still(run, where))

    @precondition(lambda self: self.sleepers and len(self.asked) < MOST_RUNS)
    @rule(target=runs)
    def come_in_between(self) -> str:
        (run,) = self.sleepers
        other = self._replayed(run, self.world.scripts[run])
        self.stage.wait(self._go_on(other))
        return other

    @precondition(lambda self: self.sleepers)
    @rule(verb=st.sampled_from(["go on", "go on", "cancel"]))
    def make_a_zombie(self, verb: str) -> None:
        for run in self.sleepers:
            if verb == "cancel":
                self.steer(run, verb)
            else:
                self.stage.wait(self._go_on(run))

    @precondition(lambda self: self.sleepers)
    @rule()
    def wake(self) -> None:
        self.stage.wait(self._wake(self.sleepers.popitem()[1]))

    @initialize(can_tell=st.booleans())
    def begin(self, can_tell: bool) -> None:  # noqa: FBT001  (a rule's argument)
        self.world.can_tell = can_tell

    @rule(can_tell=st.booleans())
    def tell(self, can_tell: bool) -> None:  # noqa: FBT001  (a rule's argument)
        self.world.can_tell = can_tell

    @precondition(lambda self: self.parked)
    @rule(choice=st.sampled_from(["happened", "again", "skip"]))
    def decide(self, choice: Literal["happened", "again", "skip"]) -> None:
        self.stage.wait(self._decide(min(self.parked), choice))

    @rule(run=runs)
    def undo(self, run: str) -> None:
        self.stage.wait(self._undo(run))

    @rule(run=runs, verb=st.sampled_from(["cancel", "resume"]))
    def steer(self, run: str, verb: str) -> None:
        if self.stage.wait(self._state(run)) is not None and not self._is_about_to_act(run):
            self.stage.wait(self.rig.another().decide(self.asked[run], verb))

    @invariant()
    def no_letter_is_sent_more_often_than_is_permitted(self) -> None:
        sent = {key: acts for key, acts in self.world.acts.items() if acts > 1}
        assert {k: n for k, n in sent.items() if n > max(self.known.permitted[k], 1)} == {}

    @invariant()
    def what_is_confirmed_was_done_or_a_person_said_so(self) -> None:
        confirmed = self.stage.wait(self._rows("effects", "key", "state = 'confirmed'"))
        assert {key for (key,) in confirmed if not self.world.acts[key]} <= self.known.vouched

    @invariant()
    def what_is_settled_in_a_journal_stays_as_it_is(self) -> None:
        rows = self.stage.wait(self._rows("steps", "run_id, path, seq, epoch, output", "state = 'done'"))
        now = {tuple(row[:3]): tuple(row[3:]) for row in rows}
        assert {place: now.get(place) for place in self.settled} == self.settled
        self.settled = now

    def teardown(self) -> None:
        self.world.can_tell = True
        for sleeper in self.sleepers.values():
            self.stage.wait(self._wake(sleeper))
        self.sleepers.clear()
        for run in self.asked:
            self.stage.wait(self._end(run))
        self.no_letter_is_sent_more_often_than_is_permitted()
        self.what_is_settled_in_a_journal_stays_as_it_is()

    async def _rows(self, table: str, columns: str, where: str) -> Sequence[Any]:
        own = f"run_id LIKE 'e{self.stage.examples}-%'"
        return sorted(await self.rig.sql(f"SELECT {columns} FROM {table} WHERE {where} AND {own}"), key=str)

    async def _state(self, run: str) -> RunState | None:
        rows = await self.rig.sql(f"SELECT state FROM runs WHERE run_id = '{run}'")
        return RunState(rows[0][0]) if rows else None

    def _is_about_to_act(self, run: str) -> bool:
        """Its lease is renewed: who wakes before an act when it ran out would act, and nothing could prevent it."""
        return run in self.sleepers and self.sleepers[run].where == "before an act"

    async def _taken(self, rig: Rig, run: str) -> Lease | None:
        if self._is_about_to_act(run):
            return None
        if await self._state(run) is RunState.RUNNING:
            await rig.expire(run)
        return await rig.take(self.asked[run])

    async def _go_on(self, run: str) -> None:
        lease = await self._taken(self.rig, run)
        if lease is None:
            return
        try:
            await self.rig.attempts.make(lease, since=self.stage.loop.time())
        except Crash:
            return
        state = await self._state(run)
        if state is RunState.WAITING_REVIEW:
            self.parked.add(run)
        if state is RunState.SUCCEEDED:
            await self._see_every_deed_settled(run)

    async def _see_every_deed_settled(self, run: str) -> None:
        rows = await self.rig.sql(
            "SELECT steps.state, steps.output->'is_error', effect_key, effects.state FROM steps "
            f"JOIN effects ON key = effect_key WHERE steps.run_id = '{run}'"
        )
        assert {step for step, *_ in rows} <= {"done"}
        told = {(key, state) for _, is_error, key, state in rows if not is_error}
        assert {state for key, state in told if key not in self.known.reopened} <= {"confirmed"}

    async def _stand_still(self, run: str, where: Where) -> None:
        rig, gate = self.rig.another(), Gate()
        lease = await self._taken(rig, run)
        if lease is None:
            return
        self.world.gates[where] = gate
        task = asyncio.create_task(rig.attempts.make(lease, since=self.stage.loop.time()))
        reached = asyncio.create_task(gate.reached.wait())
        await asyncio.wait({task, reached}, return_when=asyncio.FIRST_COMPLETED)
        self.world.gates.clear()
        if not reached.cancel():
            self.sleepers[run] = Sleeper(lease, where, gate, task)
        else:
            await task

    async def _wake(self, sleeper: Sleeper) -> None:
        lease = sleeper.lease
        holds = f"run_id = '{lease.run_id}' AND state = 'running' AND epoch = {lease.epoch}"
        is_zombie = not await self.rig.sql(f"SELECT 1 FROM runs WHERE {holds}")
        before = await self._tables()
        sleeper.gate.opened.set()
        await sleeper.task
        if is_zombie:
            assert await self._tables() == before

    async def _tables(self) -> list[Sequence[Any]]:
        return [await self._rows(name, "*", "true") for name in ("runs", "steps", "effects")]

    async def _decide(self, run: str, choice: Literal["happened", "again", "skip"]) -> None:
        self.parked.discard(run)
        if await self._state(run) is not RunState.WAITING_REVIEW:
            return
        ask = (await self.rig.journal(run)).waiting[0]
        assert ask.effect is not None
        key = ask.effect.key
        match choice:
            case "happened":
                self.known.vouched.add(key)
            case "again":
                self._reopen(key)
            case "skip":
                self.known.reopened.add(key)
        decision = Decision(path=ask.path, seq=ask.seq, choice=choice)
        await self.rig.another().decide(self.asked[run], "resolve", decision)
        if await self._state(run) is RunState.WAITING_REVIEW:
            self.parked.add(run)

    def _reopen(self, key: str) -> None:
        self.known.reopened.add(key)
        self.known.permitted[key] = self.world.acts[key] + 1

    async def _undo(self, run: str) -> None:
        done = await self.rig.sql(
            "SELECT steps.path, steps.seq, key FROM steps JOIN effects ON key = effect_key "
            f"WHERE steps.run_id = '{run}' AND effects.state = 'confirmed' ORDER BY 1, 2 LIMIT 1"
        )
        for path, seq, key in done:
            self._reopen(key)
            decision = Decision(path=path, seq=seq, choice="undone")
            await self.rig.another().decide(self.asked[run], "resolve", decision)

    async def _end(self, run: str) -> None:
        """Everything ends, when the world is well and a person answers."""
        for _ in range(20):
            state = await self._state(run)
            if state is not None and state.is_final:
                return
            if state is RunState.WAITING_REVIEW:
                await self._decide(run, "skip")
            else:
                await self._go_on(run)
        raise AssertionError(f"{run} does not end; it is {await self._state(run)}")


def explored(postgres: PostgresEndpoint, **how: Any) -> None:
    """Let the machine run, on one loop and one database."""

    async def staged(stack: AsyncExitStack, world: World) -> Rig:
        made = runner_rig(postgres.superuser_url, model=world, tools=[world.send()], lease=timedelta(hours=1))
        return await stack.enter_async_context(made)

    with asyncio.Runner() as loop, pytest.MonkeyPatch.context() as patch:
        stack, world, crash = AsyncExitStack(), World(), CrashAt("", 0)
        rig = loop.run(staged(stack, world))
        patch.setattr(faults, "_drill", "a drill")
        patch.setattr(faults, "_pass", crash)
        stage = Stage(loop.get_loop(), rig, world, crash)
        try:
            machine: Any = partial(RunnerMachine, stage)
            run_state_machine_as_test(
                machine,
                settings=settings(
                    deadline=None, database=None, suppress_health_check=list(HealthCheck), **how
                ),
            )
        finally:
            loop.run(stack.aclose())


def test_runs_act_once_for_each_intent_whatever_happens_to_them(postgres_server: PostgresEndpoint) -> None:
    explored(postgres_server, max_examples=110, stateful_step_count=40, derandomize=True)
