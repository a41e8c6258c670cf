"""Planning: what going on with a run, or doing it again, would mean."""

from headrace.common.errors import Conflict, HeadraceError, NotFound
from headrace.common.files import Files
from headrace.common.rpc import Rpc
from headrace.contracts.journal import PlanReplay, PlanResume, ReplayPlan, ResumePlan
from headrace.contracts.runs import RunState
from headrace.gateway.errors import AgentGone
from headrace.gateway.reading import RunReader


class Planner:
    """Asks the runner for plans.

    Args:
        reader: Knows the runs that the runner does not know yet.
        rpc: Asks the runner.
        files: Where the contents of files are; without it, it is left to the runner whether they are there.
    """

    def __init__(self, reader: RunReader, rpc: Rpc, files: Files | None = None) -> None:
        self._reader, self._rpc, self._files = reader, rpc, files

    async def resume(self, account_id: str, run_id: str) -> ResumePlan:
        """What resuming a run would do.

        Raises:
            Conflict: It cannot be resumed.
            AgentGone: The revision of its agent is no more.
            NotFound: The account has no such run.
        """
        try:
            return await self._rpc.ask(PlanResume(account_id=account_id, run_id=run_id))
        except NotFound as error:
            raise await self._unplanned(account_id, run_id, "resume", error) from error

    async def replay(self, account_id: str, run_id: str) -> ReplayPlan:
        """Whether a run may be done again. See `resume` for errors.

        Raises:
            FileGone: A file of its input is no longer stored.
        """
        try:
            plan = await self._rpc.ask(PlanReplay(account_id=account_id, run_id=run_id))
        except NotFound as error:
            raise await self._unplanned(account_id, run_id, "replay", error) from error
        if self._files is not None:
            await self._files.expect(plan.request.files)
        return plan

    async def _unplanned(self, account_id: str, run_id: str, what: str, error: NotFound) -> HeadraceError:
        report = await self._reader.report(account_id, run_id)
        if report.state is not RunState.REQUESTED:
            return AgentGone(f"run {run_id} cannot go on: {error.message}")
        return Conflict(f"run {run_id} is {report.state}; there is nothing to {what} yet")
