"""The ceilings of a run."""

import pytest

from headrace.runner.errors import LimitReached
from headrace.runner.limits import RunLimits

LIMITS = RunLimits(model_calls=25, tokens=1_000, seconds=900)


def test_last_call_within_all_ceilings_is_made() -> None:
    LIMITS.check_before_model_call(calls_made=24, tokens=999, seconds_spent=899.9)


def test_call_past_the_number_is_refused_with_both_numbers() -> None:
    with pytest.raises(LimitReached, match="the run made 25 model calls, and may make 25"):
        LIMITS.check_before_model_call(calls_made=25, tokens=0, seconds_spent=0)


def test_call_past_the_tokens_is_refused_with_both_numbers() -> None:
    with pytest.raises(LimitReached, match="the run used 1000 tokens, and may use 1000"):
        LIMITS.check_before_model_call(calls_made=0, tokens=1_000, seconds_spent=0)


def test_call_past_the_time_is_refused_with_both_numbers() -> None:
    with pytest.raises(LimitReached, match="the run took 900 s, and may take 900 s"):
        LIMITS.check_before_model_call(calls_made=0, tokens=0, seconds_spent=900)
