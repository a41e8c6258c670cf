"""How long a failed delivery waits."""

from itertools import accumulate

import pytest

from headrace.common.delivery import Bury, DeliveryPolicy, Retry, plan_retry
from headrace.common.errors import Invalid, Retryable, Unavailable
from headrace.contracts.streams import MAX_DELIVER

POLICY = DeliveryPolicy()


def test_server_that_is_away_for_ten_minutes_does_not_spend_the_brokers_deliveries() -> None:
    plans = [plan_retry(1, Unavailable("away"), POLICY, deliveries=n) for n in range(1, MAX_DELIVER)]

    waited = list(accumulate(plan.delay for plan in plans if isinstance(plan, Retry)))
    assert len(waited) == MAX_DELIVER - 1
    assert waited[-1] > 600


@pytest.mark.parametrize("kind", [Retryable, Unavailable])
def test_after_is_the_least_that_is_waited(kind: type[Retryable]) -> None:
    assert plan_retry(1, kind("later", after=7), POLICY) == Retry(7)
    assert plan_retry(5, kind("later", after=1), POLICY) == Retry(8)


def test_what_cannot_help_is_buried_at_once() -> None:
    assert isinstance(plan_retry(1, Invalid("no"), POLICY), Bury)


def test_reason_can_be_stored() -> None:
    assert plan_retry(1, Invalid("a\0b"), POLICY) == Bury("Invalid: ab")
