"""The effects ledger: what may be done to the world, decided from what was done before with the same intent."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import assert_never

from headrace.common.db import Database, Transaction
from headrace.common.errors import Unavailable
from headrace.common.faults import point
from headrace.contracts.journal import EffectState
from headrace.runner.errors import EffectBusy, LeaseLost
from headrace.runner.journal import AGAIN_SECONDS
from headrace.runner.leases import Leases
from headrace.runner.repository import effects, journal, runs
from headrace.runner.repository.effects import Entry, Intent
from headrace.runner.repository.runs import Lease
from headrace.runner.steps import Step


@dataclass(frozen=True, slots=True)
class Act:
    """Nobody did it; the intent is written, so do it now."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class AlreadyDone:
    """It was done, and gave this."""

    result: str


@dataclass(frozen=True, slots=True)
class InDoubt:
    """Somebody was about to do it, and was not seen to end."""

    entry: Entry


Claim = Act | AlreadyDone | InDoubt
Once = Callable[[Transaction], Awaitable[Claim]]
Settle = Callable[[Transaction], Awaitable[None]]


def decide(entry: Entry, me: Lease, intent: Intent) -> Claim | None:
    """What an entry that exists means for a call with the same key.

    Args:
        entry: What the ledger has.
        me: Who asks.
        intent: What is to be done.

    Returns:
        What follows; `None` where the entry is to be taken over and acted upon.

    Raises:
        EffectBusy: Another run is acting right now.
    """
    match entry.state:
        case "confirmed" if not entry.is_expired:
            return AlreadyDone(entry.result or "")
        case "confirmed" | "failed" | "undone":
            return None
        case "skipped":
            return InDoubt(entry)
        case "intent":
            if (entry.run_id, entry.epoch, entry.place) == (me.run_id, me.epoch, intent.place):
                return Act(entry)
            if entry.is_held and entry.run_id != me.run_id:
                raise EffectBusy(f"run {entry.run_id} is using {entry.tool} for the same purpose right now")
            return InDoubt(entry)
        case _:
            assert_never(entry.state)


class Ledger:
    """Claims and settles intents for one run that is held."""

    def __init__(self, db: Database, leases: Leases, lease: Lease) -> None:
        self._db, self._leases, self._lease = db, leases, lease

    async def claim(self, intent: Intent, step: Step) -> Claim:
        """Write the intent, or learn what stands in its place.

        Args:
            intent: What is to be done.
            step: The call in the journal, which names the intent from now on.

        Raises:
            EffectBusy: Another run is acting right now.
            LeaseLost: The run is somebody else's.
        """

        async def once(tx: Transaction) -> Claim:
            await journal.write(tx.connection, self._lease, [step])
            return await self._claimed(tx, intent)

        return await self._fenced(once)

    async def retake(self, entry: Entry, intent: Intent) -> Claim:
        """Make an intent that did not happen this run's own. See `claim` for errors.

        Returns:
            `Act`, or what somebody else made of the entry meanwhile.
        """

        async def once(tx: Transaction) -> Claim:
            await runs.fence(tx.connection, self._lease)
            return await self._claimed(tx, intent, unseen=entry)

        return await self._fenced(once)

    def check(self) -> None:
        """See, right before something is done, that the run is surely still held.

        Raises:
            LeaseLost: It may not be: the process stood still since it claimed the intent.
        """
        self._leases.check(self._lease)

    async def _claimed(self, tx: Transaction, intent: Intent, *, unseen: Entry | None = None) -> Claim:
        """Make the intent this run's own, if it may be; an entry that was looked for, and not seen done, may."""
        account = self._lease.request.account_id
        made = await effects.intend(tx.connection, self._lease, intent)
        if made is not None:
            return Act(made)
        now = await effects.locked(tx.connection, account, intent.key)
        if now is None:
            raise Unavailable("the ledger's entry went away at this very moment")
        claim = decide(now, self._lease, intent)
        is_unseen = unseen is not None and _holder(now) == _holder(unseen)
        if claim is not None and not (is_unseen and isinstance(claim, InDoubt)):
            return claim
        await effects.take_over(tx.connection, self._lease, intent)
        entry = await effects.locked(tx.connection, account, intent.key)
        assert entry is not None  # noqa: S101  (locked in this transaction)
        return Act(entry)

    async def _fenced(self, once: Once) -> Claim:
        while True:
            self._leases.check(self._lease)
            point("runner.intent.before")
            try:
                async with self._db.transaction() as tx:
                    claim = await once(tx)
            except EffectBusy:
                raise
            except Unavailable:
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                point("runner.intent.after")
                return claim

    def settled(
        self, entry: Entry, *, result: str | None, why: str | None = None, undoes: str | None = None
    ) -> Settle:
        """What a transaction does to say how an intent ended.

        Args:
            entry: The intent.
            result: What it gave; `None` where it did not happen.
            why: Why it did not.
            undoes: The key of the effect that this one takes back.
        """

        async def settle(tx: Transaction) -> None:
            if undoes is not None and result is not None:
                await effects.undo(tx.connection, entry.account_id, undoes, why=f"taken back by {entry.tool}")
            to: EffectState = "failed" if result is None else "confirmed"
            if await effects.settle(tx.connection, entry, to, result=result, why=why):
                return
            now = await effects.locked(tx.connection, entry.account_id, entry.key)
            if now is None or _holder(now) != (to, entry.run_id, entry.epoch):
                raise LeaseLost(f"the intent of {entry.tool} in run {entry.run_id} is no longer this call's")

        return settle


def _holder(entry: Entry) -> tuple[EffectState, str, int]:
    return entry.state, entry.run_id, entry.epoch
