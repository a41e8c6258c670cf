"""Whether something is missing between two events."""

import pytest

from headrace.contracts.runs import EVENTS_PER_ATTEMPT, LAST_EVENT
from headrace.gateway.events import is_gap

FIRST, SECOND, THIRD = (attempt * EVENTS_PER_ATTEMPT for attempt in (1, 2, 3))
BEFORE_ALL = -1


@pytest.mark.parametrize(
    ("last", "seq"),
    [
        pytest.param(BEFORE_ALL, FIRST, id="the first event"),
        pytest.param(FIRST, FIRST + 1, id="the next event"),
        pytest.param(FIRST + 4, SECOND, id="a new attempt begins"),
        pytest.param(FIRST + 4, THIRD, id="an attempt said nothing"),
        pytest.param(FIRST + 4, FIRST + LAST_EVENT, id="the end, which holds the whole answer"),
        pytest.param(BEFORE_ALL, LAST_EVENT, id="only the end, as of a refused run"),
        pytest.param(FIRST + LAST_EVENT, SECOND, id="a run that ended is resumed"),
    ],
)
def test_nothing_is_missing(last: int, seq: int) -> None:
    assert not is_gap(last, seq)


@pytest.mark.parametrize(
    ("last", "seq"),
    [
        pytest.param(FIRST, FIRST + 2, id="one event"),
        pytest.param(FIRST + 4, SECOND + 1, id="the beginning of an attempt"),
        pytest.param(FIRST + 4, SECOND + 5, id="the beginning of an attempt, at the place that would follow"),
        pytest.param(FIRST + LAST_EVENT, SECOND + 5, id="the beginning of what follows an end"),
        pytest.param(BEFORE_ALL, FIRST + 3, id="the beginning of a run"),
    ],
)
def test_something_is_missing(last: int, seq: int) -> None:
    assert is_gap(last, seq)
