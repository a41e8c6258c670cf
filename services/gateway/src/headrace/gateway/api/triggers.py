"""`/v1/webhooks` and `/v1/schedules`: what else may start an agent. Their services own them; this is their public door."""

from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from headrace.common.errors import NotFound
from headrace.common.rpc import Rpc
from headrace.contracts.hooks import CreateSubscription, DeleteSubscription, ListSubscriptions, Subscription
from headrace.contracts.ids import Token, new_id
from headrace.contracts.schedules import CreateSchedule, DeleteSchedule, ListSchedules, Schedule
from headrace.contracts.text import Text
from headrace.gateway import repository
from headrace.gateway.auth import KeyDoor


class WebhookWanted(BaseModel):
    """An address for signed events."""

    model_config = ConfigDict(extra="forbid")

    agent: Text = Field(min_length=1, max_length=128)
    name: Text = Field(min_length=1, max_length=200)


class ScheduleWanted(BaseModel):
    """An interval at which an agent runs."""

    model_config = ConfigDict(extra="forbid")

    agent: Text = Field(min_length=1, max_length=128)
    name: Text = Field(min_length=1, max_length=200)
    every_seconds: int = Field(ge=1, le=31_536_000)
    prompt: Text = Field(min_length=1, max_length=100_000)


def triggers_router(door: KeyDoor, rpc: Rpc) -> APIRouter:
    """The routes for webhooks and schedules."""
    router = APIRouter(prefix="/v1", tags=["triggers"])

    @router.post("/webhooks", status_code=201)
    async def open_webhook(wanted: WebhookWanted, account: Annotated[str, door.account()]) -> Subscription:
        """Open an address for Standard Webhooks. The signing secret is told once, here."""
        async with door.transaction() as tx:
            agent = await repository.find_agent(tx.connection, account, wanted.agent)
        return await rpc.ask(
            CreateSubscription(
                subscription_id=new_id(),
                account_id=account,
                agent_id=agent.agent_id,
                name=wanted.name,
            )
        )

    @router.get("/webhooks")
    async def webhooks(account: Annotated[str, door.account()]) -> list[Subscription]:
        """The account's webhooks, without their secrets."""
        return list((await rpc.ask(ListSubscriptions(account_id=account))).items)

    @router.delete("/webhooks/{subscription_id}", status_code=204)
    async def close_webhook(subscription_id: Token, account: Annotated[str, door.account()]) -> None:
        """Close an address."""
        gone = await rpc.ask(DeleteSubscription(account_id=account, subscription_id=subscription_id))
        if not gone.existed:
            raise NotFound(f"there is no webhook {subscription_id}")

    @router.post("/schedules", status_code=201)
    async def schedule(wanted: ScheduleWanted, account: Annotated[str, door.account()]) -> Schedule:
        """Run an agent at an interval, for the first time one interval from now."""
        async with door.transaction() as tx:
            agent = await repository.find_agent(tx.connection, account, wanted.agent)
        return await rpc.ask(
            CreateSchedule(
                schedule_id=new_id(),
                account_id=account,
                agent_id=agent.agent_id,
                name=wanted.name,
                every_seconds=wanted.every_seconds,
                prompt=wanted.prompt,
            )
        )

    @router.get("/schedules")
    async def schedules(account: Annotated[str, door.account()]) -> list[Schedule]:
        """The account's schedules, with the last run of each."""
        return list((await rpc.ask(ListSchedules(account_id=account))).items)

    @router.delete("/schedules/{schedule_id}", status_code=204)
    async def unschedule(schedule_id: Token, account: Annotated[str, door.account()]) -> None:
        """Stop a schedule; runs that were fired go on."""
        gone = await rpc.ask(DeleteSchedule(account_id=account, schedule_id=schedule_id))
        if not gone.existed:
            raise NotFound(f"there is no schedule {schedule_id}")

    return router
