"""The gateway's named errors."""

from typing import Any

from headrace.common.errors import Conflict, HeadraceError, Terminal


class PreconditionFailed(Terminal):
    """Somebody saved in between."""

    status = 412
    code = "precondition_failed"


class PreconditionRequired(Terminal):
    """A save must say which revision it replaces."""

    status = 428
    code = "precondition_required"


class KeyReused(Terminal):
    """An Idempotency-Key came back with another request."""

    status = 422
    code = "idempotency_key_reused"


class WrongDecision(Terminal):
    """A decision about something that is not asked, or not so."""

    status = 422
    code = "wrong_decision"


class AgentGone(Terminal):
    """What a run was asked of is no more."""

    status = 410
    code = "agent_gone"


class ReplayRefused(Conflict):
    """Doing a run again might do something twice."""

    code = "replay_refused"

    def __init__(self, message: str, tools: tuple[str, ...]) -> None:
        super().__init__(message)
        self.tools = tools

    @property
    def members(self) -> dict[str, Any]:
        """The tools that would or might act twice."""
        return {"tools": list(self.tools)}


class RunFailed(HeadraceError):
    """The run ended, but not with an answer."""

    def __init__(self, message: str, *, code: str, status: int, run_id: str) -> None:
        super().__init__(message)
        self._status, self._code, self._run_id = status, code, run_id

    @property
    def status(self) -> int:  # type: ignore[override]  # told by the run's end
        """The HTTP status that fits the end."""
        return self._status

    @property
    def code(self) -> str:  # type: ignore[override]  # told by the run's end
        """The run's own error code."""
        return self._code

    @property
    def headers(self) -> dict[str, str]:
        """The run, so that it can be looked at."""
        return {"X-Headrace-Run-Id": self._run_id}
