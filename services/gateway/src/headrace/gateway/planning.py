"""Planning: what going on with a run, or doing it again, would mean."""

from headrace.common.errors import Conflict, NotFound
from headrace.common.rpc import Rpc
from headrace.contracts.journal import PlanReplay, PlanResume, ReplayPlan, ResumePlan
from headrace.gateway.reading import RunReader


class Planner:
    """Asks the runner for plans.

    Args:
        reader: Knows the runs that the runner does not know yet.
        rpc: Asks the runner.
    """

    def __init__(self, reader: RunReader, rpc: Rpc) -> None:
        self._reader, self._rpc = reader, rpc

    async def resume(self, account_id: str, run_id: str) -> ResumePlan:
        """What resuming a run would do.

        Raises:
            Conflict: It cannot be resumed.
            NotFound: The account has no such run.
        """
        try:
            return await self._rpc.ask(PlanResume(account_id=account_id, run_id=run_id))
        except NotFound as error:
            raise await self._not_begun(account_id, run_id, "resume") from error

    async def replay(self, account_id: str, run_id: str) -> ReplayPlan:
        """Whether a run may be done again. See `resume` for errors."""
        try:
            return await self._rpc.ask(PlanReplay(account_id=account_id, run_id=run_id))
        except NotFound as error:
            raise await self._not_begun(account_id, run_id, "replay") from error

    async def _not_begun(self, account_id: str, run_id: str, what: str) -> Conflict:
        report = await self._reader.report(account_id, run_id)
        return Conflict(f"run {run_id} is {report.state}; there is nothing to {what} yet")
