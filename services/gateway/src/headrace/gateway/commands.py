"""Commands about runs: each is a row, and `run.control` leaves with it."""

import hashlib
from dataclasses import dataclass
from typing import Literal

from headrace.common.clock import Clock
from headrace.contracts.ids import new_id, trigger_id
from headrace.contracts.runs import Decision, RunControl
from headrace.gateway import repository
from headrace.gateway.auth import KeyDoor, Visitor
from headrace.gateway.errors import KeyReused


@dataclass(frozen=True, slots=True)
class Order:
    """What a caller wants done about a run, in the caller's own words."""

    verb: Literal["cancel", "approve", "resolve", "resume"]
    run_id: str
    wanted: str = ""
    """The request's body."""
    idempotency_key: str | None = None

    def digest(self) -> bytes:
        """The same for the same order."""
        return hashlib.sha256(f"{self.verb}\x00{self.run_id}\x00{self.wanted}".encode()).digest()


class Commands:
    """Gives commands, each once.

    Args:
        door: Opens the gateway's own tables.
        clock: The time.
    """

    def __init__(self, door: KeyDoor, clock: Clock) -> None:
        self._door, self._clock = door, clock

    async def was_given(self, order: Order, visitor: Visitor) -> bool:
        """Whether this order came before; what it asked for may be done by now, and is not checked again.

        Raises:
            KeyReused: The key came with another order before.
        """
        if order.idempotency_key is None:
            return False
        async with self._door.transaction() as tx:
            before = await repository.given(tx.connection, _command_id(order, visitor))
        if before is not None:
            _see_that_it_is(before, order)
        return before is not None

    async def give(self, order: Order, visitor: Visitor, decisions: tuple[Decision, ...] = ()) -> None:
        """Give a command, unless it was given before. See `was_given` for errors."""
        command = RunControl(
            run_id=order.run_id,
            verb=order.verb,
            account_id=visitor.account_id,
            command_id=_command_id(order, visitor),
            by=visitor.by,
            decisions=decisions,
        )
        row = {
            "command_id": command.command_id,
            "run_id": order.run_id,
            "account_id": visitor.account_id,
            "verb": order.verb,
            "digest": order.digest(),
            "given_by": visitor.by,
            "given_at": self._clock.now(),
        }
        async with self._door.transaction() as tx:
            before = await repository.give(tx.connection, row)
            if before is None:
                await tx.send(command)
                return
        _see_that_it_is(before, order)


def _command_id(order: Order, visitor: Visitor) -> str:
    key = order.idempotency_key
    return new_id() if key is None else trigger_id("command", visitor.account_id, key)


def _see_that_it_is(before: bytes, order: Order) -> None:
    if before != order.digest():
        raise KeyReused("this Idempotency-Key was used for another request; take a new key for a new request")
