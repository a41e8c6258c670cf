"""What the tests of the routes share: the doors, a caller, and an agent."""

from dataclasses import dataclass

import httpx

from headrace.contracts.agents import AgentRevision
from headrace.gateway.auth import hash_key
from tests.support.service_database import ServiceDatabase
from tests.unit.gateway.fakes import ToldRpc

KEY = "hr_secret"
BY = f"desk ({hash_key(KEY).hex()[:8]})"
AGENT = AgentRevision(agent_id="agent_1", account_id="acc_1", revision=1, name="clerk", instruction="")


@dataclass(frozen=True)
class Desk:
    """The gateway's doors with a database of their own, and a runner that a test tells what to answer."""

    http: httpx.AsyncClient
    rpc: ToldRpc
    stored: ServiceDatabase
