"""Embedding: texts become vectors whose closeness is closeness of meaning. The only door to wordllama."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

BATCH = 16
"""Texts that are padded to one length and held in memory together."""


class Embedder(Protocol):
    """Turns texts into vectors of one length."""

    @property
    def dimensions(self) -> int:
        """The length of every vector."""

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector for each text, in their order. What has no meaning is a vector of zeros."""


class WordLlamaEmbedder:
    """Static token embeddings that come with the wordllama package: nothing is fetched, and no GPU is needed."""

    dimensions = 256

    def __init__(self) -> None:
        self._model: _Model | None = None
        self._loading = asyncio.Lock()

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector of length 1 for each text, in their order; zeros for what has no token. Loads the model once."""
        model = await self._loaded()
        return await asyncio.to_thread(_vectors, model, list(texts))

    async def _loaded(self) -> "_Model":
        async with self._loading:
            if self._model is None:
                self._model = await asyncio.to_thread(_load, self.dimensions)
        return self._model
