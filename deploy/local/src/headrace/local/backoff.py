"""How long to wait before a child is started again."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Backoff:
    """Delays that double from `first` to `most` seconds, and start over after a life of `healthy` seconds."""

    first: float = 0.25
    most: float = 10
    healthy: float = 5
    _next: float = field(default=0, init=False)

    def after(self, lived: float) -> float:
        """The delay in seconds after a child that lived this long."""
        delay = self.first if lived >= self.healthy else max(self.first, self._next)
        self._next = min(delay * 2, self.most)
        return delay
