"""Messages own their subject and their key."""

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from headrace.contracts.message import Message
from headrace.contracts.runs import (
    ChatMessage,
    Door,
    Lane,
    RunControl,
    RunEvent,
    RunRequested,
    RunStarted,
    TokenCount,
)
from headrace.contracts.usage import UsageRecorded

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
REQUEST = RunRequested(
    run_id="run_1",
    door=Door.CHAT,
    lane=Lane.INTERACTIVE,
    account_id="acc_1",
    agent_id="agent_1",
    trigger="run_1",
    input=(ChatMessage(role="user", content="hello"),),
    requested_at=NOON,
)


def event(seq: int) -> RunEvent:
    return RunEvent(
        run_id="run_1", account_id="acc_1", seq=seq, at=NOON, news=RunStarted(attempt=1, agent_revision=1)
    )


def test_subject_is_the_address_with_the_messages_own_values() -> None:
    assert REQUEST.subject == "run.requested.chat.run_1"


@pytest.mark.parametrize("bad", ["", "a.b", "*", ">", "a b", "run_1\n", "é", "a" * 129])
def test_value_that_is_no_subject_token_is_refused(bad: str) -> None:
    with pytest.raises(ValidationError, match="run_id"):
        RunRequested.model_validate({**REQUEST.model_dump(), "run_id": bad})


def test_refusal_does_not_repeat_the_value() -> None:
    with pytest.raises(ValidationError) as refused:
        RunRequested.model_validate({**REQUEST.model_dump(), "run_id": "p4ss.word"})

    assert "p4ss" not in str(refused.value)


def test_value_that_escaped_validation_still_reaches_no_subject() -> None:
    forged = REQUEST.model_copy(update={"run_id": "run_1.>"})

    with pytest.raises(ValidationError):
        _ = forged.subject


def test_wildcard_stands_for_every_field_of_the_address() -> None:
    assert RunRequested.wildcard() == "run.requested.*.*"


def test_wildcard_keeps_what_is_known() -> None:
    assert RunRequested.wildcard(door=Door.WEBHOOK) == "run.requested.webhook.*"


def test_message_id_of_an_event_names_its_place() -> None:
    assert event(1_000_002).message_id == "run_1.event.1000002"


def test_events_place_is_never_before_the_first() -> None:
    with pytest.raises(ValidationError, match="seq"):
        event(-1)


@pytest.mark.parametrize(
    ("message", "key"),
    [
        (REQUEST, "run_1.requested"),
        (
            RunControl(run_id="run_1", verb="cancel", account_id="acc_1", command_id="c_1"),
            "run_1.control.c_1",
        ),
        (
            UsageRecorded(
                account_id="acc_1",
                run_id="run_1",
                agent_id="agent_1",
                path="root",
                seq=3,
                model="m",
                tokens=TokenCount(),
                latency_ms=1,
                recorded_at=NOON,
            ),
            "run_1.usage.root.3",
        ),
    ],
)
def test_key_names_what_counts_once(message: Message, key: str) -> None:
    assert message.message_id == key


def test_message_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        setattr(REQUEST, "run_id", "run_2")  # noqa: B010  (mypy would refuse the assignment)


def test_field_of_a_newer_peer_is_left_aside() -> None:
    assert RunRequested.model_validate({**REQUEST.model_dump(), "priority": 1}) == REQUEST


def test_tokens_are_added_class_by_class() -> None:
    one = TokenCount(input_tokens=1, cached_input_tokens=2, output_tokens=3)
    two = TokenCount(input_tokens=10, cached_input_tokens=20, output_tokens=30)

    assert one + two == TokenCount(input_tokens=11, cached_input_tokens=22, output_tokens=33)


@pytest.mark.parametrize("is_first", [True, False])
def test_sum_with_an_estimate_is_an_estimate(is_first: bool) -> None:  # noqa: FBT001  (a parameter of a table)
    assert (TokenCount(is_estimated=is_first) + TokenCount(is_estimated=not is_first)).is_estimated
