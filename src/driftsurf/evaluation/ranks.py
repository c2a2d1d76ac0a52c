r"""Algorithms compared over many streams by their ranks: Friedman's test and Nemenyi's critical difference.

On each stream the algorithms are ranked by error, 1 for the lowest. Under the hypothesis that all are alike the
average ranks over N streams differ by chance alone; Friedman's test says how improbable their differences are,
and two algorithms differ if their average ranks are further apart than

.. math:: CD = q_\alpha \sqrt{\frac{k (k + 1)}{6 N}},

where q is the quantile of the studentised range of k samples with infinitely many degrees of freedom, divided by
the square root of 2.

A rank takes a difference for real however small it is. Where each error is the median of some trials, its *spread*
is known: from the best to the worst of them. Then two algorithms tie if their errors differ by less than the larger
of their spreads. Such ties are no equivalence (a may tie with b and b with c, and not a with c), so a rank is
counted from pairs: 1, plus 1 for each algorithm that is ahead, plus 1/2 for each that ties. Without spread these are
the usual ranks, and with it too those of one stream sum to k (k + 1) / 2.

References
----------
J. Demsar. Statistical comparisons of classifiers over multiple data sets. JMLR 7, 2006.
W. J. Conover. Practical nonparametric statistics. 3rd edition, 1999, section 5.8 (the statistic with ties).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from driftsurf._options import number, whole
from driftsurf.base import FloatArray
from driftsurf.errors import InputError

__all__ = ["Ranking", "critical_difference", "friedman", "place", "ranking", "ranks"]


def ranks(errors: npt.ArrayLike, spreads: npt.ArrayLike | None = None) -> FloatArray:
    """The ranks of one stream's algorithms.

    >>> ranks([0.20, 0.10, 0.20, 0.30]).tolist()
    [2.5, 1.0, 2.5, 4.0]
    >>> ranks([0.20, 0.10, 0.21, 0.30], spreads=[0.02, 0.0, 0.0, 0.0]).tolist()
    [2.5, 1.0, 2.5, 4.0]
    """
    ahead, tied = _pairs(errors, spreads)
    found: FloatArray = 1.0 + ahead.sum(axis=1) + 0.5 * tied.sum(axis=1)
    return found


def place(index: int, errors: npt.ArrayLike, spreads: npt.ArrayLike | None = None) -> tuple[int, int]:
    """The best and the worst place of one algorithm: the ties all decided for it, and against it.

    >>> place(0, [0.20, 0.10, 0.21, 0.30], spreads=[0.02, 0.0, 0.0, 0.0])
    (2, 3)
    """
    ahead, tied = _pairs(errors, spreads)
    first = 1 + int(ahead[index].sum())
    return first, first + int(tied[index].sum())


def _pairs(errors: npt.ArrayLike, spreads: npt.ArrayLike | None) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """For each pair (i, j): whether j is ahead of i, and whether they tie."""
    values = np.asarray(errors, np.float64)
    width = np.zeros_like(values) if spreads is None else np.asarray(spreads, np.float64)
    if values.ndim != 1 or width.shape != values.shape or not np.isfinite([values, width]).all() or (width < 0).any():
        raise InputError(
            f"ranks of {values.tolist()} with spreads {width.tolist()}: give one finite error for each algorithm, "
            "and one spread of at least 0 for each"
        )
    gap = values[:, None] - values[None, :]
    tied = (gap == 0.0) | (np.abs(gap) < np.maximum(width[:, None], width[None, :]))
    np.fill_diagonal(tied, val=False)
    return (gap > 0.0) & ~tied, tied


def friedman(table: npt.ArrayLike) -> tuple[float, float]:
    """Friedman's chi-square and its probability if all are alike, from ranks: a row a stream, a column an algorithm.

    Ties are corrected for, as the scores of a row are permuted whatever they are.

    >>> chi_square, probability = friedman([[1, 2, 3], [1, 2, 3], [1, 3, 2], [1, 2, 3]])
    >>> print(f"{chi_square:.1f} {probability:.3f}")
    6.5 0.039
    """
    from scipy.special import chdtrc

    scores = np.asarray(table, np.float64)
    n, k = scores.shape
    middle = (k + 1) / 2.0
    within = float(np.sum((scores - middle) ** 2))
    if within == 0.0:
        return 0.0, 1.0
    between = float(np.sum((scores.sum(axis=0) - n * middle) ** 2))
    chi_square = (k - 1) * between / within
    return chi_square, float(chdtrc(k - 1, chi_square))


def critical_difference(algorithms: int, streams: int, alpha: float = 0.05) -> float:
    """How far apart two average ranks have to be, after Nemenyi.

    >>> print(f"{critical_difference(algorithms=4, streams=14):.2f}")
    1.25
    """
    from scipy.stats import studentized_range

    k, n = whole("algorithms", algorithms, at_least=2), whole("streams", streams, at_least=1)
    quantile = studentized_range.ppf(1.0 - number("alpha", alpha, above=0.0, below=1.0), k, math.inf)
    return float(quantile) / math.sqrt(2.0) * math.sqrt(k * (k + 1) / (6.0 * n))


@dataclass(frozen=True)
class Ranking:
    """Algorithms from the best average rank to the worst."""

    algorithms: tuple[str, ...]
    average_ranks: tuple[float, ...]
    streams: int
    chi_square: float
    probability: float
    """Of so large a chi-square if all were alike."""
    critical_difference: float

    @property
    def alike(self) -> tuple[tuple[str, ...], ...]:
        """The largest groups within which no two average ranks differ by the critical difference."""
        groups: list[tuple[int, int]] = []
        for first, lowest in enumerate(self.average_ranks):
            last = max(i for i, rank in enumerate(self.average_ranks) if rank - lowest <= self.critical_difference)
            if last > first and (not groups or last > groups[-1][1]):
                groups.append((first, last))
        return tuple(self.algorithms[first : last + 1] for first, last in groups)


def ranking(
    algorithms: Sequence[str],
    errors: Iterable[Mapping[str, float]],
    spreads: Iterable[Mapping[str, float]] | None = None,
    alpha: float = 0.05,
) -> Ranking:
    """Rank algorithms over streams, each given as a mapping from algorithm to error (and to spread).

    >>> found = ranking(["a", "b"], [{"a": 0.1, "b": 0.2}, {"a": 0.3, "b": 0.4}, {"a": 0.2, "b": 0.2}])
    >>> print(found.algorithms, [round(rank, 2) for rank in found.average_ranks], found.alike)
    ('a', 'b') [1.17, 1.83] (('a', 'b'),)
    """
    rows = [[row[name] for name in algorithms] for row in errors]
    widths = None if spreads is None else [[row[name] for name in algorithms] for row in spreads]
    if len(algorithms) < 2 or not rows:
        raise InputError(f"{len(algorithms)} algorithms on {len(rows)} streams: ranks take two and one at least")
    table = np.array([ranks(row, None if widths is None else widths[i]) for i, row in enumerate(rows)])
    mean = table.mean(axis=0)
    order = np.argsort(mean, kind="stable")
    return Ranking(
        tuple(algorithms[i] for i in order),
        tuple(mean[order].tolist()),
        len(rows),
        *friedman(table),
        critical_difference(len(algorithms), len(rows), alpha),
    )
