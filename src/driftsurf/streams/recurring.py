"""Recurring concepts: a few linear concepts take turns, with balanced or rare classes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist

import numpy as np

from driftsurf.core.contracts import FloatArray
from driftsurf.core.numeric import derive
from driftsurf.core.options import is_number, shown, whole
from driftsurf.errors import OptionError
from driftsurf.streams.base import Block, DriftSpan, Stream, block_sizes, register_stream


@register_stream("recurring", "three linear concepts that take turns, twenty times")
@register_stream("recurring-rare", "the same with 5 % of positive rows", positive=0.05)
class Recurring(Stream):
    r"""Linear concepts that take turns and come back: 1, 2, ..., k, 1, 2, ...

    x is standard normal. Concept j has a direction :math:`w_j` of length 1, drawn once. With standard normal noise e,

    .. math:: y = +1 \iff \frac{w_j \cdot x + \sigma e}{\sqrt{1 + \sigma^2}} > q,

    where q is the quantile of the standard normal distribution that makes y positive with the wanted probability, the
    same in every concept.

    Parameters
    ----------
    concepts
        Number k of concepts.
    period
        Number of rows after which the next concept takes its turn.
    positive
        Probability of +1.
    noise
        Standard deviation sigma of the noise.
    n_features
        Number of columns.
    seed
        Seed of all random draws.
    n_rows
        Number of rows.

    Examples
    --------
    >>> stream = Recurring(n_rows=20_000)
    >>> X, y = stream.arrays()
    >>> X.shape, y[:5]
    ((20000, 20), array([-1, -1,  1, -1,  1]))
    >>> stream.drift_steps(1_000)
    (3, 6, 9, 12, 15, 18)
    >>> print(f"{(Recurring(positive=0.05).arrays()[1] > 0).mean():.3f}")
    0.050
    """

    n_rows: int
    n_features: int

    def __init__(
        self,
        concepts: int = 3,
        period: int = 3_000,
        positive: float = 0.5,
        noise: float = 0.2,
        n_features: int = 20,
        seed: int = 1,
        n_rows: int = 60_000,
    ) -> None:
        self.concepts = concepts
        self.period = period
        self.positive = positive
        self.noise = noise
        self.n_features = n_features
        self.seed = seed
        self.n_rows = n_rows
        self._check()

    def _check(self) -> None:
        for name in ("concepts", "period", "n_features", "n_rows"):
            whole(name, getattr(self, name), at_least=1)
        whole("seed", self.seed, at_least=0, at_most=None)
        if not (is_number(self.positive) and 0 < self.positive < 1):
            raise OptionError(f"positive must be a share between 0 and 1, such as 0.05; got {shown(self.positive)}")
        if not (is_number(self.noise) and 0 <= self.noise < math.inf):
            raise OptionError(f"noise must be a standard deviation of at least 0, such as 0.2; got {shown(self.noise)}")

    @property
    def name(self) -> str:
        """Name with the share of positive rows, if it is not a half."""
        return "Recurring" if self.positive == 0.5 else f"Recurring-{100 * self.positive:g}%"

    @property
    def drifts(self) -> tuple[DriftSpan, ...]:
        """A drift at each turn; none if there is one concept."""
        turns = range(self.period, self.n_rows, self.period) if self.concepts > 1 else ()
        return tuple(DriftSpan(row, row) for row in turns)

    def directions(self) -> FloatArray:
        """Return the direction of each concept, one per row."""
        drawn = np.random.default_rng(derive(self.seed, 0)).standard_normal((self.concepts, self.n_features))
        return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))

    def blocks(self) -> Iterator[Block]:
        """Yield rows. Attributes and noise have one generator each, which continues from block to block."""
        rows, errors = (np.random.default_rng(derive(self.seed, k)) for k in (1, 2))
        directions, quantile = self.directions(), NormalDist().inv_cdf(1.0 - self.positive)
        at = 0
        for size in block_sizes(self.n_rows):
            X = rows.standard_normal((size, self.n_features))
            concept = np.arange(at, at + size) // self.period % self.concepts
            score = (X * directions[concept]).sum(axis=1) + self.noise * errors.standard_normal(size)
            yield X, np.where(score > quantile * math.hypot(1.0, self.noise), 1, -1)
            at += size
