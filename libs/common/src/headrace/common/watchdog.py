"""The watchdog: sees consumers that the broker no longer serves, although somebody asks and everything is pending."""

from dataclasses import dataclass, field

from nats.js import api

PATIENCE_SECONDS = 35.0
"""More than three times the time after which the broker delivers again by itself."""


@dataclass(slots=True)
class Watchdog:
    """Remembers how far each consumer was.

    Args:
        patience: Seconds without any movement after which a consumer is stuck.
    """

    patience: float = PATIENCE_SECONDS
    _still: dict[str, tuple[tuple[int, int], float]] = field(default_factory=dict, init=False)

    def is_stuck(self, info: api.ConsumerInfo, *, now: float) -> bool:
        """Whether a consumer has as many deliveries out as it may, is asked for more, and has stood still for long.

        Args:
            info: The consumer as the broker tells of it.
            now: Seconds of a monotonic clock.
        """
        most = info.config.max_ack_pending or 0
        if not info.num_waiting or (info.num_ack_pending or 0) < most or info.delivered is None:
            self._still.pop(info.name, None)
            return False
        floor = 0 if info.ack_floor is None else info.ack_floor.consumer_seq
        place = (info.delivered.consumer_seq, floor)
        seen, since = self._still.setdefault(info.name, (place, now))
        if seen != place:
            self._still[info.name] = (place, now)
            return False
        return now - since > self.patience
