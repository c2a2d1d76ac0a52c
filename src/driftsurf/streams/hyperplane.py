"""Hyperplane: a linear concept whose weights never stand still."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from driftsurf._options import is_number, whole
from driftsurf.errors import OptionError
from driftsurf.streams.base import Block, Drift, Stream, block_sizes, percent


class Hyperplane(Stream):
    """The rotating hyperplane as MOA draws it, bit for bit; all attributes drift.

    x is uniform in [0, 1)^d; the label is -1 iff w.x >= sum(w) / 2. After each row every weight moves
    by ``magnitude``, up or down; each direction turns with probability ``reversal``. The paper's
    slow stream has magnitude 0.001, its fast one 0.1.

    Parameters
    ----------
    magnitude
        How far a weight moves with each row.
    noise
        The share of flipped labels, in whole per cents.
    n_features
        The number of attributes, d.
    reversal
        The probability, in whole per cents, that a weight changes direction after a row.
    seed
        Of java.util.Random, from which everything is drawn.
    n_rows
        Length.

    Examples
    --------
    >>> stream = Hyperplane(magnitude=0.1, n_rows=1_000)
    >>> X, y = stream.arrays()
    >>> X[0, :3]
    array([0.39717434, 0.34751803, 0.29405703])
    >>> stream.drifts, stream.drift_steps(100)
    ((Drift(start=0, end=1000),), ())

    References
    ----------
    Hulten, Spencer and Domingos. Mining time-changing data streams. KDD 2001.
    """

    n_rows: int
    n_features: int

    def __init__(
        self,
        magnitude: float = 0.001,
        noise: float = 0.05,
        n_features: int = 10,
        reversal: float = 0.1,
        seed: int = 1,
        n_rows: int = 100_000,
    ) -> None:
        self.magnitude = magnitude
        self.noise = noise
        self.n_features = n_features
        self.reversal = reversal
        self.seed = seed
        self.n_rows = n_rows
        self._check()

    def _check(self) -> None:
        if not (is_number(self.magnitude) and 0 <= self.magnitude < math.inf):
            raise OptionError(f"magnitude is {self.magnitude!r}; give a number of at least 0, such as 0.001")
        percent("noise", self.noise)
        whole("n_features", self.n_features, at_least=1)
        percent("reversal", self.reversal)
        whole("seed", self.seed, at_least=0)
        whole("n_rows", self.n_rows, at_least=1)

    @property
    def name(self) -> str:
        """As in the paper's tables where the magnitude is one of theirs."""
        return {0.001: "Hyper-slow", 0.1: "Hyper-fast"}.get(self.magnitude, f"Hyper-{self.magnitude:g}")

    @property
    def drifts(self) -> tuple[Drift, ...]:
        """It drifts from the first row to the last: no step at which starting anew would help."""
        return (Drift(0, self.n_rows),)

    def blocks(self) -> Iterator[Block]:
        """Rows as drawn by MOA's HyperplaneGenerator."""
        from driftsurf import _kernels

        state = np.array([_kernels.java_state(self.seed)], dtype=np.int64)
        weights = np.empty(self.n_features)
        _kernels.java_doubles(weights, state)
        signs = np.ones(self.n_features)
        noise, reversal = percent("noise", self.noise), percent("reversal", self.reversal)
        for size in block_sizes(self.n_rows):
            X = np.empty((size, self.n_features))
            y = np.empty(size, dtype=np.int64)
            _kernels.hyperplane(X, y, state, weights, signs, float(self.magnitude), noise, reversal)
            yield X, y
