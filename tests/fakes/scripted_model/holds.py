"""Named holds: places where an answer stands still until a test lets it go on."""

import asyncio

from tests.fakes.scripted_model.change import Change


class Holds:
    """The answers that stand still, by the name of their hold."""

    def __init__(self) -> None:
        self._held: dict[str, set[asyncio.Future[bool]]] = {}
        self._change = Change()

    async def wait(self, name: str) -> bool:
        """Stand still; return whether to go on (true) or to drop the connection (false)."""
        verdict = asyncio.get_running_loop().create_future()
        held = self._held.setdefault(name, set())
        held.add(verdict)
        self._change.ring()
        try:
            return bool(await verdict)
        finally:
            held.discard(verdict)

    def release(self, name: str) -> int:
        """Let the answers of one hold go on; return how many stood there. Later ones wait for the next release."""
        return self._settle(name, go_on=True)

    def abandon(self) -> None:
        """Drop every answer that stands still."""
        for name in list(self._held):
            self._settle(name, go_on=False)

    async def count(self, name: str, *, at_least: int, seconds: float) -> int:
        """Wait, at most so long, until enough answers stand at this hold; return how many do."""
        await self._change.until(lambda: len(self._held.get(name, ())) >= at_least, seconds=seconds)
        return len(self._held.get(name, ()))

    def _settle(self, name: str, *, go_on: bool) -> int:
        held = [verdict for verdict in self._held.pop(name, ()) if not verdict.done()]
        for verdict in held:
            verdict.set_result(go_on)
        return len(held)
