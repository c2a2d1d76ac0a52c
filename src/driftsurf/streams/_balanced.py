"""What SINE1, Mixed and Circles share: balanced classes, label noise and sigmoid transitions."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

import numpy as np

from driftsurf._options import whole
from driftsurf.base import FloatArray, IntArray
from driftsurf.streams.base import Block, Drift, Stream, block_sizes, fraction

WORDS = 2**18
"""Random words drawn at a time."""


class Transition(NamedTuple):
    """Rows ``first`` to ``first + width - 1`` come from concept ``old`` or, ever more often, ``new``."""

    first: int
    width: int
    old: int
    new: int


class BalancedStream(Stream):
    """Equal segments, one concept each in turn, exactly as the Tornado framework makes them.

    For each row a fair coin says which class is wanted, and points are drawn until one is of that
    class under the row's concept. Then the rows of the transitions are made anew: row t of one of
    width W (t from 0) is of the new concept with probability 1 / (1 + exp(-4 (t - W/2) / W)). At
    last the labels of a share ``noise`` of the rows, sampled without replacement, are turned around.

    Every draw is the one that Python's ``random`` makes after ``seed``, in the same order (the rows
    to be flipped are sampled first, then the generator is seeded again), so that with the authors'
    seeds the streams are the authors' files, row by row.
    """

    kind: ClassVar[int]
    n_segments: ClassVar[int]
    n_concepts: ClassVar[int]
    decimals: ClassVar[int]
    """Digits that the published values have."""
    n_rows: int

    def __init__(self, noise: float, seed: int, n_rows: int) -> None:
        self.noise = noise
        self.seed = seed
        self.n_rows = n_rows
        self._check()

    def _check(self) -> None:
        fraction("noise", self.noise)
        whole("seed", self.seed, at_least=0)
        whole("n_rows", self.n_rows, at_least=1)

    def segment_start(self, k: int) -> int:
        """The first row of segment ``k``, from 0."""
        return k * self.n_rows // self.n_segments

    @property
    def drifts(self) -> tuple[Drift, ...]:
        """At the start of every segment but the first."""
        starts = [self.segment_start(k) for k in range(1, self.n_segments)]
        return tuple(Drift(start, start) for start in starts)

    def transitions(self) -> tuple[Transition, ...]:
        """The first 50 rows of every segment but the first: too few to call the drift gradual."""
        width = min(50, self.n_rows // self.n_segments)
        return tuple(
            Transition(self.segment_start(k), width, (k - 1) % self.n_concepts, k % self.n_concepts)
            for k in range(1, self.n_segments)
        )

    def blocks(self) -> Iterator[Block]:
        """Rows with the labels as a learner sees them. All are made at once: the transitions come last."""
        generator = random.Random(self.seed)
        flipped = generator.sample(range(self.n_rows), int(self.n_rows * self.noise))
        generator.seed(self.seed)
        rows, old, new, share = self._plan()
        made, positive = self._make(generator, old, new, share)
        X = np.empty((self.n_rows, self.n_features))
        y = np.empty(self.n_rows, np.int64)
        X[rows] = np.round(made, self.decimals)  # later rows of the plan take the place of earlier ones
        y[rows] = np.where(positive, 1, -1)
        y[flipped] *= -1
        first = 0
        for size in block_sizes(self.n_rows):
            yield X[first : first + size], y[first : first + size]
            first += size

    def _plan(self) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
        """In the order in which rows are made: the row, its old and new concept, the chance of the new."""
        rows = np.arange(self.n_rows)
        starts = [self.segment_start(k) for k in range(1, self.n_segments)]
        concept = np.searchsorted(starts, rows, side="right") % self.n_concepts
        parts = [(rows, concept, concept, np.full(self.n_rows, -1.0))]
        for first, width, before, after in self.transitions():
            t = np.arange(width)
            chance = 1.0 / (1.0 + np.exp(-4.0 * (t - width / 2) / width))
            parts.append((first + t, np.full(width, before), np.full(width, after), chance))
        joined = [np.concatenate(column) for column in zip(*parts, strict=True)]
        return joined[0], joined[1], joined[2], joined[3]

    def _make(
        self, generator: random.Random, old: IntArray, new: IntArray, share: FloatArray
    ) -> tuple[FloatArray, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
        from driftsurf import _kernels

        X = np.empty((len(old), self.n_features))
        positive = np.empty(len(old), np.bool_)
        words, done = np.zeros(0, np.int64), 0
        source = _mersenne_twister(generator)
        while done < len(old):
            words = np.concatenate([words, source.random_raw(WORDS).astype(np.int64)])
            done, used = _kernels.balanced(X, positive, (old, new, share), words, done, self.kind)
            words = words[used:]
        return X, positive


def _mersenne_twister(generator: random.Random) -> np.random.MT19937:
    """Numpy's generator of the same 32-bit words that Python's would draw next."""
    *key, position = generator.getstate()[1]
    source = np.random.MT19937()
    source.state = {
        "bit_generator": "MT19937",
        "state": {"key": np.array(key, np.uint32), "pos": position},
    }
    return source
