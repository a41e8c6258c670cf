"""What providers ask of a conversation, written down once more, apart from the code under test."""

import json
import re
from typing import Any


def faults(conversation: list[dict[str, Any]]) -> list[str]:  # noqa: C901  (one rule after the other)
    """What a provider would refuse in it."""
    found: list[str] = []
    owed: list[str] = []
    for message in conversation:
        role, content, calls = message["role"], message["content"], message.get("tool_calls", [])
        if role == "tool":
            if owed[:1] != [message["tool_call_id"]]:
                found.append(f"{message} answers none of {owed}, or not in order")
            owed = owed[1:]
        elif owed:
            found.append(f"{owed} have no result")
            owed = []
        if not isinstance(content, str) and not (role == "assistant" and calls and content is None):
            found.append(f"{message} has no content")
        if "tool_calls" in message:
            owed = [each["id"] for each in calls]
            if role != "assistant" or not owed or "" in owed or len(set(owed)) < len(owed):
                found.append(f"{message} cannot call that")
        for each in calls:
            named = re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", each["function"]["name"])
            if not named or not isinstance(json.loads(each["function"]["arguments"] or "{}"), dict):
                found.append(f"{each} is no call")
        extra = {"tool": {"tool_call_id"}, "assistant": {"tool_calls"} if calls else set()}.get(role, set())
        if set(message) != {"role", "content"} | extra:
            found.append(f"{message} has fields too many or too few")
    return [*found, *(f"{each} has no result" for each in owed)]
