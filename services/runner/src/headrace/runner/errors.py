"""The runner's named errors."""

from headrace.common.errors import Conflict, Retryable, Terminal, Unavailable
from headrace.contracts.runs import TokenCount


class LeaseLost(Terminal):
    """Another runner has the run, or it was ended from outside; whatever this one did since is void."""

    code = "lease_lost"
    status = 409


class NotRecordedYet(Retryable):
    """A decision about a run came before the run's own record."""

    code = "not_recorded_yet"


class ModelFailed(Retryable):
    """The model did not answer, and may later."""

    code = "model_failed"

    def __init__(self, message: str, *, after: float | None = None, tokens: TokenCount | None = None) -> None:
        super().__init__(message, after=after)
        self.tokens = tokens
        """What an answer that broke off cost all the same."""


class ModelRefused(Terminal):
    """The provider says that this call can never work: a wrong key, model or request."""

    code = "model_refused"
    status = 502


class LimitReached(Terminal):
    """The run met one of its own ceilings."""

    code = "limit_reached"
    status = 422


class EffectBusy(Unavailable):
    """Another run with the same intent is acting right now; how that ends decides what this one may do."""

    code = "effect_busy"

    def __init__(self, message: str) -> None:
        super().__init__(message, after=1)


class JournalMismatch(Conflict):
    """The journal was made by other code or another definition, so going on with it could do anything."""

    code = "journal_mismatch"


class ReplayRefused(Terminal):
    """What a replay may do changed since it was asked for."""

    code = "replay_refused"
    status = 409
