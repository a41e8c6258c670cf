"""Starting a run: the request is a row, and `run.requested` leaves with it."""

import hashlib
from dataclasses import dataclass

from headrace.common.clock import Clock
from headrace.contracts.ids import new_id, trigger_id
from headrace.contracts.runs import ChatMessage, Door, Lane, RunRequested
from headrace.gateway import repository
from headrace.gateway.auth import Caller
from headrace.gateway.errors import KeyReused


@dataclass(frozen=True, slots=True)
class Wish:
    """What a caller wants run."""

    door: Door
    agent: str
    """Name or id."""
    input: tuple[ChatMessage, ...]
    session_id: str | None = None
    idempotency_key: str | None = None

    def digest(self) -> bytes:
        """The same for the same wish."""
        parts = (self.agent, self.session_id or "", *(f"{m.role}:{m.content}" for m in self.input))
        return hashlib.sha256("\x00".join(parts).encode()).digest()


@dataclass(frozen=True, slots=True)
class Started:
    """A run, and whether this wish was the first to ask for it."""

    run_id: str
    is_new: bool


async def start_run(wish: Wish, caller: Caller, clock: Clock) -> Started:
    """Ask for a run. The same Idempotency-Key with the same wish is the same run.

    Raises:
        NotFound: There is no such agent.
        KeyReused: The key came with another wish before.
    """
    key = wish.idempotency_key
    run_id = new_id() if key is None else trigger_id("idempotency-key", caller.account_id, key)
    if key is not None and (before := await repository.accepted(caller.tx.connection, run_id)):
        return _again(run_id, before, wish)
    agent = await repository.find_agent(caller.tx.connection, caller.account_id, wish.agent)
    now = clock.now()
    first = await repository.accept(
        caller.tx.connection,
        {
            "run_id": run_id,
            "account_id": caller.account_id,
            "agent_id": agent.agent_id,
            "door": wish.door,
            "digest": wish.digest(),
            "idempotency_key": key,
            "requested_at": now,
        },
    )
    if first is not None:
        return _again(run_id, first, wish)
    await caller.tx.send(
        RunRequested(
            run_id=run_id,
            door=wish.door,
            lane=Lane.INTERACTIVE,
            account_id=caller.account_id,
            agent_id=agent.agent_id,
            agent_revision=agent.revision,
            session_id=wish.session_id,
            trigger=key or run_id,
            input=wish.input,
            requested_at=now,
        )
    )
    return Started(run_id, is_new=True)


def _again(run_id: str, before: bytes, wish: Wish) -> Started:
    if before != wish.digest():
        raise KeyReused("this Idempotency-Key was used for another request; take a new key for a new request")
    return Started(run_id, is_new=False)
