"""Upkeep: streams and consumers that go missing are made again, with the operator's identity."""

from collections.abc import Awaitable, Callable

from pydantic import SecretStr

from headrace.common import topology


def stream_keeping(operator_nats_url: SecretStr) -> Callable[[], Awaitable[None]]:
    """The loop that keeps the declared topology. Replicas may all run it: making what is there changes nothing.

    Args:
        operator_nats_url: NATS, with the operator's user.
    """

    async def keep_streams() -> None:
        await topology.keep(operator_nats_url.get_secret_value())

    return keep_streams
