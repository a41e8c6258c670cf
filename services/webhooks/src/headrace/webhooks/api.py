"""The HTTP edge: where signed events arrive."""

from fastapi import APIRouter, Request

from headrace.contracts.ids import Token
from headrace.webhooks.receive import Receipt, Receiver


def hooks(receiver: Receiver) -> APIRouter:
    """The addresses of subscriptions."""
    router = APIRouter(tags=["hooks"])

    @router.post("/hooks/{subscription_id}", status_code=202)
    async def receive(subscription_id: Token, request: Request) -> Receipt:
        """Take a Standard Webhooks event in. Sent again, it is the same run."""
        return await receiver.receive(subscription_id, request.headers, await request.body())

    return router
