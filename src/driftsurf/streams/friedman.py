"""Friedman's regression function with drift: each concept depends on other columns."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray, IntArray
from driftsurf.core.numeric import derive
from driftsurf.core.options import choice, is_number, shown, whole
from driftsurf.errors import OptionError
from driftsurf.registry import REGRESSION
from driftsurf.streams.base import Block, DriftSpan, Stream, block_sizes, register_stream

Kind: TypeAlias = Literal["abrupt", "gradual", "local"]
KINDS: tuple[Kind, ...] = get_args(Kind)
N_FEATURES = 10
"""Number of columns; five of them matter at a time, the others are noise."""
FIRST, SECOND, THIRD = (0, 1, 2, 3, 4), (3, 4, 1, 0, 2), (1, 4, 3, 2, 0)
"""Concepts: the columns that replace x1 to x5 in Friedman's function."""


@register_stream(
    "friedman", "Friedman, another concept for a quarter of the rows; regression", tasks=REGRESSION, drift="abrupt"
)
@register_stream("friedman-gradual", "Friedman, two gradual drifts; regression", tasks=REGRESSION, drift="gradual")
@register_stream("friedman-local", "Friedman, corners that drift and grow; regression", tasks=REGRESSION, drift="local")
class Friedman(Stream):
    r"""Friedman's regression problem with the drifts of Ikonomovska.

    x is uniform in [0, 1)^10, and with standard normal noise e

    .. math:: y = 10 \sin(\pi x_1 x_2) + 20 (x_3 - 0.5)^2 + 10 x_4 + 5 x_5 + \sigma e .

    Except for "local", a concept is the same function of other columns:

    - "abrupt": from half of the rows to three quarters, x4, x5, x2, x1, x3 replace x1 to x5; then the old concept
      returns.
    - "gradual": the same new concept from half of the rows on, and from three quarters on a third one (x2, x5, x4, x3,
      x1); for a tenth of the rows after each change, a coin decides for every row between the old and the new concept.
    - "local": from a quarter of the rows on, other functions hold in two corners of the space, which grow at a half and
      at three quarters; everywhere else nothing changes.

    Parameters
    ----------
    drift
        "abrupt", "gradual" or "local".
    noise
        Standard deviation sigma of the noise.
    seed
        Seed of all random draws; each kind of drift has draws of its own.
    n_rows
        Number of rows.

    Examples
    --------
    >>> stream = Friedman(n_rows=1_000)
    >>> X, y = stream.arrays()
    >>> X.shape, y[:3].round(2)
    ((1000, 10), array([18.13, 14.12, 16.39]))
    >>> stream.classes, stream.drift_steps(10)
    ((), (50, 75))

    References
    ----------
    J. H. Friedman. Multivariate adaptive regression splines. Annals of Statistics 19, 1991.
    E. Ikonomovska. Algorithms for learning regression trees and ensembles on evolving data streams. 2012.
    """

    classes: tuple[int, ...] = ()
    n_rows: int
    n_features: int = N_FEATURES

    def __init__(
        self,
        drift: Kind = "abrupt",
        noise: float = 1.0,
        seed: int = 1,
        n_rows: int = 20_000,
    ) -> None:
        self.drift = drift
        self.noise = noise
        self.seed = seed
        self.n_rows = n_rows
        self._check()

    def _check(self) -> None:
        choice("drift", self.drift, KINDS)
        if not (is_number(self.noise) and 0 <= self.noise < math.inf):
            raise OptionError(f"noise must be a standard deviation of at least 0, such as 1.0; got {shown(self.noise)}")
        whole("seed", self.seed, at_least=0, at_most=None)
        whole("n_rows", self.n_rows, at_least=1)

    @property
    def name(self) -> str:
        """Name with the kind of drift."""
        return f"Friedman-{self.drift}"

    @property
    def drifts(self) -> tuple[DriftSpan, ...]:
        """Drifts that begin after the first row."""
        return tuple(drift for drift in self._changes() if drift.start > 0)

    def _changes(self) -> tuple[DriftSpan, ...]:
        length = self.n_rows // 10 if self.drift == "gradual" else 0
        quarters = (1, 2, 3) if self.drift == "local" else (2, 3)
        places = (quarter * self.n_rows // 4 for quarter in quarters)
        return tuple(DriftSpan(place, min(place + length, self.n_rows)) for place in places)

    def blocks(self) -> Iterator[Block]:
        """Yield rows. Attributes, coins and noise have one generator each, which continues from block to block."""
        first = 3 * KINDS.index(self.drift)
        rows, coins, errors = (np.random.default_rng(derive(self.seed, first + k)) for k in range(3))
        at = 0
        for size in block_sizes(self.n_rows):
            X = rows.random((size, N_FEATURES))
            row = np.arange(at, at + size)
            heads = coins.random(size) < 0.5
            means = self._local(X, row) if self.drift == "local" else self._global(X, row, heads)
            yield X, means + self.noise * errors.standard_normal(size)
            at += size

    def _global(self, X: FloatArray, row: IntArray, heads: npt.NDArray[np.bool_]) -> FloatArray:
        y = friedman(X, FIRST)
        before = FIRST
        for drift, after in zip(self._changes(), (SECOND, FIRST if self.drift == "abrupt" else THIRD), strict=True):
            under_way = (row >= drift.start) & (row < drift.end)
            y = np.where(row >= drift.start, friedman(X, after), y)
            y = np.where(under_way & heads, friedman(X, before), y)
            before = after
        return y

    def _local(self, X: FloatArray, row: IntArray) -> FloatArray:
        x1, x2, x3, x4, x5 = X[:, :5].T
        begun = np.sum([row >= drift.start for drift in self._changes()], axis=0)
        low = (begun >= 1) & (x2 < 0.3) & (x3 < 0.3) & ((x4 > 0.7) | (begun >= 3)) & ((x5 < 0.3) | (begun >= 2))
        high = (begun >= 1) & (x2 > 0.7) & (x3 > 0.7) & ((x4 < 0.3) | (begun >= 3)) & ((x5 > 0.7) | (begun >= 2))
        y = np.where(low, 10.0 * x1 * x2 + 20.0 * (x3 - 0.5) + 10.0 * x4 + 5.0 * x5, friedman(X, FIRST))
        return np.where(high, 10.0 * np.cos(x1 * x2) + 20.0 * (x3 - 0.5) + np.exp(x4) + 5.0 * x5**2, y)


def friedman(X: FloatArray, columns: tuple[int, ...]) -> FloatArray:
    """Return Friedman's function of five columns, without noise.

    >>> friedman(np.full((1, 5), 0.5), FIRST).round(3)
    array([14.571])
    """
    a, b, c, d, e = X[:, columns].T
    y: FloatArray = 10.0 * np.sin(np.pi * a * b) + 20.0 * (c - 0.5) ** 2 + 10.0 * d + 5.0 * e
    return y
