"""Hyperplane: a linear concept whose weights change with every row."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from driftsurf.core.options import is_number, shown, whole
from driftsurf.errors import OptionError
from driftsurf.native.streams import hyperplane, java_doubles, java_state
from driftsurf.streams.base import Block, DriftSpan, Stream, block_sizes, percent, register_stream


@register_stream(
    "hyper-slow", "Hyperplane, weights move by 0.001 a row", magnitude=0.001, table_row=6, paper_settings=(0.1, 1e-3)
)
@register_stream(
    "hyper-fast", "Hyperplane, weights move by 0.1 a row", magnitude=0.1, table_row=7, paper_settings=(0.01, 1e-3)
)
class Hyperplane(Stream):
    """The rotating hyperplane of MOA, bit for bit; all attributes drift.

    x is uniform in [0, 1)^d; the label is -1 if w.x >= sum(w) / 2. After each row every weight moves by ``magnitude``,
    up or down; each direction is reversed with probability ``reversal``. The paper's slow stream has the magnitude
    0.001, its fast one 0.1.

    Parameters
    ----------
    magnitude
        How far a weight moves after each row.
    noise
        Share of flipped labels, a multiple of 0.01.
    n_features
        Number of attributes, d.
    reversal
        Probability that a weight changes its direction after a row, a multiple of 0.01.
    seed
        Seed of java.util.Random, from which everything is drawn.
    n_rows
        Number of rows.

    Examples
    --------
    >>> stream = Hyperplane(magnitude=0.1, n_rows=1_000)
    >>> X, y = stream.arrays()
    >>> X[0, :3]
    array([0.39717434, 0.34751803, 0.29405703])
    >>> stream.drifts, stream.drift_steps(100)
    ((DriftSpan(start=0, end=1000),), ())

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
            raise OptionError(
                f"magnitude must be a finite number of at least 0, such as 0.001; got {shown(self.magnitude)}"
            )
        percent("noise", self.noise)
        whole("n_features", self.n_features, at_least=1)
        percent("reversal", self.reversal)
        whole("seed", self.seed, at_least=0, at_most=None)
        whole("n_rows", self.n_rows, at_least=1)

    @property
    def name(self) -> str:
        """Name as in the paper's tables, if the magnitude is one of them."""
        return {0.001: "Hyper-slow", 0.1: "Hyper-fast"}.get(self.magnitude, f"Hyper-{self.magnitude:g}")

    @property
    def drifts(self) -> tuple[DriftSpan, ...]:
        """One drift from the first row to the last: there is no step at which a reset would help."""
        return (DriftSpan(0, self.n_rows),)

    def blocks(self) -> Iterator[Block]:
        """Yield rows as MOA's HyperplaneGenerator draws them."""
        state = np.array([java_state(self.seed)], dtype=np.int64)
        weights = np.empty(self.n_features)
        java_doubles(weights, state)
        signs = np.ones(self.n_features)
        noise, reversal = percent("noise", self.noise), percent("reversal", self.reversal)
        for size in block_sizes(self.n_rows):
            X = np.empty((size, self.n_features))
            y = np.empty(size, dtype=np.int64)
            hyperplane(X, y, state, weights, signs, float(self.magnitude), noise, reversal)
            yield X, y
