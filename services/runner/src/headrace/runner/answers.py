"""What the runner answers about runs: where one stands, its journal, what it asks, and what could follow."""

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.common.agents import Agents
from headrace.common.clock import Clock
from headrace.common.db import Database
from headrace.common.rpc import Answer, answers
from headrace.contracts.journal import (
    Ask,
    DecisionReport,
    EffectReport,
    JournalPage,
    KnownTool,
    KnownTools,
    ListTools,
    PlanReplay,
    PlanResume,
    ReadJournal,
    ReplayPlan,
    ResumePlan,
    StepReport,
)
from headrace.contracts.run_questions import FindRun, RunReport
from headrace.runner import closing, history, plans
from headrace.runner.calls import asked_arguments
from headrace.runner.limits import RunLimits
from headrace.runner.repository import effects, runs, sessions
from headrace.runner.repository import journal as steps_of
from headrace.runner.repository.effects import Entry
from headrace.runner.steps import Step
from headrace.tools import Tool

PAGE_BYTES = 400_000
"""A part of a journal stays well below what a broker takes in one message."""


class RunAnswers:
    """Answers questions about runs.

    Args:
        db: The runner's schema.
        agents: Finds agents.
        tools: Every tool there is, by name.
        limits: A run's ceilings.
        clock: The time.
    """

    def __init__(
        self, db: Database, agents: Agents, tools: Mapping[str, Tool], limits: RunLimits, clock: Clock
    ) -> None:
        self._db, self._agents, self._tools, self._limits, self._clock = db, agents, tools, limits, clock

    def all(self) -> Sequence[Answer[Any, Any]]:
        """The verbs of the runner."""
        return (
            answers(FindRun, self.find),
            answers(ReadJournal, self.read_journal),
            answers(PlanResume, self.plan_resume),
            answers(PlanReplay, self.plan_replay),
            answers(ListTools, self.list_tools),
        )

    async def find(self, question: FindRun) -> RunReport:
        """Where a run stands."""
        async with self._db.transaction() as tx:
            return await runs.report(tx.connection, question.account_id, question.run_id)

    async def read_journal(self, question: ReadJournal) -> JournalPage:
        """A part of a run's journal."""
        async with self._db.transaction() as tx:
            await runs.find(tx.connection, question.account_id, question.run_id)
            steps = await steps_of.read(tx.connection, question.run_id)
            ledger = await self._ledger(tx.connection, question.account_id, steps)
            decisions = await steps_of.decisions_of(tx.connection, question.run_id)
        asked = asked_arguments(steps)
        page: list[StepReport] = []
        size = 0
        for step in steps[question.skip :]:
            report = _report(step, asked, ledger)
            size += len(report.model_dump_json())
            if page and size > PAGE_BYTES:
                break
            page.append(report)
        more = question.skip + len(page) < len(steps)
        if question.skip:
            return JournalPage(steps=tuple(page), more=more)
        return JournalPage(
            steps=tuple(page),
            decisions=tuple(_decision(row) for row in decisions),
            waiting=tuple(_asks(steps, asked, ledger)),
            more=more,
        )

    async def plan_resume(self, question: PlanResume) -> ResumePlan:
        """What resuming a run would do."""
        async with self._db.transaction() as tx:
            row = await runs.find(tx.connection, question.account_id, question.run_id)
            plans.refuse_to_resume(row)
            steps = await steps_of.read(tx.connection, question.run_id)
            earlier: list[Any] = []
            if row.session_id is not None:
                earlier = await sessions.history(
                    tx.connection, row.account_id, row.session_id, upto=row.history_upto or 0, but=row.run_id
                )
        agent = await self._agents.find(row.account_id, row.agent_id, row.agent_revision)
        return await plans.resume_plan(
            row,
            steps,
            agent,
            history.repaired(earlier),
            tools=self._tools,
            limits=self._limits,
            clock=self._clock,
        )

    async def plan_replay(self, question: PlanReplay) -> ReplayPlan:
        """Whether a run may be done again."""
        async with self._db.transaction() as tx:
            row = await runs.find(tx.connection, question.account_id, question.run_id)
            steps = await steps_of.read(tx.connection, question.run_id)
            ledger = await self._ledger(tx.connection, question.account_id, steps)
        return plans.replay_plan(row, steps, ledger, self._tools)

    async def list_tools(self, _: ListTools) -> KnownTools:
        """The tools of this deployment."""
        return KnownTools(
            tools=tuple(
                KnownTool(
                    name=tool.name,
                    description=tool.description,
                    effect=tool.effect,
                    approval=tool.approval,
                    parameters=tool.parameters,
                )
                for tool in self._tools.values()
            )
        )

    @staticmethod
    async def _ledger(connection: Any, account_id: str, steps: Sequence[Step]) -> dict[str, Entry]:
        keys = [step.effect_key for step in steps if step.effect_key is not None]
        return await effects.of_keys(connection, account_id, keys)


def _report(step: Step, asked: Mapping[str, str], ledger: Mapping[str, Entry]) -> StepReport:
    return StepReport(
        path=step.place.path,
        seq=step.place.seq,
        kind=step.kind,
        state=step.state,
        name=step.name,
        epoch=step.epoch,
        call_id=step.call_id,
        arguments=asked.get(str(step.place)),
        output=step.output if isinstance(step.output, dict | None) else {"damaged": step.output},
        tokens=None if step.tokens is None else closing.usage([step]),
        effect=_effect(step, ledger),
        started_at=step.started_at,
        finished_at=step.finished_at,
    )


def _effect(step: Step, ledger: Mapping[str, Entry]) -> EffectReport | None:
    entry = None if step.effect_key is None else ledger.get(step.effect_key)
    if entry is None:
        return None
    return EffectReport(
        key=entry.key,
        state=entry.state,
        provider_key=entry.provider_key,
        run_id=entry.run_id,
        result=entry.result,
        why=entry.why,
        begun_at=entry.begun_at,
        settled_at=entry.settled_at,
    )


def _asks(steps: Sequence[Step], asked: Mapping[str, str], ledger: Mapping[str, Entry]) -> list[Ask]:
    """What a person is asked: calls to be approved, and calls that perhaps acted."""
    found: list[Ask] = []
    for step in steps:
        if step.kind == "approval" and step.state == "intent":
            why = f"the agent wants to call {step.name}"
            choices: tuple[str, ...] = ("approve", "reject")
        elif step.state == "doubt":
            why = step.why or "it is not known"
            choices = ("happened", "again", "skip")
        else:
            continue
        found.append(
            Ask(
                path=step.place.path,
                seq=step.place.seq,
                call_id=step.call_id or "",
                tool=step.name,
                arguments=asked.get(step.place.path.removesuffix(":approval"))
                or asked.get(str(step.place), ""),
                why=why,
                choices=choices,
                effect=_effect(step, ledger),
                expires_at=step.expires_at,
            )
        )
    return found


def _decision(row: Any) -> DecisionReport:
    return DecisionReport(
        path=row.path,
        seq=row.seq,
        choice=row.choice,
        note=row.note,
        by=row.decided_by,
        decided_at=row.decided_at,
    )
