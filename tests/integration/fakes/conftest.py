from collections.abc import AsyncIterator

import openai
import pytest_asyncio

from tests.fakes.scripted_model import ScriptedModel


@pytest_asyncio.fixture
async def client(scripted_model: ScriptedModel) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        base_url=scripted_model.base_url, api_key="sk-test-abcd", max_retries=0, timeout=10
    ) as client:
        yield client
