"""A campaign: an agent that writes to many people, for tests and benches that kill it on the way."""

import json
from collections.abc import Sequence
from typing import Any

import httpx

DONE = "the campaign is done"


async def campaigner(http: httpx.AsyncClient, *, name: str, approvals: bool) -> str:
    """Make an agent that can send mail; answers its name."""
    body = {"name": name, "instruction": "Write to everybody.", "tools": ["calculate", "send_email"]}
    if approvals:
        body["approvals"] = ["send_email"]
    answer = await http.post("/v1/agents", json=body)
    assert answer.status_code in (201, 409), answer.text
    return name


def recipients(campaign: str, count: int) -> list[str]:
    """So many addresses of a campaign's own."""
    return [f"{campaign}-{number}@example.com" for number in range(count)]


def turns(campaign: str, to: Sequence[str], *, at_once: int) -> list[dict[str, Any]]:
    """Rules for the scripted model: mails in turns of so many, then the end; a turn asked for again is the same."""
    parts = [to[start : start + at_once] for start in range(0, len(to), at_once)]
    rules = [
        {
            "when": {"contains": campaign, "turns": turn},
            "repeat": True,
            "steps": [{"tool_calls": [_mail(campaign, address) for address in part]}],
        }
        for turn, part in enumerate(parts)
    ]
    end = {"when": {"contains": campaign, "turns": len(parts)}, "repeat": True, "steps": [{"text": DONE}]}
    return [*rules, end]


def _mail(campaign: str, address: str) -> dict[str, Any]:
    mail = {"to": address, "subject": campaign, "body": f"Hello {address}", "template": "campaign"}
    return {"name": "send_email", "arguments": json.dumps(mail)}
