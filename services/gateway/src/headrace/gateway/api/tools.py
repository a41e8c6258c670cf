"""`/v1/tools`: what agents can be given."""

from typing import Annotated

from fastapi import APIRouter

from headrace.common.rpc import Rpc
from headrace.contracts.journal import KnownTool, ListTools
from headrace.gateway.auth import KeyDoor


def tools_router(door: KeyDoor, rpc: Rpc) -> APIRouter:
    """The route `/v1/tools`."""
    router = APIRouter(prefix="/v1/tools", tags=["agents"])

    @router.get("")
    async def every(_account: Annotated[str, door.account()]) -> list[KnownTool]:
        """The tools of this deployment, by name, and what each may do to the world."""
        return list((await rpc.ask(ListTools())).tools)

    return router
