"""`/v1/agents` and `/v1/tools`: which tools there are, the runner knows."""

from typing import Any

import httpx
import pytest

from headrace.common.errors import Unavailable
from headrace.contracts.journal import KnownTool, KnownTools, ListTools
from tests.unit.gateway.desk import Desk
from tests.unit.gateway.fakes import ToldRpc

EMAIL = KnownTool(name="send_email", description="Sends.", effect="idempotent", approval=True, parameters={})


@pytest.fixture
def rpc() -> ToldRpc:
    return ToldRpc({ListTools: KnownTools(tools=(EMAIL,))})


async def make(desk: Desk, **more: Any) -> httpx.Response:
    return await desk.http.post("/v1/agents", json={"name": "mailer", **more})


async def test_tools_are_listed(desk: Desk) -> None:
    answer = await desk.http.get("/v1/tools")

    assert [KnownTool.model_validate(each) for each in answer.json()] == [EMAIL]


async def test_tools_that_every_runner_has_are_not_asked_about(desk: Desk) -> None:
    answer = await make(desk, tools=["calculate"])

    assert (answer.status_code, desk.rpc.asked) == (201, [])


async def test_tool_of_this_deployment_can_be_given_and_bound_to_approval(desk: Desk) -> None:
    answer = await make(desk, tools=["send_email", "calculate"], approvals=["calculate"])

    assert answer.status_code == 201, answer.text
    assert (answer.json()["tools"], answer.json()["approvals"]) == (
        ["calculate", "send_email"],
        ["calculate"],
    )


async def test_saved_agent_keeps_its_approvals(desk: Desk) -> None:
    await make(desk)

    body = {"name": "mailer", "tools": ["send_email"], "approvals": ["send_email"]}
    await desk.http.put("/v1/agents/mailer", json=body, headers={"If-Match": '"1"'})

    assert (await desk.http.get("/v1/agents/mailer")).json()["approvals"] == ["send_email"]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"tools": ["rm"]}, "there is no tool 'rm'; there are: send_email"),
        ({"tools": ["calculate"], "approvals": ["send_email"]}, "`approvals` names 'send_email'"),
        ({"approvals": ["calculate"]}, "`approvals` names 'calculate'"),
    ],
)
async def test_tool_that_an_agent_cannot_have_is_refused(
    desk: Desk, fields: dict[str, Any], sentence: str
) -> None:
    made = await make(desk, **fields)
    saved = await desk.http.put(
        "/v1/agents/clerk", json={"name": "clerk", **fields}, headers={"If-Match": '"1"'}
    )

    assert (made.status_code, saved.status_code) == (400, 400)
    assert sentence in made.json()["detail"]


async def test_tool_cannot_be_looked_up_while_the_runner_is_away(desk: Desk) -> None:
    desk.rpc.answers[ListTools] = Unavailable("nobody answers")

    answer = await make(desk, tools=["send_email"])

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "whether there is a tool 'send_email' cannot be said now" in answer.json()["detail"]
