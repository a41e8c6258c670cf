"""Decisions about a run from outside of it: end it, allow or refuse what it asks, say what happened, go on."""

import logging
from typing import Any, assert_never

from pydantic import ValidationError

from headrace.common.clock import Clock
from headrace.common.db import Transaction
from headrace.contracts.runs import (
    EVENTS_PER_ATTEMPT,
    LAST_EVENT,
    Decision,
    RunControl,
    RunEvent,
    RunFinished,
    RunState,
)
from headrace.runner import closing
from headrace.runner.leases import Leases
from headrace.runner.repository import effects, runs, sessions
from headrace.runner.repository import journal as steps_of
from headrace.runner.steps import Place, Step, ToolResult

log = logging.getLogger(__name__)

RESUMABLE = frozenset({RunState.FAILED, RunState.CANCELLED})
SKIPPED = "a person left this call as it was; it is not known whether it was done, so do not rely on it"
HAPPENED = "done; a person saw that it happened"


class Control:
    """Carries out decisions. Each is one transaction over the locked run, so that a second one finds the first."""

    def __init__(self, leases: Leases, clock: Clock) -> None:
        self._leases, self._clock = leases, clock

    async def obey(self, command: RunControl, tx: Transaction) -> None:
        """Carry out a command; what no longer applies changes nothing.

        Raises:
            NotRecordedYet: The account has no such run, or its record is still on the way.
        """
        row = await runs.locked(tx.connection, command.account_id, command.run_id)
        match command.verb:
            case "cancel":
                end = RunFinished(state="cancelled", error_code="cancelled", error="the run was cancelled")
                await self.end(row, end, tx)
            case "refuse":
                end = RunFinished(state="refused", error_code=command.code, error=command.reason)
                await self.end(row, end, tx)
            case "approve" | "resolve":
                await self._decide(row, command, tx)
            case "resume":
                if RunState(row.state) in RESUMABLE:
                    await runs.go_on(tx.connection, row.run_id)
                    await self._note(row, command, Decision(path="", seq=0, choice="again"), tx)
            case _:
                assert_never(command.verb)

    async def end(self, row: Any, end: RunFinished, tx: Transaction) -> None:
        """End a locked run, whoever holds it, unless it has ended."""
        if RunState(row.state).is_final:
            return
        now = self._clock.now()
        steps = await steps_of.read(tx.connection, row.run_id) if row.epoch else []
        end = end.model_copy(update={"usage": closing.usage(steps)})
        epoch = await runs.end_locked(tx.connection, row, end, now=now)
        if row.epoch and row.session_id is not None:  # it began, so its session should know
            try:
                request = runs.request_of(row)
            except ValidationError:  # damaged: the run ends all the same
                log.exception("run.unreadable", extra={"run_id": row.run_id})
            else:
                await sessions.remember(tx.connection, request, closing.said(request, steps, end), now=now)
        seq = epoch * EVENTS_PER_ATTEMPT + LAST_EVENT
        await tx.send(RunEvent(run_id=row.run_id, account_id=row.account_id, seq=seq, at=now, news=end))
        self._leases.drop(row.run_id)

    async def _decide(self, row: Any, command: RunControl, tx: Transaction) -> None:
        known = {step.place: step for step in await steps_of.read(tx.connection, row.run_id)}
        for decision in command.decisions:
            step = known.get(Place(decision.path, decision.seq))
            if step is not None and await self._apply(row, step, decision, tx):
                await self._note(row, command, decision, tx)
        waits = RunState(row.state).is_waiting
        if waits and not await steps_of.is_anything_asked(tx.connection, row.run_id):
            await runs.go_on(tx.connection, row.run_id)

    async def _apply(self, row: Any, step: Step, decision: Decision, tx: Transaction) -> bool:
        """Carry out one decision; `False` where it is not, or no longer, asked for."""
        match decision.choice:
            case "approve" | "reject":
                if step.kind != "approval":
                    return False
                output = {"choice": decision.choice, "note": decision.note}
                return await steps_of.settle(
                    tx.connection, row, step.place, of="intent", to="done", output=output
                )
            case "happened":
                result = decision.result or HAPPENED
                return await self._resolve(row, step, ToolResult(result), "confirmed", tx, result=result)
            case "skip":
                told = ToolResult(f"error: {SKIPPED}", is_error=True)
                return await self._resolve(row, step, told, "skipped", tx)
            case "again":
                return await self._resolve(row, step, None, "failed", tx)
            case "undone":
                why = decision.note or "a person took it back"
                return step.effect_key is not None and await effects.undo(
                    tx.connection, row.account_id, step.effect_key, why=why
                )
            case _:
                assert_never(decision.choice)

    async def _resolve(
        self,
        row: Any,
        step: Step,
        told: ToolResult | None,
        state: Any,
        tx: Transaction,
        *,
        result: str | None = None,
    ) -> bool:
        """Settle a call that is in doubt, in the journal and in the ledger; what another run does right now is its own."""
        if step.effect_key is None:
            return False
        settled = await steps_of.settle(
            tx.connection,
            row,
            step.place,
            of="doubt",
            to="intent" if told is None else "done",
            output=None if told is None else told.as_output(),
        )
        entry = await effects.locked(tx.connection, row.account_id, step.effect_key) if settled else None
        if entry is not None and not (entry.is_held and entry.run_id != row.run_id):
            await effects.settle(tx.connection, entry, state, result=result, why="a person decided")
        return settled

    async def _note(self, row: Any, command: RunControl, decision: Decision, tx: Transaction) -> None:
        await steps_of.decided(
            tx.connection,
            {
                "command_id": command.command_id,
                "path": decision.path,
                "seq": decision.seq,
                "run_id": row.run_id,
                "choice": "resume" if command.verb == "resume" else decision.choice,
                "note": decision.note,
                "decided_by": command.by or "unknown",
                "decided_at": self._clock.now(),
            },
        )
        log.info("run.decided", extra={"run_id": row.run_id, "choice": decision.choice})
