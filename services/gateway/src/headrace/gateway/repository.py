"""All SQL of the gateway. What belongs to an account is found with its id only."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, delete, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from headrace.common.errors import Conflict, NotFound
from headrace.contracts.agents import AgentRevision
from headrace.contracts.runs import InputFile
from headrace.gateway.errors import PreconditionFailed
from headrace.gateway.models import accounts, agent_revisions, agents, api_keys, commands, files, requests

_OWNER = select(api_keys.c.account_id, api_keys.c.label).where(api_keys.c.key_hash == bindparam("hash"))


async def owner_of_key(connection: AsyncConnection, key_hash: bytes) -> tuple[str, str] | None:
    """The account of an API key, and the key's label."""
    row = (await connection.execute(_OWNER, {"hash": key_hash})).first()
    return None if row is None else (row.account_id, row.label)


async def bootstrap(
    connection: AsyncConnection, *, key_hash: bytes, account_id: str, agent: AgentRevision, now: datetime
) -> None:
    """Make the first account and agent where there is no account, and see that a key opens it."""
    await connection.execute(select(func.pg_advisory_xact_lock(func.hashtext("headrace bootstrap"))))
    if await connection.scalar(_OWNER, {"hash": key_hash}) is not None:
        return
    first = await connection.scalar(select(accounts.c.account_id).order_by(accounts.c.created_at).limit(1))
    if first is None:
        await connection.execute(
            insert(accounts), {"account_id": account_id, "name": "default", "created_at": now}
        )
        await create_agent(connection, agent, now=now)
        first = account_id
    await connection.execute(
        insert(api_keys), {"key_hash": key_hash, "account_id": first, "label": "bootstrap", "created_at": now}
    )


_CURRENT = select(agent_revisions.c.definition).join(
    agents,
    (agents.c.agent_id == agent_revisions.c.agent_id) & (agents.c.revision == agent_revisions.c.revision),
)
_CURRENT_OF_ACCOUNT = _CURRENT.where(agents.c.account_id == bindparam("account"))
_NAMED = (
    _CURRENT_OF_ACCOUNT.order_by(agents.c.agent_id != bindparam("name"))
    .limit(1)
    .where(or_(agents.c.agent_id == bindparam("name"), agents.c.name == bindparam("name")))
)


async def find_agent(connection: AsyncConnection, account_id: str, name_or_id: str) -> AgentRevision:
    """An agent as it is now.

    Raises:
        NotFound: The account has no such agent.
    """
    definition = await connection.scalar(_NAMED, {"account": account_id, "name": name_or_id})
    if definition is None:
        raise NotFound(f"there is no agent {name_or_id!r}; GET /v1/agents lists yours")
    return AgentRevision.model_validate(definition)


async def find_revision(
    connection: AsyncConnection, account_id: str, agent_id: str, revision: int | None
) -> AgentRevision:
    """An agent at a revision, or as it is now. See `find_agent` for errors."""
    if revision is None:
        return await find_agent(connection, account_id, agent_id)
    definition = await connection.scalar(
        select(agent_revisions.c.definition).where(
            agent_revisions.c.account_id == account_id,
            agent_revisions.c.agent_id == agent_id,
            agent_revisions.c.revision == revision,
        )
    )
    if definition is None:
        raise NotFound(f"there is no revision {revision} of agent {agent_id!r}")
    return AgentRevision.model_validate(definition)


async def list_agents(connection: AsyncConnection, account_id: str) -> list[AgentRevision]:
    """An account's agents as they are now, by name."""
    rows = await connection.execute(_CURRENT_OF_ACCOUNT.order_by(agents.c.name), {"account": account_id})
    return [AgentRevision.model_validate(definition) for definition in rows.scalars()]


async def create_agent(connection: AsyncConnection, agent: AgentRevision, *, now: datetime) -> None:
    """Store a new agent at its first revision.

    Raises:
        Conflict: The account has an agent of this name.
    """
    made = await connection.execute(
        insert(agents).on_conflict_do_nothing().returning(agents.c.agent_id),
        {
            "agent_id": agent.agent_id,
            "account_id": agent.account_id,
            "name": agent.name,
            "revision": agent.revision,
            "created_at": now,
        },
    )
    if made.first() is None:
        raise Conflict(f"there is already an agent named {agent.name!r}")
    await _keep(connection, agent, now=now)


