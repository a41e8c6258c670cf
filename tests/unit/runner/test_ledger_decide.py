"""What an entry of the ledger means for a call with the same key: every state, and everybody who may have it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest

from headrace.contracts.journal import EffectState
from headrace.runner.errors import EffectBusy
from headrace.runner.ledger import Act, AlreadyDone, Claim, InDoubt, decide
from headrace.runner.repository.effects import Entry, Intent
from headrace.runner.repository.runs import Lease
from headrace.runner.steps import ROOT, Place
from tests.support.runner_rig import request

ME = Lease("run-me", 3, 1, request("run-me"))
MINE = Place(ROOT, 2)
INTENT = Intent(key="k", tool="send", place=MINE, provider_key="<k@mail>", remembers=timedelta(days=1))
ENTRY = Entry(
    account_id="acme",
    key="k",
    tool="send",
    state="intent",
    run_id="run-me",
    place=MINE,
    epoch=3,
    provider_key="<k@mail>",
    result=None,
    why=None,
    begun_at=datetime(2030, 1, 1, tzinfo=UTC),
    settled_at=None,
    is_held=True,
    is_expired=False,
)
TAKE_OVER = None
AGES = {"fresh": False, "expired": True}

HOLDERS = {
    "this very call": ENTRY,
    "this very call, whose lease just ran out": replace(ENTRY, is_held=False),
    "another call of this taking": replace(ENTRY, place=Place(ROOT, 3)),
    "an earlier taking of this run": replace(ENTRY, epoch=2, is_held=False),
    "a later taking of this run": replace(ENTRY, epoch=4),
    "a run that acts right now": replace(ENTRY, run_id="run-other", place=Place(ROOT, 7), epoch=1),
    "a run that acts right now in the same place and epoch": replace(ENTRY, run_id="run-other"),
    "a run that died or was parked": replace(ENTRY, run_id="run-other", epoch=1, is_held=False),
}


@pytest.mark.parametrize(
    ("holder", "kind"),
    [
        ("this very call", Act),
        ("this very call, whose lease just ran out", Act),
        ("another call of this taking", InDoubt),
        ("an earlier taking of this run", InDoubt),
        ("a later taking of this run", InDoubt),
        ("a run that died or was parked", InDoubt),
    ],
)
def test_intent_that_nobody_settled_is_acted_on_by_its_own_call_and_doubtful_for_every_other(
    holder: str, kind: type[Act | InDoubt]
) -> None:
    entry = HOLDERS[holder]

    assert decide(entry, ME, INTENT) == kind(entry)


@pytest.mark.parametrize(
    "holder", ["a run that acts right now", "a run that acts right now in the same place and epoch"]
)
def test_intent_of_a_run_that_acts_right_now_is_busy_and_the_sentence_names_the_run(holder: str) -> None:
    with pytest.raises(EffectBusy, match=r"run-other is using send") as busy:
        decide(HOLDERS[holder], ME, INTENT)

    assert busy.value.after == 1


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize(
    ("state", "result", "age", "claim"),
    [
        ("confirmed", "sent", "fresh", AlreadyDone("sent")),
        ("confirmed", "", "fresh", AlreadyDone("")),
        ("confirmed", "sent", "expired", TAKE_OVER),
        ("failed", None, "fresh", TAKE_OVER),
        ("failed", None, "expired", TAKE_OVER),
        ("undone", None, "fresh", TAKE_OVER),
        ("undone", None, "expired", TAKE_OVER),
    ],
)
def test_settled_entry_says_the_same_to_everybody_whoever_had_it(
    holder: str, state: EffectState, result: str | None, age: str, claim: Claim | None
) -> None:
    entry = replace(HOLDERS[holder], state=state, result=result, is_expired=AGES[age])

    assert decide(entry, ME, INTENT) == claim


@pytest.mark.parametrize("age", AGES)
@pytest.mark.parametrize("holder", HOLDERS)
def test_skipped_entry_stays_in_doubt_whoever_had_it_and_however_old_it_is(holder: str, age: str) -> None:
    entry = replace(HOLDERS[holder], state="skipped", is_expired=AGES[age])

    assert decide(entry, ME, INTENT) == InDoubt(entry)


def test_intent_that_nobody_settled_does_not_stop_being_doubtful_by_growing_old() -> None:
    entry = replace(HOLDERS["a run that died or was parked"], is_expired=True)

    assert decide(entry, ME, INTENT) == InDoubt(entry)


def test_every_state_that_an_entry_can_have_is_in_these_tables() -> None:
    assert set(get_args(EffectState)) == {"intent", "confirmed", "failed", "undone", "skipped"}
