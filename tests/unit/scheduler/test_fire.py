from datetime import UTC, datetime, timedelta, timezone

from headrace.scheduler.fire import Fire


def fire_at(instant: datetime) -> Fire:
    return Fire(
        schedule_id="sch_1",
        account_id="acc_1",
        agent_id="agent_1",
        prompt="Look.",
        every=timedelta(hours=1),
        fire_at=instant,
    )


def test_one_instant_is_one_run_in_any_time_zone() -> None:
    noon = datetime(2030, 1, 1, 12, tzinfo=UTC)
    elsewhere = noon.astimezone(timezone(timedelta(hours=-7)))

    assert fire_at(elsewhere).request(now=noon) == fire_at(noon).request(now=noon)
    assert fire_at(noon).request(now=noon).trigger == "sch_1@2030-01-01T12:00:00+00:00"


def test_instants_a_microsecond_apart_are_two_runs() -> None:
    noon = datetime(2030, 1, 1, 12, tzinfo=UTC)

    assert fire_at(noon).run_id != fire_at(noon + timedelta(microseconds=1)).run_id
