from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from headrace.scheduler.interval import next_fire

instants = st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001  (the time zone is given beside)
intervals = st.integers(1, 31_536_000).map(lambda seconds: timedelta(seconds=seconds))
gaps = st.timedeltas(timedelta(0), timedelta(days=3_650))


@given(fired_at=instants, every=intervals, gap=gaps)
def test_next_fire_is_the_first_instant_of_the_grid_after_now(
    fired_at: datetime, every: timedelta, gap: timedelta
) -> None:
    now = fired_at + gap

    following = next_fire(fired_at, every=every, now=now)

    assert following > now
    assert following - every <= now
    assert (following - fired_at) % every == timedelta(0)


def test_punctual_fire_is_followed_one_interval_later() -> None:
    noon = datetime(2030, 1, 1, 12, tzinfo=UTC)

    assert next_fire(noon, every=timedelta(minutes=5), now=noon) == noon + timedelta(minutes=5)


def test_gap_is_skipped_without_shifting_the_grid() -> None:
    noon = datetime(2030, 1, 1, 12, tzinfo=UTC)

    after_gap = next_fire(noon, every=timedelta(minutes=5), now=noon + timedelta(minutes=17, seconds=3))

    assert after_gap == noon + timedelta(minutes=20)
