"""The scripted model as fixtures: one process for the session, empty at the start of each test."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.fakes.scripted_model import ScriptedModel


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def scripted_model_process() -> AsyncIterator[ScriptedModel]:
    async with ScriptedModel() as model:
        yield model


@pytest_asyncio.fixture
async def scripted_model(scripted_model_process: ScriptedModel) -> ScriptedModel:
    await scripted_model_process.reset()
    return scripted_model_process
