"""The scripted model as a process: its control endpoints, what it refuses, and its end."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import openai
import pytest

from tests.fakes.scripted_model import Rule, ScriptedModel, Step, When

REPOSITORY = Path(__file__).parents[3]


async def test_waits_that_are_not_met_say_so(scripted_model: ScriptedModel) -> None:
    with pytest.raises(TimeoutError, match="0 answers of 1"):
        await scripted_model.wait_held("gate", seconds=0)
    with pytest.raises(TimeoutError, match="0 calls of 1"):
        await scripted_model.calls(settled=1, seconds=0)


async def test_script_with_an_unknown_word_is_refused(scripted_model: ScriptedModel) -> None:
    script = {"rules": [{"steps": [{"txet": "typing error"}]}]}

    async with httpx.AsyncClient(base_url=scripted_model.base_url.removesuffix("/v1")) as http:
        answer = await http.put("/script", json=script)

    assert answer.status_code == 400
    assert "txet" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"model": "m", "messages": []}', b'{"messages": [{}]}']
)
async def test_request_that_is_no_chat_is_refused(scripted_model: ScriptedModel, body: bytes) -> None:
    async with httpx.AsyncClient() as http:
        answer = await http.post(f"{scripted_model.base_url}/chat/completions", content=body)

    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert await scripted_model.calls() == []


async def test_models_and_health_are_served(
    scripted_model: ScriptedModel, client: openai.AsyncOpenAI
) -> None:
    await scripted_model.script(Rule(when=When(model="big"), steps=(Step(text="x"),)))

    models = [model.id async for model in client.models.list()]
    async with httpx.AsyncClient() as http:
        health = await http.get(f"{scripted_model.base_url.removesuffix('/v1')}/healthz")

    assert models == ["scripted", "big"]
    assert health.json() == {"status": "ok"}


@pytest.mark.parametrize("how", ["stdin", "sigterm"])
def test_process_ends_with_an_answer_still_held(how: str) -> None:
    command = [sys.executable, "-m", "tests.fakes.scripted_model", "--port", "0"]
    with subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdin
        url = json.loads(process.stdout.readline())["url"]
        httpx.put(f"{url}/script", json={"default": {"hold": "for ever", "hold_after": 0}}).raise_for_status()
        asked = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hello"}]}
        with httpx.stream("POST", f"{url}/v1/chat/completions", json=asked):
            if how == "stdin":
                process.stdin.close()
            else:
                process.terminate()
            code = process.wait(10)

    assert code == (0 if how == "stdin" else -signal.SIGTERM)
