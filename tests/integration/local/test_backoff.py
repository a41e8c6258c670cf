"""How long a child that keeps dying waits."""

from headrace.local.backoff import Backoff


def test_delays_double_up_to_ten_seconds() -> None:
    backoff = Backoff()

    assert [backoff.after(lived=0) for _ in range(8)] == [0.25, 0.5, 1, 2, 4, 8, 10, 10]


def test_a_healthy_life_starts_over() -> None:
    backoff = Backoff()
    for _ in range(5):
        backoff.after(lived=1)

    assert [backoff.after(lived=5), backoff.after(lived=1)] == [0.25, 0.5]
