"""Identifiers and how they are made: time-ordered for what is new, derived for what has a name already."""

import secrets
import time
import uuid
from typing import Annotated

from pydantic import StringConstraints

from headrace.contracts.text import Text

Token = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,128}$")]
"""A string that is safe as one token of a NATS subject."""

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""The name of content: its SHA-256 in hexadecimal digits."""

RunId = Token
AccountId = Token
AgentId = Token
UserId = Annotated[Text, StringConstraints(min_length=1, max_length=256)]
SessionId = Annotated[Text, StringConstraints(min_length=1, max_length=256)]

_TRIGGERS = uuid.uuid5(uuid.NAMESPACE_DNS, "triggers.headrace.example")


def new_id(*, now_ms: int | None = None) -> str:
    """Make a UUIDv7 (RFC 9562): unique, and sortable by the millisecond it was made in.

    Args:
        now_ms: Unix time in milliseconds; the wall clock when absent.
    """
    stamp = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    bits = (stamp & (1 << 48) - 1) << 80 | 0x7 << 76 | secrets.randbits(12) << 64
    return str(uuid.UUID(int=bits | 0b10 << 62 | secrets.randbits(62)))


def trigger_id(kind: str, *identity: str) -> str:
    """Derive the id of what a trigger starts: the same trigger gives the same id, on every replica and at every retry.

    Args:
        kind: What the trigger is, such as `webhook` or `schedule`.
        identity: The parts that name the trigger within its kind; their borders count.
    """
    name = "".join(f"{len(part)}:{part}" for part in (kind, *identity))
    return str(uuid.uuid5(_TRIGGERS, name))
