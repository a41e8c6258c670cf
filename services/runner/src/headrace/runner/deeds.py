"""Deeds: calls that act on the world. Each is claimed, done once, looked for where its end was not seen, confirmed."""

import asyncio
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

from headrace.common.faults import point
from headrace.runner.journal import Journal
from headrace.runner.ledger import Act, AlreadyDone, InDoubt, Ledger
from headrace.runner.repository.effects import Entry, Intent
from headrace.runner.steps import Step, ToolResult
from headrace.tools import (
    CALL_AGAIN,
    CannotTell,
    DidNotHappen,
    Done,
    Failed,
    Happened,
    Tool,
    ToolContext,
    Unknown,
    Verdict,
    effect_key,
    perform,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """A call with the identity of its effect."""

    tool: Tool
    arguments: dict[str, Any]
    context: ToolContext
    step: Step
    """Its row in the journal, which names the intent."""

    @property
    def intent(self) -> Intent:
        """What is claimed in the ledger."""
        return Intent(
            key=self.context.effect_key,
            tool=self.tool.name,
            place=self.step.place,
            provider_key=self.context.provider_key,
            remembers=self.tool.remembers,
        )

    def takes_back(self) -> str | None:
        """The key of the effect that this one undoes."""
        if self.tool.undoes is None:
            return None
        other, parts = self.tool.undoes(self.arguments, self.context)
        context = self.context
        return effect_key(account_id=context.account_id, tool=other, trigger=context.trigger, parts=parts)

    def known_as(self, provider_key: str) -> "Deed":
        """The deed under the name that the provider was told when it was begun, whatever it would be called now."""
        return replace(self, context=replace(self.context, provider_key=provider_key))

    async def looked_for(self) -> Verdict:
        """What the provider knows of it, where nobody saw its end."""
        tool = self.tool
        if tool.reconcile == CALL_AGAIN:  # the provider tells a repeated call apart by its key
            return DidNotHappen()
        if tool.reconcile is None:
            return CannotTell(
                f"{tool.name} was begun and not seen to end, and nothing can tell what became of it"
            )
        try:
            async with asyncio.timeout(2 * tool.timeout):  # to look, and to look again
                return await tool.reconcile(self.context.provider_key, self.context)
        except Exception as error:  # noqa: BLE001  (whatever goes wrong in looking, it is not known)
            return CannotTell(f"looking for it failed: {type(error).__name__}: {error}"[:500])


@dataclass(frozen=True, slots=True)
class Doubt:
    """A deed of which only a person can say whether it was done."""

    step: Step


class Deeds:
    """Does deeds of one run that is held, at most once for each intent."""

    def __init__(self, journal: Journal, ledger: Ledger) -> None:
        self._journal, self._ledger = journal, ledger
        self._turns: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def do(self, deed: Deed) -> ToolResult | Doubt:
        """Do it, or learn what became of it; those with the same intent take turns."""
        async with self._turns[deed.intent.key]:
            claim = await self._ledger.claim(deed.intent, deed.step)
            while True:
                match claim:
                    case AlreadyDone(text):
                        return await self._finished(deed, ToolResult(text), None)
                    case Act(entry):
                        return await self._done(deed, entry)
                    case InDoubt(entry):
                        deed = deed.known_as(entry.provider_key)
                        match await deed.looked_for():
                            case Happened(text):
                                return await self._finished(deed, ToolResult(text), entry)
                            case DidNotHappen():
                                claim = await self._ledger.retake(entry, deed.intent)
                            case CannotTell(why):
                                return await self._doubted(deed, why)

    async def _done(self, deed: Deed, entry: Entry) -> ToolResult | Doubt:
        point("runner.act.before")
        self._ledger.check()
        outcome = await perform(deed.tool, deed.arguments, deed.context)
        point("runner.act.after")
        match outcome:
            case Done(text):
                return await self._finished(deed, ToolResult(text), entry)
            case Failed(sentence):
                return await self._finished(deed, ToolResult(f"error: {sentence}", is_error=True), entry)
            case Unknown(why):
                return await self._unseen(deed, entry, why)

    async def _unseen(self, deed: Deed, entry: Entry, why: str) -> ToolResult | Doubt:
        """Its end was not seen. Look for it; where it did not happen, the model decides whether to try again."""
        if deed.tool.reconcile == CALL_AGAIN:
            self._ledger.check()
            again = await perform(deed.tool, deed.arguments, deed.context)
            verdict: Verdict = Happened(again.text) if isinstance(again, Done) else CannotTell(why)
        else:
            verdict = await deed.looked_for()
        match verdict:
            case Happened(text):
                return await self._finished(deed, ToolResult(text), entry)
            case DidNotHappen():
                return await self._finished(deed, ToolResult(f"error: {why}", is_error=True), entry)
            case CannotTell(reason):
                return await self._doubted(deed, why if reason == why else f"{why}; {reason}")

    async def _finished(self, deed: Deed, result: ToolResult, entry: Entry | None) -> ToolResult:
        """Confirm in the ledger and finish in the journal, in one transaction."""
        settle = None
        if entry is not None:
            settle = self._ledger.settled(
                entry,
                result=None if result.is_error else result.text,
                why=result.text if result.is_error else None,
                undoes=deed.takes_back(),
            )
        point("runner.confirm.before")
        await self._journal.write(deed.step.done(result.as_output()), also=settle)
        point("runner.confirm.after")
        return replace(result, is_written=True)

    async def _doubted(self, deed: Deed, why: str) -> Doubt:
        step = deed.step.doubtful(why)
        await self._journal.write(step)
        return Doubt(step)
