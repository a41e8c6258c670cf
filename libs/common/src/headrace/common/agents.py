"""Agents as runs need them: asked of the gateway, and kept, since a revision never changes."""

from headrace.common.rpc import Rpc
from headrace.contracts.agents import AgentRevision, FindAgent

MAX_KEPT = 1_000


class Agents:
    """Finds agents."""

    def __init__(self, rpc: Rpc) -> None:
        self._rpc = rpc
        self._kept: dict[tuple[str, str, int], AgentRevision] = {}

    async def find(self, account_id: str, agent_id: str, revision: int | None) -> AgentRevision:
        """An agent at a revision, or as it is now.

        Raises:
            NotFound: The account has no such agent.
            Unavailable: The gateway does not answer.
        """
        if revision is not None and (kept := self._kept.get((account_id, agent_id, revision))):
            return kept
        agent = await self._rpc.ask(FindAgent(account_id=account_id, agent_id=agent_id, revision=revision))
        while len(self._kept) >= MAX_KEPT:
            self._kept.pop(next(iter(self._kept)))
        self._kept[(account_id, agent_id, agent.revision)] = agent
        return agent
