"""A world that runs act on: it counts what is done under each key, and can refuse, break, fall silent and stand still."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal

from headrace.runner.model import ModelRequest, ModelTurn
from headrace.tools import CannotTell, DidNotHappen, Happened, Tool, ToolContext, ToolError, Verdict, tool
from tests.support.runner_rig import ScriptedTurns, calls, says

Script = Sequence[Sequence[str]]
"""For each turn, to whom the model sends; after the last it is done."""
Mood = Literal["fine", "refuses", "breaks before", "breaks after"]
Where = Literal["in a model call", "before an act", "after an act"]


class Gate:
    """Where something stands still until it is let through."""

    def __init__(self) -> None:
        self.reached, self.opened = asyncio.Event(), asyncio.Event()

    async def stand_still(self) -> None:
        self.reached.set()
        await self.opened.wait()


class World(ScriptedTurns):
    """The model and the receiver: says what is in a run's script, and counts what is done under each key."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts: dict[str, Script] = {}
        self.acts: Counter[str] = Counter()
        self.can_tell = True
        self.mood: Mood = "fine"
        self.gates: dict[Where, Gate] = {}

    async def call(self, request: ModelRequest, *, on_text: Callable[[str], Any]) -> ModelTurn:  # noqa: ARG002
        await self._pass("in a model call")
        said = [message for message in request.messages if message["role"] == "assistant"]
        script = self.scripts[str(request.messages[1]["content"])]
        if len(said) == len(script):
            return says("done")
        return calls(*(("send", json.dumps({"to": to})) for to in script[len(said)]))

    async def _pass(self, where: Where) -> None:
        if (gate := self.gates.pop(where, None)) is not None:
            await gate.stand_still()

    async def look(self, key: str, _: ToolContext) -> Verdict:
        if not self.can_tell:
            return CannotTell("nobody answers")
        return Happened("sent") if self.acts[key] else DidNotHappen()

    def send(self) -> Tool:
        @tool(effect="idempotent", key=lambda given, _: given["to"], reconcile=self.look)
        async def send(to: str, context: ToolContext) -> str:
            """Send a letter."""
            mood, self.mood = self.mood, "fine"
            if mood == "refuses":
                raise ToolError(f"{to} is full")
            if mood == "breaks before":
                raise ConnectionError
            await self._pass("before an act")
            self.acts[context.provider_key] += 1
            await self._pass("after an act")
            if mood == "breaks after":
                raise ConnectionError
            return "sent"

        return send
