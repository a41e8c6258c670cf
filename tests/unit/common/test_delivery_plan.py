"""What follows a failed execution: a table, and laws that hold for any attempt."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.common.delivery import Bury, DeliveryPolicy, Retry, describe, plan_retry
from headrace.common.errors import Invalid, NotFound, RateLimited, Retryable, Terminal, Unavailable

POLICY = DeliveryPolicy(attempts=4, first_delay=0.5, longest_delay=3)
ATTEMPTS = st.integers(1, 10_000)
LATER = st.sampled_from([Retryable("later"), RateLimited("often"), ValueError("a bug")])
AFTER = st.floats(0, 1e6)


@pytest.mark.parametrize(
    ("attempt", "error", "plan"),
    [
        (1, ValueError("x"), Retry(0.5)),
        (2, ValueError("x"), Retry(1.0)),
        (3, ValueError("x"), Retry(2.0)),
        (4, ValueError("x"), Bury("gave up after 4 attempts: ValueError: x")),
        (5, Retryable("x"), Bury("gave up after 5 attempts: Retryable: x")),
        (1, Retryable("x", after=2.5), Retry(2.5)),
        (4, Retryable("x", after=2.5), Bury("gave up after 4 attempts: Retryable: x")),
        (1, Invalid("x"), Bury("Invalid: x")),
        (4, Unavailable("x"), Retry(3)),
        (1, Unavailable("x", after=9), Retry(9)),
    ],
)
def test_plan(attempt: int, error: Exception, plan: Retry | Bury) -> None:
    assert plan_retry(attempt, error, POLICY) == plan


@given(ATTEMPTS, LATER, ATTEMPTS)
def test_delay_stays_within_the_bound(attempt: int, error: Exception, deliveries: int) -> None:
    patient = DeliveryPolicy(attempts=20_000, first_delay=0.5, longest_delay=30)

    plan = plan_retry(attempt, error, patient, deliveries=deliveries)

    assert isinstance(plan, Retry)
    assert patient.first_delay <= plan.delay <= patient.longest_delay


@given(ATTEMPTS, ATTEMPTS, st.none() | AFTER)
def test_unavailable_is_never_buried(attempt: int, deliveries: int, after: float | None) -> None:
    plan = plan_retry(attempt, Unavailable("away", after=after), POLICY, deliveries=deliveries)

    assert isinstance(plan, Retry)


@given(ATTEMPTS, st.sampled_from([Terminal("no"), Invalid("no"), NotFound("no")]))
def test_terminal_is_buried_at_any_attempt(attempt: int, error: Terminal) -> None:
    assert plan_retry(attempt, error, POLICY) == Bury(f"{type(error).__name__}: no")


@given(st.integers(4, 10_000), LATER)
def test_nothing_but_a_server_away_is_tried_past_the_last_attempt(attempt: int, error: Exception) -> None:
    assert isinstance(plan_retry(attempt, error, POLICY), Bury)


@given(st.integers(1, 3), ATTEMPTS, LATER)
def test_deliveries_do_not_make_an_executed_message_wait_longer(
    attempt: int, deliveries: int, error: Exception
) -> None:
    assert plan_retry(attempt, error, POLICY, deliveries=deliveries) == plan_retry(attempt, error, POLICY)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("one\n  two"), "ValueError: one two"),
        (ValueError(), "ValueError"),
        (ValueError("a" * 3_000), "ValueError: " + "a" * 2_000),
    ],
)
def test_error_is_described_in_one_bounded_line(error: Exception, line: str) -> None:
    assert describe(error) == line
