"""Reading runs: the runner knows them, or they were only just asked for."""

from headrace.common.errors import NotFound
from headrace.common.rpc import Rpc
from headrace.contracts.journal import Ask, DecisionReport, JournalPage, ReadJournal, StepReport
from headrace.contracts.run_questions import FindRun, RunReport
from headrace.contracts.runs import RunState
from headrace.gateway import repository
from headrace.gateway.auth import KeyDoor


class RunWithJournal(RunReport):
    """Where a run stands, and how it came there."""

    steps: tuple[StepReport, ...]
    decisions: tuple[DecisionReport, ...]
    waiting: tuple[Ask, ...]


class RunReader:
    """Reads runs of an account.

    Args:
        door: Opens the gateway's own tables.
        rpc: Asks the runner.
    """

    def __init__(self, door: KeyDoor, rpc: Rpc) -> None:
        self._door, self._rpc = door, rpc

    async def report(self, account_id: str, run_id: str) -> RunReport:
        """Where a run stands.

        Raises:
            NotFound: The account has no such run.
        """
        try:
            return await self._rpc.ask(FindRun(account_id=account_id, run_id=run_id))
        except NotFound:
            async with self._door.transaction() as tx:
                asked = await repository.request_of(tx.connection, account_id, run_id)
            if asked is None:
                raise NotFound(f"there is no run {run_id}") from None
            return RunReport(
                run_id=run_id,
                account_id=account_id,
                agent_id=asked["agent_id"],
                session_id=None,
                door=asked["door"],
                state=RunState.REQUESTED,
                attempt=0,
                requested_at=asked["requested_at"],
            )

    async def with_journal(self, account_id: str, run_id: str) -> RunWithJournal:
        """Where a run stands, with its journal, which is at least as new. See `report` for errors."""
        report = await self.report(account_id, run_id)
        journal = await self.journal(account_id, run_id)
        return RunWithJournal.model_validate(
            {
                **dict(report),
                "steps": journal.steps,
                "decisions": journal.decisions,
                "waiting": journal.waiting,
            }
        )

    async def journal(self, account_id: str, run_id: str) -> JournalPage:
        """The whole journal, put together from its parts; empty for a run that did not begin."""
        first = page = await self._page(account_id, run_id, skip=0)
        steps, read = {(step.path, step.seq): step for step in first.steps}, len(first.steps)
        while page.more and page.steps:
            page = await self._page(account_id, run_id, skip=read)
            read += len(page.steps)
            steps |= {(step.path, step.seq): step for step in page.steps}
        return first.model_copy(update={"steps": tuple(steps.values()), "more": False})

    async def waiting(self, account_id: str, run_id: str) -> tuple[Ask, ...]:
        """What a person is asked."""
        return (await self._page(account_id, run_id, skip=0)).waiting

    async def _page(self, account_id: str, run_id: str, *, skip: int) -> JournalPage:
        try:
            return await self._rpc.ask(ReadJournal(account_id=account_id, run_id=run_id, skip=skip))
        except NotFound:
            return JournalPage(steps=())
