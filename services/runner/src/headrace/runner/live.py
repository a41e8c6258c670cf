"""Live steps: those that are finished are read back, the others are made, told and written."""

import asyncio
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from headrace.common.clock import Clock
from headrace.common.faults import point
from headrace.contracts.agents import AgentRevision
from headrace.contracts.runs import EVENTS_PER_ATTEMPT, TokenCount, ToolCalled, ToolReturned
from headrace.contracts.usage import UsageRecorded
from headrace.runner.calls import AT_ONCE, Call, ToolCalls, understood
from headrace.runner.deeds import Doubt
from headrace.runner.errors import ModelFailed
from headrace.runner.journal import Journal
from headrace.runner.model import Model, ModelRequest, ModelTurn
from headrace.runner.parking import Approvals, Parked
from headrace.runner.steps import Place, Step, ToolResult
from headrace.runner.teller import Teller
from headrace.tools import Tool

LOST_CALL = 900_000
"""Numbers the ledger rows of calls that a killed runner had begun: after all that one taking can count."""


class LiveSteps:
    """Makes the steps of one run that is held.

    Args:
        journal: What is finished, and where the rest is written.
        model: Calls models.
        calls: Makes tool calls.
        agent: Who runs.
        teller: Told what happens.
        clock: The time.
        approval_time: How long a question for approval, and its answer, are good for.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        model: Model,
        calls: ToolCalls,
        agent: AgentRevision,
        teller: Teller,
        clock: Clock,
        approval_time: timedelta,
    ) -> None:
        self._journal, self._model, self._calls = journal, model, calls
        self._agent, self._teller, self._clock = agent, teller, clock
        self._approvals = Approvals(journal, agent, clock, good_for=approval_time)
        self._paid = 0

    async def model(self, place: Place, request: ModelRequest) -> ModelTurn:
        """A turn that can be used: from the journal, or else from the model."""
        if (done := self._journal.finished(place, "model")) is not None:
            return ModelTurn.of(done.output or {}, done.tokens)
        self._book_lost_call(place, request)
        step = Step(place=place, kind="model", name=request.model or "default", digest=_digest(request))
        await self._journal.write(step)
        point("runner.model.before")
        try:
            turn = await self._usable_turn(place, request)
        except Exception as error:
            self._journal.carry(step.failed(str(error)[:500]))
            raise
        point("runner.model.after")
        self._journal.carry(step.done(turn.as_output(), tokens=turn.tokens.model_dump()))
        return turn

    async def _usable_turn(self, place: Place, request: ModelRequest) -> ModelTurn:
        """Ask, and ask once again, saying why, where the turn cannot be used. What is unusable was paid for as well."""
        turn = await self._asked(place, request)
        if (flaw := turn.flaw) is None:
            return turn
        again = await self._asked(place, request if turn.is_empty else request.noting(flaw))
        if again.flaw is not None:
            raise ModelFailed(f"{turn.model} answered twice with what cannot be used; first: {flaw}")
        return replace(again, tokens=turn.tokens + again.tokens)

    async def _asked(self, place: Place, request: ModelRequest) -> ModelTurn:
        begun, name = time.monotonic(), request.model or "default"
        try:
            turn = await self._model.call(
                request, on_text=lambda piece: self._teller.text(piece, step=place.seq)
            )
        except asyncio.CancelledError:
            self._book_cut_call(place, request, name, epoch=self._journal.lease.epoch)
            raise
        except ModelFailed as error:
            if error.tokens is not None:
                self._book(place, name, error.tokens, seconds=time.monotonic() - begun)
            raise
        self._book(place, turn.model, turn.tokens, seconds=time.monotonic() - begun)
        return turn

    async def tools(
        self, places: Sequence[Place], turn: ModelTurn, tools: Mapping[str, Tool]
    ) -> Sequence[ToolResult]:
        """The results of all the calls of a turn; those that were not made before are made at the same time."""
        calls = [
            understood(place, asked, tools) for place, asked in zip(places, turn.tool_calls, strict=True)
        ]
        results = {call.place: self._result(call) for call in calls}
        missing = [call for call in calls if results[call.place] is None]
        if missing:
            allowed = await self._approvals.allowed(missing)
            await self._journal.write(
                *(call.step for call in allowed if self._journal.find(call.place) is None)
            )
            results |= await self._made(allowed)
        return [result for call in calls if (result := results[call.place]) is not None]

    def _result(self, call: Call) -> ToolResult | None:
        done = self._journal.finished(call.place, "tool", call_id=call.asked.call_id)
        return None if done is None else ToolResult.of(done)

    async def _made(self, calls: Sequence[Call]) -> dict[Place, ToolResult | None]:
        """Make calls; every one comes to its end, and then the first that broke breaks the run."""
        free, left = asyncio.Semaphore(AT_ONCE), len(calls)

        async def one(call: Call) -> ToolResult | Doubt:
            nonlocal left
            async with free:
                asked, step = call.asked, call.place.seq
                await self._teller.tell(
                    ToolCalled(call_id=asked.call_id, name=asked.name, arguments=asked.arguments, step=step)
                )
                try:
                    made = await self._calls.make(call, is_last=left == 1)
                finally:
                    left -= 1
                if isinstance(made, ToolResult):
                    told = ToolReturned(
                        call_id=asked.call_id,
                        name=asked.name,
                        result=made.text,
                        is_error=made.is_error,
                        step=step,
                    )
                    await self._teller.tell(told)
                return made

        ends = await asyncio.gather(*(one(call) for call in calls), return_exceptions=True)
        broken = [end for end in ends if isinstance(end, BaseException)]
        if broken:
            raise broken[0]
        if any(isinstance(end, Doubt) for end in ends):
            raise Parked("waiting_review", [end.step for end in ends if isinstance(end, Doubt)])
        return {call.place: end for call, end in zip(calls, ends, strict=True) if isinstance(end, ToolResult)}

    def _book_lost_call(self, place: Place, request: ModelRequest) -> None:
        """A call that an earlier taking began and did not end was paid for, at least what it read."""
        step = self._journal.find(place)
        if step is None or step.state != "intent" or step.epoch >= self._journal.lease.epoch:
            return
        self._book_cut_call(place, request, step.name, epoch=step.epoch)

    def _book_cut_call(self, place: Place, request: ModelRequest, model: str, *, epoch: int) -> None:
        """Its row has the same name, whether the runner that made the call books it or the next one."""
        tokens = TokenCount(input_tokens=request.estimated_tokens(), is_estimated=True)
        nth = LOST_CALL + place.seq
        self._journal.carry(messages=[self._usage(place, model, tokens, seconds=0, epoch=epoch, nth=nth)])

    def _book(self, place: Place, model: str, tokens: TokenCount, *, seconds: float) -> None:
        self._paid += 1
        epoch = self._journal.lease.epoch
        self._journal.carry(
            messages=[self._usage(place, model, tokens, seconds=seconds, epoch=epoch, nth=self._paid)]
        )

    def _usage(
        self, place: Place, model: str, tokens: TokenCount, *, seconds: float, epoch: int, nth: int
    ) -> UsageRecorded:
        request = self._journal.lease.request
        return UsageRecorded(
            account_id=request.account_id,
            run_id=request.run_id,
            agent_id=request.agent_id,
            path=place.path,
            seq=epoch * EVENTS_PER_ATTEMPT + nth,
            model=model,
            tokens=tokens,
            latency_ms=round(seconds * 1_000),
            recorded_at=self._clock.now(),
        )


def _digest(request: ModelRequest) -> str:
    """Names what was sent, so that two calls can be compared without keeping it twice."""
    exact: Any = [request.model, request.messages, request.tools]
    return hashlib.sha256(json.dumps(exact, sort_keys=True).encode()).hexdigest()
