"""What must still hold when a run begins: its files are there, and what it replays may be replayed."""

from collections.abc import Mapping

from headrace.common.db import Transaction
from headrace.common.errors import Conflict, NotFound
from headrace.common.files import FileGone, Files
from headrace.runner.errors import ReplayRefused
from headrace.runner.plans import replay_plan
from headrace.runner.repository import effects, runs
from headrace.runner.repository import journal as steps_of
from headrace.runner.repository.runs import Lease
from headrace.tools import Tool


class Admissible:
    """Looks once, when a run begins; what was true when it was asked for may have changed."""

    def __init__(self, files: Files, tools: Mapping[str, Tool]) -> None:
        self._files, self._tools = files, tools

    async def check(self, lease: Lease, tx: Transaction) -> None:
        """See that a run may begin.

        Raises:
            FileGone: A file of its input is no longer kept.
            ReplayRefused: The run that it replays went on, or did what cannot be told apart.
        """
        request = lease.request
        for file in request.files:
            try:
                await self._files.info(file.sha256)
            except NotFound as error:
                raise FileGone(f"the file {file.name!r} of this run is no longer kept") from error
        if request.replay_of is not None:
            await self._check_replay(
                request.account_id, request.replay_of, tx, forced=bool(request.forced_by)
            )

    async def _check_replay(self, account_id: str, replayed: str, tx: Transaction, *, forced: bool) -> None:
        try:
            row = await runs.find(tx.connection, account_id, replayed)
            steps = await steps_of.read(tx.connection, replayed)
            keys = [step.effect_key for step in steps if step.effect_key is not None]
            plan = replay_plan(
                row, steps, await effects.of_keys(tx.connection, account_id, keys), self._tools
            )
        except (Conflict, NotFound) as error:
            raise ReplayRefused(f"run {replayed} can no longer be replayed: {error.message}") from error
        if not plan.allowed and not forced:
            raise ReplayRefused(f"run {replayed} can no longer be replayed: {plan.why}")
