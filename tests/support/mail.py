"""The mail server as fixtures: one process for the session, empty at the start of each test."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.fakes.mail_server import MailServer


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def mail_server_process() -> AsyncIterator[MailServer]:
    async with MailServer() as server:
        yield server


@pytest_asyncio.fixture
async def mail_server(mail_server_process: MailServer) -> MailServer:
    await mail_server_process.reset()
    return mail_server_process
