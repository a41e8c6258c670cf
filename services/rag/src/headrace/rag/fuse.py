"""Fusion: several rankings of the same things become one."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

K = TypeVar("K", bound=Hashable)

FLATNESS = 60
"""Reciprocal rank fusion's constant (Cormack et al., 2009): the larger, the less a first place counts."""


def fuse(rankings: Iterable[Sequence[K]]) -> list[tuple[K, float]]:
    """Rank by the sum of reciprocal ranks, so that scores of different kinds need not be compared.

    Args:
        rankings: Each one best first, without repetition.

    Returns:
        Each thing with its score, best first; of equals, the one that was named first.
    """
    scores: defaultdict[K, float] = defaultdict(float)
    for ranking in rankings:
        for place, key in enumerate(ranking, start=1):
            scores[key] += 1 / (FLATNESS + place)
    return sorted(scores.items(), key=lambda scored: -scored[1])
