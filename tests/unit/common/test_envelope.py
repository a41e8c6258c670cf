"""The envelope: complete on the way out, strict on the way in, and silent about what a bad body says."""

from collections.abc import Iterator
from datetime import UTC, datetime
from traceback import format_exception
from typing import Any

import pytest
from opentelemetry import context, trace

from headrace.common.envelope import TYPE, decode, headers_of
from headrace.common.errors import Undecodable
from headrace.contracts.runs import RunEvent, RunFinished
from headrace.contracts.usage import UsageRecorded

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
EVENT = RunEvent(run_id="run_1", account_id="acc_1", seq=7, at=NOON, news=RunFinished(state="succeeded"))
BODY = EVENT.model_dump_json().encode()
TYPED = {TYPE: RunEvent.type}


@pytest.fixture
def trace_id() -> Iterator[int]:
    """A trace that is current."""
    span = trace.NonRecordingSpan(
        trace.SpanContext(0xABC, 0xDEF, is_remote=False, trace_flags=trace.TraceFlags(1))
    )
    token = context.attach(trace.set_span_in_context(span))
    yield 0xABC
    context.detach(token)


def test_headers_are_a_whole_cloud_event() -> None:
    assert headers_of(EVENT, source="runner", now=NOON) == {
        "Nats-Msg-Id": "run_1.event.7",
        "ce-specversion": "1.0",
        "ce-id": "run_1.event.7",
        "ce-type": "headrace.run.event.v1",
        "ce-source": "/headrace/runner",
        "ce-subject": "run.event.run_1",
        "ce-time": "2030-01-01T12:00:00+00:00",
        "content-type": "application/json",
    }


def test_headers_carry_the_trace_that_is_current(trace_id: int) -> None:
    sent = headers_of(EVENT, source="runner", now=NOON)

    assert sent["traceparent"] == f"00-{trace_id:032x}-{0xDEF:016x}-01"


def test_what_was_encoded_is_decoded() -> None:
    assert decode(RunEvent, headers_of(EVENT, source="runner", now=NOON), BODY) == EVENT


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ({TYPE: "headrace.run.event.v2"}, "got headrace.run.event.v2"),
        ({TYPE: UsageRecorded.type}, "got headrace.usage.recorded.v1"),
        ({}, "got no ce-type header"),
        (None, "got no ce-type header"),
    ],
)
def test_other_type_or_version_is_refused(headers: dict[str, str] | None, told: str) -> None:
    with pytest.raises(Undecodable, match=told):
        decode(RunEvent, headers, BODY)


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"not json", b"\xff\xfe", BODY[:-1]])
def test_body_that_is_not_what_its_type_says_is_refused(body: bytes) -> None:
    with pytest.raises(Undecodable, match=r"the body is not a headrace\.run\.event\.v1"):
        decode(RunEvent, TYPED, body)


def test_refusal_says_where_the_body_is_wrong() -> None:
    body = BODY.replace(b'"seq":7', b'"seq":-7')

    with pytest.raises(Undecodable, match="seq: Input should be greater than or equal to 0"):
        decode(RunEvent, TYPED, body)


@pytest.mark.parametrize(
    "change",
    [
        {"run_id": "p4ss.word"},
        {"seq": "p4ss.word"},
        {"at": "p4ss.word"},
        {"news": "p4ss.word"},
        {"news": {"kind": "p4ss.word"}},
        {"news": {"kind": "run.finished", "state": "p4ss.word"}},
    ],
)
def test_refusal_does_not_repeat_what_the_body_says(change: dict[str, Any]) -> None:
    body = RunEvent.model_construct(**{**EVENT.model_dump(), **change}).model_dump_json(warnings=False)

    with pytest.raises(Undecodable) as refused:
        decode(RunEvent, TYPED, body.encode())

    assert "p4ss" not in "".join(format_exception(refused.value))
