"""The rate at which an account starts runs: a sliding window in Redis, kept by one atomic script."""

import logging
from datetime import datetime
from typing import Any, Literal

from redis.asyncio import Redis
from redis.exceptions import RedisError

from headrace.common.errors import Unavailable

log = logging.getLogger(__name__)

WINDOW_MS = 60_000

_TAKE = """
local now, window, limit = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - window)
if redis.call('ZSCORE', KEYS[1], ARGV[4]) then return -1 end
if redis.call('ZCARD', KEYS[1]) >= limit then
  return math.max(1, tonumber(redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]) + window - now)
end
redis.call('ZADD', KEYS[1], now, ARGV[4])
redis.call('PEXPIRE', KEYS[1], window)
return -1
"""


class RateWindow:
    """Counts runs in any sixty seconds. Losing Redis loses the last minute's counts, and nothing else.

    Args:
        redis: Where the windows are.
        limit: Runs per account and minute; 0 is unlimited.
        when_away: Let in (`open`) or wait (`closed`) while Redis does not answer.
    """

    def __init__(self, redis: "Redis", *, limit: int, when_away: Literal["open", "closed"]) -> None:
        self._redis, self._limit, self._when_away = redis, limit, when_away
        self._take: Any = redis.register_script(_TAKE)

    async def take(self, account_id: str, run_id: str, *, now: datetime) -> str | None:
        """Take a place in the window; a run has one place however often it asks.

        Returns:
            `None`, or the sentence that refuses the run.

        Raises:
            Unavailable: Redis does not answer, and the door is closed then.
        """
        if self._limit == 0:
            return None
        try:
            args = [int(now.timestamp() * 1_000), WINDOW_MS, self._limit, run_id]
            wait_ms = int(await self._take(keys=[f"headrace:rate:{account_id}"], args=args))
        except (RedisError, OSError) as error:
            if self._when_away == "closed":
                raise Unavailable("Redis does not answer, so the rate cannot be read", after=1) from error
            log.warning("rate.unread", extra={"account_id": account_id, "error": str(error)})
            return None
        if wait_ms < 0:
            return None
        seconds = -(-wait_ms // 1_000)
        return f"the account may start {self._limit} runs a minute, and has; try again in {seconds} s"
