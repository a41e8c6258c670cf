"""TCP on this machine."""

import asyncio
import secrets
import socket

_HOST = "127.0.0.1"


def free_port() -> int:
    """A loopback port that nobody listens on, outside the range that outgoing connections draw from."""
    while not is_free(port := 20_000 + secrets.randbelow(12_000)):
        pass
    return port


def is_free(port: int) -> bool:
    """Whether nobody listens on a loopback port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError:
            return False
        return True


async def exchange(port: int, request: bytes = b"") -> bytes:
    """Connect to a loopback port, send a line and read one.

    Raises:
        ConnectionError: Nobody listens, or the answer does not come.
    """
    reader, writer = await asyncio.open_connection(_HOST, port)
    try:
        writer.write(request)
        async with asyncio.timeout(1):
            return await reader.readline()
    except TimeoutError as error:
        raise ConnectionError(f"port {port} does not answer") from error
    finally:
        writer.close()
        await writer.wait_closed()