async def save_agent(connection: AsyncConnection, agent: AgentRevision, *, now: datetime) -> None:
    """Store the next revision of an agent.

    Raises:
        PreconditionFailed: Somebody saved in between.
        Conflict: Another agent has the new name.
    """
    taken = await connection.scalar(
        select(agents.c.agent_id).where(
            agents.c.account_id == agent.account_id,
            agents.c.name == agent.name,
            agents.c.agent_id != agent.agent_id,
        )
    )
    if taken is not None:
        raise Conflict(f"there is already an agent named {agent.name!r}")
    saved = await connection.execute(
        update(agents)
        .where(
            agents.c.account_id == agent.account_id,
            agents.c.agent_id == agent.agent_id,
            agents.c.revision == agent.revision - 1,
        )
        .values(name=agent.name, revision=agent.revision)
    )
    if saved.rowcount != 1:
        raise PreconditionFailed(
            f"agent {agent.name!r} is no longer at revision {agent.revision - 1}; read it again"
        )
    await _keep(connection, agent, now=now)


async def _keep(connection: AsyncConnection, agent: AgentRevision, *, now: datetime) -> None:
    await connection.execute(
        insert(agent_revisions),
        {
            "agent_id": agent.agent_id,
            "revision": agent.revision,
            "account_id": agent.account_id,
            "definition": agent.model_dump(mode="json"),
            "saved_at": now,
        },
    )


async def delete_agent(connection: AsyncConnection, account_id: str, agent_id: str) -> None:
    """Take an agent away; its revisions stay, for the runs that pinned them.

    Raises:
        NotFound: The account has no such agent.
    """
    gone = await connection.execute(
        delete(agents).where(agents.c.account_id == account_id, agents.c.agent_id == agent_id)
    )
    if gone.rowcount != 1:
        raise NotFound(f"there is no agent {agent_id!r}")


_ACCEPT = insert(requests).on_conflict_do_nothing().returning(requests.c.run_id)
_ACCEPTED = select(requests.c.digest).where(requests.c.run_id == bindparam("run"))


async def accepted(connection: AsyncConnection, run_id: str) -> bytes | None:
    """The digest of the request that a run came from, if it came through this door."""
    digest: bytes | None = await connection.scalar(_ACCEPTED, {"run": run_id})
    return digest


async def accept(connection: AsyncConnection, row: dict[str, Any]) -> bytes | None:
    """Store a request once; answers the digest of the one that was first, if it was not this one."""
    made = await connection.execute(_ACCEPT, row)
    if made.first() is not None:
        return None
    return await accepted(connection, row["run_id"])


async def request_of(connection: AsyncConnection, account_id: str, run_id: str) -> dict[str, Any] | None:
    """A request that came in through this door."""
    found = await connection.execute(
        select(requests).where(requests.c.run_id == run_id, requests.c.account_id == account_id)
    )
    row = found.mappings().first()
    return None if row is None else dict(row)


async def given(connection: AsyncConnection, command_id: str) -> bytes | None:
    """The digest of a command that was given before."""
    digest: bytes | None = await connection.scalar(
        select(commands.c.digest).where(commands.c.command_id == command_id)
    )
    return digest


async def give(connection: AsyncConnection, row: dict[str, Any]) -> bytes | None:
    """Store a command once; answers the digest of the one that was first, if it was not this one."""
    made = await connection.execute(
        insert(commands).on_conflict_do_nothing().returning(commands.c.command_id), row
    )
    if made.first() is not None:
        return None
    return await given(connection, row["command_id"])


async def keep_file(connection: AsyncConnection, account_id: str, file: InputFile, *, now: datetime) -> None:
    """Say that an account has a file. The same content again takes the new name and type."""
    row = {"account_id": account_id, **file.model_dump(), "stored_at": now}
    new = insert(files).values(row)
    named = {column: new.excluded[column] for column in ("name", "media_type", "stored_at")}
    await connection.execute(new.on_conflict_do_update(index_elements=["account_id", "sha256"], set_=named))


async def find_files(
    connection: AsyncConnection, account_id: str, hashes: Sequence[str]
) -> tuple[InputFile, ...]:
    """Files of an account, in the order of their hashes.

    Raises:
        NotFound: The account did not upload one of them.
    """
    if not hashes:
        return ()
    found = await connection.execute(
        select(files.c.sha256, files.c.name, files.c.media_type, files.c.size).where(
            files.c.account_id == account_id, files.c.sha256.in_(hashes)
        )
    )
    by_hash = {row["sha256"]: InputFile.model_validate(dict(row)) for row in found.mappings()}
    for sha256 in hashes:
        if sha256 not in by_hash:
            raise NotFound(f"you have no file with the hash {sha256}; POST /v1/files uploads one")
    return tuple(by_hash[sha256] for sha256 in hashes)
