"""What to do with a delivery that failed: a pure decision."""

from dataclasses import dataclass

from headrace.common.errors import Retryable, Terminal, Unavailable
from headrace.contracts.text import mended


@dataclass(frozen=True, slots=True)
class DeliveryPolicy:
    """How often and how patiently a message is tried."""

    attempts: int = 6
    """Executions before a message is given up. Waiting for a server that is down is not one."""
    first_delay: float = 0.5
    """Seconds before the second attempt; doubled for each one after."""
    longest_delay: float = 30.0
    """Seconds at most between two attempts."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Deliver again after `delay` seconds."""

    delay: float


@dataclass(frozen=True, slots=True)
class Bury:
    """Give the message up, for a reason that a person can read."""

    reason: str


def plan_retry(
    attempt: int, error: Exception, policy: DeliveryPolicy, *, deliveries: int = 1
) -> Retry | Bury:
    """Decide what follows a failed execution.

    Args:
        attempt: Which execution this was, from 1.
        error: Why it failed.
        policy: The bounds.
        deliveries: How often the broker delivered. Its own bound must outlast a server that is down, so waiting for
            one takes longer each time, though it is no execution.
    """
    is_waiting = isinstance(error, Unavailable)
    tries = max(attempt, deliveries) if is_waiting else attempt
    delay = min(policy.first_delay * 2 ** min(tries - 1, 30), policy.longest_delay)
    match error:
        case Terminal():
            return Bury(describe(error))
        case _ if attempt >= policy.attempts and not is_waiting:
            return Bury(f"gave up after {attempt} attempts: {describe(error)}")
        case Retryable():
            return Retry(max(delay, error.after or 0))
        case _:
            return Retry(delay)


def describe(error: Exception) -> str:
    """An error in one line: its class and its sentence."""
    sentence = mended(" ".join(str(error).split()))
    return f"{type(error).__name__}: {sentence[:2_000]}" if sentence else type(error).__name__
