"""Upkeep: the index is ready before it is asked for, and stays quick."""

import asyncio
from dataclasses import dataclass

from headrace.rag.index import PassageIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """Warms the index and, from then on, folds into it what was written."""

    index: PassageIndex
    pause_seconds: float

    async def run(self) -> None:
        """Go on until cancelled."""
        await self.index.prepare()
        while True:
            await self.index.fold()
            await asyncio.sleep(self.pause_seconds)
