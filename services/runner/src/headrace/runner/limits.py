"""The ceilings of one run, as a value."""

from dataclasses import dataclass

from headrace.runner.errors import LimitReached


@dataclass(frozen=True, slots=True)
class RunLimits:
    """What one run may use."""

    model_calls: int
    """Model calls, over all attempts."""
    tokens: int
    """Tokens of all classes, over all attempts."""
    seconds: float
    """Wall time of one attempt, in seconds; waiting for a person is none."""

    def check_before_model_call(self, *, calls_made: int, tokens: int, seconds_spent: float) -> None:
        """See whether another model call is within the ceilings.

        Raises:
            LimitReached: It is not; the sentence has the numbers.
        """
        if calls_made >= self.model_calls:
            raise LimitReached(f"the run made {calls_made} model calls, and may make {self.model_calls}")
        if tokens >= self.tokens:
            raise LimitReached(f"the run used {tokens} tokens, and may use {self.tokens}")
        if seconds_spent >= self.seconds:
            raise LimitReached(f"the run took {seconds_spent:.0f} s, and may take {self.seconds:.0f} s")
