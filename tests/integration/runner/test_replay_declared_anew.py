"""A tool that is declared otherwise than when it acted does not make a replay look safe."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from headrace.contracts.journal import PlanReplay
from headrace.runner.errors import ModelRefused
from headrace.tools import Tool, tool
from tests.support.runner_rig import ScriptedTurns, calls, request, runner_rig
from tests.support.servers import PostgresEndpoint

BROKEN = ModelRefused("the model is broken")
LETTER = ("send", '{"to": "ann"}')


def send(sent: Counter[str], *parts: str) -> Tool:
    """A tool that sends, whose effect is named by some of its arguments; by none: it is unsafe."""

    async def send(to: str) -> str:
        """Send a letter."""
        sent[to] += 1
        return "sent"

    def key(given: Mapping[str, Any], _: object) -> Sequence[str]:
        return [part + given["to"] for part in parts]

    if not parts:
        return tool(send)
    return tool(effect="idempotent", key=key, reconcile="call_again")(send)


@pytest.mark.parametrize(
    ("then", "today", "risky"),
    [
        ((), ("to",), ["send"]),
        (("to",), ("to", "cc"), ["send"]),
        (("to",), (), ["send"]),
        (("to",), ("to",), []),
    ],
)
async def test_deed_must_have_the_same_key_today(
    postgres_server: PostgresEndpoint, then: Sequence[str], today: Sequence[str], risky: list[str]
) -> None:
    sent: Counter[str] = Counter()
    asked = request()
    model = ScriptedTurns(calls(LETTER), BROKEN)
    async with runner_rig(postgres_server.superuser_url, model=model, tools=[send(sent, *then)]) as rig:
        await rig.run(asked)
        deployed = replace(rig, tools={"send": send(sent, *today)})

        plan = await deployed.answers.plan_replay(PlanReplay(account_id="acme", run_id=asked.run_id))

    assert (plan.allowed, list(plan.tools)) == (not risky, risky)
    assert sent == {"ann": 1}
