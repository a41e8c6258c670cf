"""Logs: one JSON object per line, with the event, its fields, its error and its trace."""

import json
import logging
import sys
from datetime import datetime, timedelta
from typing import Any

import pytest
from opentelemetry import context, trace

from headrace.common.telemetry import JsonFormatter


def record(event: str, *args: object, error: BaseException | None = None, **fields: Any) -> logging.LogRecord:
    exc_info = (type(error), error, error.__traceback__) if error else None
    return logging.getLogger("headrace.test").makeRecord(
        "headrace.test", logging.WARNING, "file.py", 1, event, args, exc_info, extra=fields
    )


def line(event: str, *args: object, error: BaseException | None = None, **fields: Any) -> dict[str, Any]:
    written = JsonFormatter("runner").format(record(event, *args, error=error, **fields))
    read: dict[str, Any] = json.loads(written)
    return read


def test_line_has_its_event_and_where_it_is_from() -> None:
    written = line("run.finished")
    written.pop("time")

    assert written == {
        "level": "warning",
        "service": "runner",
        "logger": "headrace.test",
        "event": "run.finished",
    }


def test_time_is_in_utc() -> None:
    assert datetime.fromisoformat(line("run.finished")["time"]).utcoffset() == timedelta(0)


def test_fields_are_keys_of_the_line() -> None:
    written = line("run.finished", run_id="run_1", steps=3)

    assert (written["run_id"], written["steps"]) == ("run_1", 3)


def test_arguments_of_a_vendors_log_are_filled_in() -> None:
    assert line("listening on %s:%d", "host", 80)["event"] == "listening on host:80"


@pytest.mark.parametrize("event", ["one\ntwo", "one\r\ntwo", "one\u2028two"])
def test_event_of_several_lines_stays_one_line(event: str) -> None:
    written = JsonFormatter("runner").format(record(event))

    assert len(written.splitlines()) == 1


def test_value_that_json_has_no_word_for_is_written_as_text() -> None:
    assert line("run.finished", problem=ValueError("bad"))["problem"] == "bad"


def test_error_is_written_with_its_traceback() -> None:
    with pytest.raises(ValueError, match="bad") as raised:
        int("bad")

    written = line("run.broke", error=raised.value)

    assert written["error"].startswith("Traceback")
    assert written["error"].endswith("with base 10: 'bad'")


def test_no_error_is_no_field() -> None:
    absent = sys.exc_info()
    nothing = logging.getLogger("x").makeRecord("x", logging.ERROR, "f", 1, "e", (), absent)

    assert "error" not in json.loads(JsonFormatter("runner").format(nothing))


def test_line_names_the_trace_it_belongs_to() -> None:
    span = trace.NonRecordingSpan(trace.SpanContext(0xABC, 0xDEF, is_remote=False))
    token = context.attach(trace.set_span_in_context(span))
    try:
        written = line("run.finished")
    finally:
        context.detach(token)

    assert written["trace_id"] == f"{0xABC:032x}"
