"""Embedding: texts become vectors whose closeness is closeness of meaning. The only door to wordllama."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

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


class _Model(Protocol):
    """What is used of wordllama's inference."""

    def embed(self, texts: list[str], *, batch_size: int) -> Any:
        """A numpy array with a row for each text."""


def _load(dimensions: int) -> _Model:
    """Read the model from the wheel. As its cache the package itself is named, or its tokenizer would be missed."""
    import wordllama  # noqa: PLC0415  (takes a second: done at first use, in a thread)

    package = Path(wordllama.__file__).parent
    model: _Model = wordllama.WordLlama.load(dim=dimensions, cache_dir=package, disable_download=True)
    return model


def _vectors(model: _Model, texts: list[str]) -> list[list[float]]:
    rows = model.embed(texts, batch_size=BATCH)
    lengths = (rows * rows).sum(axis=1, keepdims=True) ** 0.5
    lengths[lengths == 0] = 1
    vectors: list[list[float]] = (rows / lengths).tolist()
    return vectors
