"""The rate of an account, on a real Redis."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Literal

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from headrace.common.errors import Unavailable
from headrace.local.loopback import free_port
from headrace.usage.rate import RateWindow
from tests.support.servers import RedisEndpoint

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
REFUSED = "the account may start 3 runs a minute, and has; try again in {} s"


@pytest_asyncio.fixture
async def redis(redis_server: RedisEndpoint) -> AsyncIterator[Redis]:
    client = Redis.from_url(redis_server.url)
    yield client
    await client.aclose()


@pytest.fixture
def account() -> str:
    """An account of the test's own."""
    return f"acc_{secrets.token_hex(8)}"


def window(redis: Redis, *, limit: int = 3, when_away: Literal["open", "closed"] = "closed") -> RateWindow:
    return RateWindow(redis, limit=limit, when_away=when_away)


async def take(rate: RateWindow, account: str, *runs: str, at: float = 0) -> list[str | None]:
    return [await rate.take(account, run, now=NOON + timedelta(seconds=at)) for run in runs]


async def test_as_many_as_the_limit_pass_and_the_next_is_refused_with_seconds(
    redis: Redis, account: str
) -> None:
    assert await take(window(redis), account, "a", "b", "c", "d") == [None, None, None, REFUSED.format(60)]


async def test_seconds_count_down(redis: Redis, account: str) -> None:
    rate = window(redis)
    await take(rate, account, "a", "b", "c")

    assert await take(rate, account, "d", at=59.5) == [REFUSED.format(1)]


async def test_place_is_free_again_after_a_minute(redis: Redis, account: str) -> None:
    rate = window(redis)
    await take(rate, account, "a", "b", "c")

    assert await take(rate, account, "d", at=60) == [None]


async def test_window_slides(redis: Redis, account: str) -> None:
    rate = window(redis)
    await take(rate, account, "a")
    await take(rate, account, "b", "c", at=30)

    assert await take(rate, account, "d", "e", at=61) == [None, REFUSED.format(29)]


async def test_run_that_asks_again_has_its_place(redis: Redis, account: str) -> None:
    rate = window(redis)
    await take(rate, account, "a", "b", "c")

    assert await take(rate, account, "a", "b", "c") == [None, None, None]


async def test_run_that_asks_again_takes_no_second_place(redis: Redis, account: str) -> None:
    assert await take(window(redis), account, "a", "a", "a", "b", "c") == [None] * 5


async def test_refused_run_takes_no_place(redis: Redis, account: str) -> None:
    rate = window(redis)
    await take(rate, account, "a", "b", "c")
    await take(rate, account, "d", "e", "f", at=30)

    assert await take(rate, account, "d", at=60) == [None]


async def test_another_account_is_free(redis: Redis, account: str) -> None:
    rate = window(redis)
    await take(rate, account, "a", "b", "c")

    assert await take(rate, f"{account}_other", "a") == [None]


async def test_no_limit_is_no_limit(redis: Redis, account: str) -> None:
    assert await take(window(redis, limit=0), account, *map(str, range(10))) == [None] * 10


async def test_asking_at_once_admits_exactly_the_limit(redis: Redis, account: str) -> None:
    rates = [window(redis, limit=5) for _ in range(4)]

    answers = await asyncio.gather(*(rates[n % 4].take(account, f"run_{n}", now=NOON) for n in range(20)))

    assert answers.count(None) == 5


async def test_window_is_forgotten_when_it_is_over(redis: Redis, account: str) -> None:
    await take(window(redis), account, "a")

    assert 0 < await redis.pttl(f"headrace:rate:{account}") <= 60_000


class TestRedisIsAway:
    @pytest_asyncio.fixture
    async def nobody(self) -> AsyncIterator[Redis]:
        client = Redis.from_url(
            f"redis://127.0.0.1:{free_port()}/0", socket_timeout=2, socket_connect_timeout=2
        )
        yield client
        await client.aclose()

    async def test_open_door_lets_in(self, nobody: Redis, account: str) -> None:
        assert await take(window(nobody, when_away="open"), account, "a") == [None]

    async def test_closed_door_waits(self, nobody: Redis, account: str) -> None:
        with pytest.raises(Unavailable, match="the rate cannot be read"):
            await take(window(nobody, when_away="closed"), account, "a")
