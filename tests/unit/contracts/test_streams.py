"""Which stream keeps a message, and which consumers must see it."""

from datetime import UTC, datetime

import pytest

from headrace.contracts.message import Message
from headrace.contracts.runs import (
    ChatMessage,
    Door,
    Lane,
    RunAdmitted,
    RunEvent,
    RunFinished,
    RunRequested,
)
from headrace.contracts.streams import EVENTS, STREAMS, consumers_of, matches, stream_of

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def request(lane: Lane) -> RunRequested:
    return RunRequested(
        run_id="run_1",
        door=Door.API,
        lane=lane,
        account_id="acc_1",
        agent_id="agent_1",
        trigger="run_1",
        input=(ChatMessage(role="user", content="hello"),),
        requested_at=NOON,
    )


@pytest.mark.parametrize(
    ("wanted", "subject", "passes"),
    [
        ("a.b", "a.b", True),
        ("a.*", "a.b", True),
        ("*.b", "a.b", True),
        ("a.*", "c.b", False),
        ("a.*", "a.b.c", False),
        ("a.*.c", "a.c", False),
        ("a.b", "a.*", False),
        ("a.b", "a.bb", False),
    ],
)
def test_subject_passes_a_filter_token_by_token(wanted: str, subject: str, passes: bool) -> None:  # noqa: FBT001  (a column of the table)
    assert matches(wanted, subject) is passes


@pytest.mark.parametrize("lane", Lane)
def test_admitted_run_waits_in_its_own_lane_only(lane: Lane) -> None:
    admitted = RunAdmitted(run_id="run_1", lane=lane, request=request(lane), admitted_at=NOON)

    assert [consumer.name for consumer in consumers_of(admitted)] == [f"runner-{lane}"]


def test_requested_run_is_seen_by_admission_and_by_the_recorder() -> None:
    assert [consumer.name for consumer in consumers_of(request(Lane.BACKGROUND))] == [
        "usage-admission-api",
        "runner-recorder",
    ]


def test_event_waits_for_nobody() -> None:
    end = RunEvent(run_id="run_1", account_id="a", seq=0, at=NOON, news=RunFinished(state="succeeded"))

    assert list(consumers_of(end)) == []


def test_stream_is_found_by_its_message() -> None:
    assert stream_of(RunEvent) is EVENTS


def test_message_that_no_stream_keeps_is_named() -> None:
    with pytest.raises(LookupError, match="Message is in no stream"):
        stream_of(Message)


def test_consumers_take_only_what_their_stream_keeps() -> None:
    outside = [
        consumer.name
        for stream in STREAMS
        for consumer in stream.consumers
        if not any(matches(kept, consumer.filter_subject) for kept in stream.subjects)
    ]

    assert outside == []
