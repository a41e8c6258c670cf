"""The runner's named errors."""

from headrace.common.errors import Retryable, Terminal


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


class ModelRefused(Terminal):
    """The provider says that this call can never work: a wrong key, model or request."""

    code = "model_refused"
    status = 502


class LimitReached(Terminal):
    """The run met one of its own ceilings."""

    code = "limit_reached"
    status = 422
