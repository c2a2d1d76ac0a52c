"""Small generated streams, each of which breaks a model that is good elsewhere.

``python -m benchmarks.portfolio static noise attack absent-class flips recurring-rules heavy-tails`` measures a
portfolio on them, and the tests assert bounds on some.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf.comparison.inputs import StreamInMemory
from driftsurf.core.contracts import FloatArray

__all__ = ["HARD", "Hard", "as_rows"]


class Hard(NamedTuple):
    """Rows, their classes 0 and 1, and the number of rows of a batch."""

    X: FloatArray
    y: npt.NDArray[np.int64]
    batch_size: int

    def batches(self) -> list[tuple[FloatArray, npt.NDArray[np.int64]]]:
        """Return the batches."""
        starts = range(0, len(self.y), self.batch_size)
        return [(self.X[start : start + self.batch_size], self.y[start : start + self.batch_size]) for start in starts]


def as_rows(name: str, seed: int) -> StreamInMemory:
    """Return a stream as ``driftsurf compare`` reads one."""
    made = HARD[name](seed)
    return StreamInMemory(name, made.X, made.y, (0, 1), made.batch_size, None)


def static(seed: int, steps: int = 100, noise: float = 0.1) -> Hard:
    """A linear rule that never changes, with a share of wrong labels."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(100 * steps, 6))
    y = (X @ np.array([2.0, -1.0, 1.0, 0.5, 0.0, 0.0]) > 0.5) ^ (random.random(len(X)) < noise)
    return Hard(X, y.astype(np.int64), 100)


def noise(seed: int, steps: int = 100) -> Hard:
    """The same with 30 % of wrong labels."""
    return static(seed, steps, noise=0.3)


def attack(seed: int, steps: int = 100) -> Hard:
    """The static rule; half of the labels of one batch in ten are flipped (docs/evidence.md, forced resets)."""
    made = static(seed, steps)
    for start in range(900, len(made.y), 1_000):
        made.y[start : start + 50] = 1 - made.y[start : start + 50]
    return made


def absent_class(seed: int, steps: int = 100) -> Hard:
    """One class alone for six batches of every ten, as at night in an office."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(60 * steps * 3, 3))
    y = (X[:, 0] + 0.3 * random.normal(size=len(X)) > 0.5).astype(np.int64)
    nights = (np.arange(60 * steps) // 60) % 10 >= 4
    rows, others = np.empty(60 * steps, np.int64), np.flatnonzero(y == 0)
    rows[nights] = others[: nights.sum()]
    rows[~nights] = len(X) - 1 - np.arange((~nights).sum())
    return Hard(X[rows], y[rows], 60)


def flips(seed: int, steps: int = 120) -> Hard:
    """Labels that are inverted every 300 rows, in batches of 20."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(20 * steps, 5))
    return Hard(X, (X[:, 0] > 0.0).astype(np.int64) ^ (np.arange(len(X)) // 300 % 2), 20)


def recurring_rules(seed: int, steps: int = 100) -> Hard:
    """Three rules that take turns, each for a thousand rows."""
    random = np.random.default_rng(seed)
    X, rules = random.normal(size=(100 * steps, 4)), random.normal(size=(3, 4))
    score = np.einsum("ij,ij->i", X, rules[np.arange(len(X)) // 1_000 % 3])
    return Hard(X, (score + 0.3 * random.normal(size=len(X)) > 0.0).astype(np.int64), 100)


def heavy_tails(seed: int, steps: int = 100) -> Hard:
    """Columns without a variance."""
    random = np.random.default_rng(seed)
    X = random.standard_t(1.2, size=(100 * steps, 4))
    y = np.sign(X[:, 0]) + np.sign(X[:, 1]) + random.normal(size=len(X)) > 0.0
    return Hard(X, y.astype(np.int64), 100)


HARD: Mapping[str, Callable[..., Hard]] = {
    made.__name__.replace("_", "-"): made
    for made in (static, noise, attack, absent_class, flips, recurring_rules, heavy_tails)
}
"""The streams by name; each is a function of the seed and of the number of batches."""
