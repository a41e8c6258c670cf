"""Whether a child answers over HTTP."""

import asyncio
from dataclasses import dataclass
from urllib.parse import urlsplit

_PATIENCE_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Readiness:
    """An answer to a health question."""

    ready: bool
    detail: str
    """What it answered, or why it did not."""


async def ask(url: str) -> Readiness:
    """Ask `GET url`; only 200 is ready."""
    address = urlsplit(url)
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            reader, writer = await asyncio.open_connection(address.hostname, address.port)
            try:
                writer.write(
                    f"GET {address.path} HTTP/1.1\r\nHost: {address.netloc}\r\nConnection: close\r\n\r\n".encode()
                )
                answer = (await reader.read()).decode(errors="replace")
            finally:
                writer.close()
                await writer.wait_closed()
    except TimeoutError:
        return Readiness(ready=False, detail=f"no answer within {_PATIENCE_SECONDS} s")
    except OSError:
        return Readiness(ready=False, detail="nobody listens")
    head, _, body = answer.partition("\r\n\r\n")
    return Readiness(ready=head.split(" ")[1:2] == ["200"], detail=body)
