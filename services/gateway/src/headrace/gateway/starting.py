"""Starting a run: the request is a row, and `run.requested` leaves with it."""

import hashlib
from dataclasses import dataclass

from headrace.common.clock import Clock
from headrace.common.db import Transaction
from headrace.common.errors import NotFound
from headrace.common.files import Files
from headrace.contracts.ids import new_id, trigger_id
from headrace.contracts.runs import ChatMessage, Door, Lane, RunRequested
from headrace.gateway import repository
from headrace.gateway.auth import Caller, Visitor
from headrace.gateway.errors import AgentGone, KeyReused


@dataclass(frozen=True, slots=True)
class Wish:
    """What a caller wants run."""

    door: Door
    agent: str
    """Name or id."""
    input: tuple[ChatMessage, ...]
    session_id: str | None = None
    idempotency_key: str | None = None
    files: tuple[str, ...] = ()
    """Hashes of files of the caller."""

    def digest(self) -> bytes:
        """The same for the same wish."""
        parts = (
            self.agent,
            self.session_id or "",
            *(f"{m.role}:{m.content}" for m in self.input),
            *self.files,
        )
        return hashlib.sha256("\x00".join(parts).encode()).digest()


@dataclass(frozen=True, slots=True)
class Replay:
    """A run that a caller wants done again."""

    run_id: str
    idempotency_key: str | None = None

    def digest(self) -> bytes:
        """The same for the same wish."""
        return hashlib.sha256(f"replay\x00{self.run_id}".encode()).digest()


@dataclass(frozen=True, slots=True)
class Started:
    """A run, and whether this wish was the first to ask for it."""

    run_id: str
    is_new: bool


async def start_run(wish: Wish, caller: Caller, clock: Clock, files: Files | None = None) -> Started:
    """Ask for a run. The same Idempotency-Key with the same wish is the same run.

    Raises:
        NotFound: There is no such agent.
        KeyReused: The key came with another wish before.
    """
    run_id = _run_id(wish, caller)
    if before := await _started(caller.tx, run_id, wish):
        return before
    agent = await repository.find_agent(caller.tx.connection, caller.account_id, wish.agent)
    given = await repository.find_files(caller.tx.connection, caller.account_id, wish.files)
    if files is not None:
        await files.expect(given)
    request = RunRequested(
        run_id=run_id,
        door=wish.door,
        lane=Lane.INTERACTIVE,
        account_id=caller.account_id,
        agent_id=agent.agent_id,
        agent_revision=agent.revision,
        session_id=wish.session_id,
        trigger=wish.idempotency_key or run_id,
        input=wish.input,
        files=given,
        requested_at=clock.now(),
    )
    return await _start(caller.tx, request, wish)


async def replay_started(tx: Transaction, replay: Replay, visitor: Visitor) -> Started | None:
    """The run that this replay became when it was asked for before, with the same Idempotency-Key.

    Raises:
        KeyReused: The key came with another wish before.
    """
    return await _started(tx, _run_id(replay, visitor), replay)


async def start_replay(
    tx: Transaction,
    replay: Replay,
    visitor: Visitor,
    original: RunRequested,
    clock: Clock,
    *,
    forced_by: str | None,
) -> Started:
    """Ask for a run that does another one again: the same input for the same agent, in a fresh session.

    Args:
        tx: The gateway's transaction.
        replay: What is wanted.
        visitor: Who wants it.
        original: What the other run was asked with, its agent's revision pinned.
        clock: The time.
        forced_by: Who wants it although something might be done twice.

    Raises:
        AgentGone: The agent was deleted since; its revisions serve the runs that had begun, and no new one.
        KeyReused: The key came with another wish before.
    """
    try:
        await repository.find_agent(tx.connection, visitor.account_id, original.agent_id)
    except NotFound as error:
        raise AgentGone(
            f"agent {original.agent_id!r} of run {replay.run_id} was deleted; ask another agent with a new run"
        ) from error
    request = RunRequested(
        run_id=_run_id(replay, visitor),
        door=Door.API,
        lane=Lane.INTERACTIVE,
        account_id=visitor.account_id,
        agent_id=original.agent_id,
        agent_revision=original.agent_revision,
        trigger=original.trigger,
        input=original.input,
        files=original.files,
        requested_at=clock.now(),
        replay_of=replay.run_id,
        origin=original.intent,
        forced_by=forced_by,
    )
    return await _start(tx, request, replay)


def _run_id(wish: Wish | Replay, visitor: Visitor) -> str:
    key = wish.idempotency_key
    return new_id() if key is None else trigger_id("idempotency-key", visitor.account_id, key)


async def _started(tx: Transaction, run_id: str, wish: Wish | Replay) -> Started | None:
    if wish.idempotency_key is None:
        return None
    before = await repository.accepted(tx.connection, run_id)
    return None if before is None else _again(run_id, before, wish)


async def _start(tx: Transaction, request: RunRequested, wish: Wish | Replay) -> Started:
    first = await repository.accept(
        tx.connection,
        {
            "run_id": request.run_id,
            "account_id": request.account_id,
            "agent_id": request.agent_id,
            "door": request.door,
            "digest": wish.digest(),
            "idempotency_key": wish.idempotency_key,
            "requested_at": request.requested_at,
        },
    )
    if first is not None:
        return _again(request.run_id, first, wish)
    await tx.send(request)
    return Started(request.run_id, is_new=True)


def _again(run_id: str, before: bytes, wish: Wish | Replay) -> Started:
    if before != wish.digest():
        raise KeyReused("this Idempotency-Key was used for another request; take a new key for a new request")
    return Started(run_id, is_new=False)
