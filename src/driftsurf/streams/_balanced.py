"""The base class of SINE1, Mixed and Circles: balanced classes, label noise and sigmoid transitions."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

import numpy as np

from driftsurf.core.contracts import FloatArray, IntArray
from driftsurf.core.options import whole
from driftsurf.native.streams import balanced
from driftsurf.streams.base import Block, DriftSpan, Stream, block_sizes, fraction

WORDS = 2**18
"""Number of random words that are drawn at a time."""


class ConceptChange(NamedTuple):
    """A gradual change of concept in rows ``first`` to ``first + width - 1``, from ``old`` to ``new``."""

    first: int
    width: int
    old: int
    new: int


class BalancedStream(Stream):
    """Equal segments, each with one concept, exactly as the Tornado framework generates them.

    For each row a fair coin decides which class is wanted, and points are drawn until one has that class under the
    row's concept. Then the rows of the transitions are generated again: row t of a transition of width W (t from 0)
    has the new concept with probability 1 / (1 + exp(-4 (t - W/2) / W)). Finally the labels of a share ``noise`` of
    the rows, sampled without replacement, are flipped.

    Every draw is the one that Python's ``random`` makes after ``seed``, in the same order (the rows to be flipped are
    sampled first, then the generator is seeded again), so that with the authors' seeds the streams equal the authors'
    files, row by row.
    """

    kind: ClassVar[int]
    n_segments: ClassVar[int]
    n_concepts: ClassVar[int]
    decimals: ClassVar[int]
    """Number of decimals of the published values."""
    n_rows: int

    def __init__(self, noise: float, seed: int, n_rows: int) -> None:
        self.noise = noise
        self.seed = seed
        self.n_rows = n_rows
        self._check()

    def _check(self) -> None:
        fraction("noise", self.noise)
        whole("seed", self.seed, at_least=0, at_most=None)
        whole("n_rows", self.n_rows, at_least=1)

    def segment_start(self, k: int) -> int:
        """Return the first row of segment ``k``, from 0."""
        return k * self.n_rows // self.n_segments

    @property
    def drifts(self) -> tuple[DriftSpan, ...]:
        """Abrupt drifts at the start of every segment but the first."""
        starts = [self.segment_start(k) for k in range(1, self.n_segments)]
        return tuple(DriftSpan(start, start) for start in starts)

    def transitions(self) -> tuple[ConceptChange, ...]:
        """Return the first 50 rows of every segment but the first: too few to call the drift gradual."""
        width = min(50, self.n_rows // self.n_segments)
        return tuple(
            ConceptChange(self.segment_start(k), width, (k - 1) % self.n_concepts, k % self.n_concepts)
            for k in range(1, self.n_segments)
        )

    def blocks(self) -> Iterator[Block]:
        """Yield the rows. All are generated at once, because the transitions are generated last."""
        generator = random.Random(self.seed)
        flipped = generator.sample(range(self.n_rows), int(self.n_rows * self.noise))
        generator.seed(self.seed)
        rows, old, new, share = self._plan()
        made, positive = self._make(generator, old, new, share)
        X = np.empty((self.n_rows, self.n_features))
        y = np.empty(self.n_rows, np.int64)
        X[rows] = np.round(made, self.decimals)  # later rows of the plan replace earlier ones
        y[rows] = np.where(positive, 1, -1)
        y[flipped] *= -1
        first = 0
        for size in block_sizes(self.n_rows):
            yield X[first : first + size], y[first : first + size]
            first += size

    def _plan(self) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
        """Return, in the order of generation: rows, their old and new concepts, and the probability of the new one."""
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
        X = np.empty((len(old), self.n_features))
        positive = np.empty(len(old), np.bool_)
        words, done = np.zeros(0, np.int64), 0
        source = _mersenne_twister(generator)
        while done < len(old):
            words = np.concatenate([words, source.random_raw(WORDS).astype(np.int64)])
            done, used = balanced(X, positive, (old, new, share), words, done, self.kind)
            words = words[used:]
        return X, positive


def _mersenne_twister(generator: random.Random) -> np.random.MT19937:
    """Return numpy's generator of the 32-bit words that Python's generator would draw next."""
    *key, position = generator.getstate()[1]
    source = np.random.MT19937()
    source.state = {
        "bit_generator": "MT19937",
        "state": {"key": np.array(key, np.uint32), "pos": position},
    }
    return source
