"""Composition root of the gateway."""

from headrace.common.app import Infra, Parts, Service
from headrace.common.rpc import answers
from headrace.contracts.agents import TOOLS, AgentRevision, FindAgent
from headrace.contracts.ids import new_id
from headrace.gateway import repository
from headrace.gateway.api.again import again_router
from headrace.gateway.api.agents import agents_router
from headrace.gateway.api.chat import chat_router
from headrace.gateway.api.decisions import decisions_router
from headrace.gateway.api.files import FILES_PATH, files_router
from headrace.gateway.api.knowledge import knowledge_router
from headrace.gateway.api.runs import runs_router
from headrace.gateway.api.tools import tools_router
from headrace.gateway.api.triggers import triggers_router
from headrace.gateway.auth import KeyDoor, hash_key
from headrace.gateway.commands import Commands
from headrace.gateway.events import EventLog
from headrace.gateway.models import metadata
from headrace.gateway.planning import Planner
from headrace.gateway.reading import RunReader
from headrace.gateway.settings import GatewaySettings

FIRST_INSTRUCTION = "You are a helpful assistant. Use the tools that you have when they help, and say so when you do not know."


def create_service(settings: GatewaySettings) -> Service:
    """The gateway as a value."""

    def compose(infra: Infra) -> Parts:
        door = KeyDoor(infra.db)
        reader, commands = RunReader(door, infra.rpc), Commands(door, infra.clock)
        events = EventLog(infra.bus, infra.rpc, doubt=settings.doubt_seconds, ping=settings.ping_seconds)

        async def find_agent(question: FindAgent) -> AgentRevision:
            async with infra.db.transaction() as tx:
                return await repository.find_revision(
                    tx.connection, question.account_id, question.agent_id, question.revision
                )

        async def prepare() -> None:
            await _bootstrap(infra, settings)
            await events.listen()

        return Parts(
            routes=(
                chat_router(door, events, infra.clock, patience=settings.answer_seconds),
                runs_router(door, events, reader, commands, infra.clock, files=infra.files),
                decisions_router(door, reader, commands),
                again_router(door, reader, Planner(reader, infra.rpc, infra.files), commands, infra.clock),
                agents_router(door, infra.rpc, infra.clock),
                tools_router(door, infra.rpc),
                triggers_router(door, infra.rpc),
                knowledge_router(door, infra.rpc),
                files_router(door, infra.files, infra.clock, max_bytes=settings.max_file_bytes),
            ),
            streamed={FILES_PATH: settings.max_file_bytes},
            answers=(answers(FindAgent, find_agent),),
            prepare=prepare,
        )

    return Service("gateway", "The public API of Headrace.", metadata, compose)


async def _bootstrap(infra: Infra, settings: GatewaySettings) -> None:
    """See that the bootstrap key opens an account."""
    if settings.bootstrap_key is None:
        return
    account_id = new_id()
    agent = AgentRevision(
        agent_id=new_id(),
        account_id=account_id,
        revision=1,
        name="assistant",
        instruction=FIRST_INSTRUCTION,
        tools=TOOLS,
    )
    key_hash = hash_key(settings.bootstrap_key.get_secret_value())
    async with infra.db.transaction() as tx:
        await repository.bootstrap(
            tx.connection, key_hash=key_hash, account_id=account_id, agent=agent, now=infra.clock.now()
        )
