"""`/v1/agents`: agents are rows; every save is a revision, and the loser of a race is told."""

from typing import Annotated

from fastapi import APIRouter, Header, Response
from pydantic import BaseModel, ConfigDict, Field

from headrace.common.clock import Clock
from headrace.common.errors import Invalid
from headrace.common.rpc import Rpc
from headrace.contracts.agents import AgentRevision
from headrace.contracts.ids import Token, new_id
from headrace.contracts.text import Text
from headrace.gateway import repository
from headrace.gateway.auth import Caller, KeyDoor
from headrace.gateway.errors import PreconditionFailed, PreconditionRequired
from headrace.gateway.tools import see_that_tools_exist


class AgentWanted(BaseModel):
    """An agent as its builder writes it."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$", description="What clients give as `model`.")
    instruction: Text = Field(default="", max_length=100_000)
    model: Text | None = Field(
        default=None, max_length=200, description="A LiteLLM name; absent: the default model."
    )
    tools: list[Text] = Field(default=[], max_length=100, description="Names of `GET /v1/tools`.")
    approvals: list[Text] = Field(
        default=[],
        max_length=100,
        description="Those of its tools whose every call a person must approve, besides those that always ask.",
    )

    def at(self, revision: int, *, agent_id: str, account_id: str) -> AgentRevision:
        """The agent at a revision.

        Raises:
            Invalid: It asks for approval of a tool that it does not have.
        """
        foreign = sorted(set(self.approvals) - set(self.tools))
        if foreign:
            raise Invalid(f"`approvals` names {foreign[0]!r}, which is not one of the agent's `tools`")
        return AgentRevision(
            agent_id=agent_id,
            account_id=account_id,
            revision=revision,
            name=self.name,
            instruction=self.instruction,
            model=self.model,
            tools=tuple(sorted(set(self.tools))),
            approvals=tuple(sorted(set(self.approvals))),
        )


def agents_router(door: KeyDoor, rpc: Rpc, clock: Clock) -> APIRouter:
    """The routes under `/v1/agents`. An agent is addressed by its id or its name."""
    router = APIRouter(prefix="/v1/agents", tags=["agents"])

    @router.post("", status_code=201)
    async def create(
        wanted: AgentWanted, response: Response, account: Annotated[str, door.account()]
    ) -> AgentRevision:
        """Make an agent."""
        agent = wanted.at(1, agent_id=new_id(), account_id=account)
        await see_that_tools_exist(agent.tools, rpc)
        async with door.transaction() as tx:
            await repository.create_agent(tx.connection, agent, now=clock.now())
        response.headers["ETag"] = _etag(agent)
        response.headers["Location"] = f"/v1/agents/{agent.agent_id}"
        return agent

    @router.get("")
    async def every(caller: Annotated[Caller, door.dependency()]) -> list[AgentRevision]:
        """The account's agents, by name."""
        return await repository.list_agents(caller.tx.connection, caller.account_id)

    @router.get("/{agent}")
    async def look(
        agent: Token, response: Response, caller: Annotated[Caller, door.dependency()]
    ) -> AgentRevision:
        """An agent as it is now; its ETag is its revision."""
        found = await repository.find_agent(caller.tx.connection, caller.account_id, agent)
        response.headers["ETag"] = _etag(found)
        return found

    @router.put("/{agent}")
    async def save(
        agent: Token,
        wanted: AgentWanted,
        response: Response,
        account: Annotated[str, door.account()],
        if_match: Annotated[str | None, Header()] = None,
    ) -> AgentRevision:
        """Save an agent's next revision; `If-Match` says which one it replaces."""
        await see_that_tools_exist(wanted.tools, rpc)
        async with door.transaction() as tx:
            current = await repository.find_agent(tx.connection, account, agent)
            if if_match is None:
                raise PreconditionRequired(f"send `If-Match: {_etag(current)}`, the ETag of what you read")
            if if_match.strip() not in (_etag(current), "*"):
                raise PreconditionFailed(
                    f"agent {current.name!r} is at revision {current.revision}; read it again"
                )
            saved = wanted.at(current.revision + 1, agent_id=current.agent_id, account_id=account)
            await repository.save_agent(tx.connection, saved, now=clock.now())
        response.headers["ETag"] = _etag(saved)
        return saved

    @router.delete("/{agent}", status_code=204)
    async def remove(agent: Token, caller: Annotated[Caller, door.dependency()]) -> None:
        """Take an agent away. Runs in flight keep the revision that they pinned."""
        found = await repository.find_agent(caller.tx.connection, caller.account_id, agent)
        await repository.delete_agent(caller.tx.connection, caller.account_id, found.agent_id)

    return router


def _etag(agent: AgentRevision) -> str:
    return f'"{agent.revision}"'
