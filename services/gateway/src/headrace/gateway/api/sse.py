"""Server-sent events: how a stream of text is sent, and that nobody buffers it."""

from collections.abc import AsyncIterator

from starlette.responses import StreamingResponse

PING = ": ping\n\n"


class EventStream(StreamingResponse):
    """An answer of content type `text/event-stream` that proxies pass on at once."""

    def __init__(self, frames: AsyncIterator[str], *, run_id: str) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "X-Headrace-Run-Id": run_id}
        super().__init__(frames, media_type="text/event-stream", headers=headers)


def frame(data: str, *, event: str | None = None, event_id: int | None = None) -> str:
    """One event; `data` is a single line."""
    head = "" if event_id is None else f"id: {event_id}\n"
    head += "" if event is None else f"event: {event}\n"
    return f"{head}data: {data}\n\n"
