"""What a sweep does with messages that no service consumes."""

from collections.abc import Sequence
from typing import Any, cast

from headrace.common.errors import Unavailable
from headrace.common.outbox import Parcel
from headrace.common.sweeper import Sweeper


class Streams:
    """A bus whose streams take everything but one message."""

    async def publish_acknowledged(self, parcel: Parcel) -> None:
        if parcel.message_id == "poison":
            raise Unavailable("larger than the broker takes")


def _dead(message_id: str) -> Parcel:
    return Parcel(message_id, "DEAD", "dead.RUNS.usage-admission", {}, b"{}")


async def _sort(parcels: Sequence[Parcel]) -> tuple[list[Parcel], list[str]]:
    nothing: Any = None
    return await Sweeper(nothing, nothing, cast("Any", Streams()), nothing)._sort(parcels)


async def test_message_that_its_stream_refuses_does_not_hold_up_the_others() -> None:
    poison, sound = _dead("poison"), _dead("sound")

    again, seen = await _sort([poison, sound])

    assert again == [poison]
    assert seen == ["sound"]
