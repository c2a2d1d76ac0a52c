r"""Ranks of algorithms over many streams, and confidence intervals for differences of their errors.

On each stream the algorithms are ranked by error, 1 for the lowest. If all k algorithms are equally good, their average
ranks over N streams differ by chance alone. Friedman's test gives the probability of such differences, and two
algorithms differ if their average ranks are further apart than

.. math:: CD = q_\alpha \sqrt{\frac{k (k + 1)}{6 N}},

where q is the quantile of the studentised range of k samples with infinitely many degrees of freedom, divided by
the square root of 2.

Plain ranks count every difference, however small. If each error is the median of several trials, its *spread* is
known: the difference of the worst and the best trial. Then two algorithms tie if their errors differ by less than the
larger of their spreads. Such ties are not transitive (a may tie with b and b with c, but a not with c), so a rank is
counted from pairs: 1, plus 1 for each better algorithm, plus 1/2 for each tie. Without spreads these are the usual
ranks; with spreads, too, the ranks of one stream sum to k (k + 1) / 2.

Two algorithms are compared by Wilcoxon's signed-rank test, which uses how much they differ on each stream. Holm's
method corrects the probabilities of several such tests.

Intervals come from a bootstrap over blocks of time steps and over seeds. The errors of models on the same stream rise
and fall together, and the errors of neighbouring steps are similar. So the steps are resampled for all models at once
(the comparison is *paired*), in blocks of :math:`\lceil T^{1/3} \rceil` steps that wrap around the end of the stream (a
*circular block bootstrap*). Seeds are independent draws of each model, so they are resampled for each model separately.
Intervals are percentiles of the resampled means. Streams are not resampled: the intervals say nothing about how the
models do on another stream.

References
----------
J. Demsar. Statistical comparisons of classifiers over multiple data sets. JMLR 7, 2006.
W. J. Conover. Practical nonparametric statistics. 3rd edition, 1999, section 5.8 (the statistic with ties).
D. N. Politis, J. P. Romano. A circular block-resampling procedure for stationary data. 1992.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray
from driftsurf.core.options import number, whole
from driftsurf.errors import InputError


def ranks(errors: npt.ArrayLike, spreads: npt.ArrayLike | None = None) -> FloatArray:
    """Return the ranks of the algorithms on one stream.

    >>> ranks([0.20, 0.10, 0.20, 0.30]).tolist()
    [2.5, 1.0, 2.5, 4.0]
    >>> ranks([0.20, 0.10, 0.21, 0.30], spreads=[0.02, 0.0, 0.0, 0.0]).tolist()
    [2.5, 1.0, 2.5, 4.0]
    """
    ahead, tied = _pairs(errors, spreads)
    found: FloatArray = 1.0 + ahead.sum(axis=1) + 0.5 * tied.sum(axis=1)
    return found


def place(index: int, errors: npt.ArrayLike, spreads: npt.ArrayLike | None = None) -> tuple[int, int]:
    """Return the best and the worst place of one algorithm: with all ties decided for it, and against it.

    >>> place(0, [0.20, 0.10, 0.21, 0.30], spreads=[0.02, 0.0, 0.0, 0.0])
    (2, 3)
    """
    ahead, tied = _pairs(errors, spreads)
    first = 1 + int(ahead[index].sum())
    return first, first + int(tied[index].sum())


def _pairs(errors: npt.ArrayLike, spreads: npt.ArrayLike | None) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return for each pair (i, j) whether j is better than i, and whether they tie."""
    values = np.asarray(errors, np.float64)
    width = np.zeros_like(values) if spreads is None else np.asarray(spreads, np.float64)
    if values.ndim != 1 or width.shape != values.shape or not np.isfinite([values, width]).all() or (width < 0).any():
        raise InputError(
            f"errors are {values.tolist()} and spreads are {width.tolist()}; give each algorithm one finite error and "
            "one spread of at least 0"
        )
    gap = values[:, None] - values[None, :]
    tied = (gap == 0.0) | (np.abs(gap) < np.maximum(width[:, None], width[None, :]))
    np.fill_diagonal(tied, val=False)
    return (gap > 0.0) & ~tied, tied


def friedman(table: npt.ArrayLike) -> tuple[float, float]:
    """Return Friedman's chi-square, and the probability of so large a value if all algorithms are equally good.

    ``table`` has the ranks, with a row for each stream and a column for each algorithm. The statistic is corrected
    for ties.

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
    """Return the difference of two average ranks from which on two algorithms differ (Nemenyi).

    >>> print(f"{critical_difference(algorithms=4, streams=14):.2f}")
    1.25
    """
    from scipy.stats import studentized_range

    k, n = whole("algorithms", algorithms, at_least=2), whole("streams", streams, at_least=1)
    quantile = studentized_range.ppf(1.0 - number("alpha", alpha, above=0.0, below=1.0), k, math.inf)
    return float(quantile) / math.sqrt(2.0) * math.sqrt(k * (k + 1) / (6.0 * n))


@dataclass(frozen=True)
class Ranking:
    """Algorithms ordered from the best average rank to the worst, with the tests of their differences."""

    algorithms: tuple[str, ...]
    average_ranks: tuple[float, ...]
    streams: int
    chi_square: float
    probability: float
    """Probability of so large a chi-square if all algorithms were equally good."""
    critical_difference: float

    @property
    def alike(self) -> tuple[tuple[str, ...], ...]:
        """The largest groups of algorithms that do not differ by the critical difference."""
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
        raise InputError(
            f"there are {len(algorithms)} algorithms and {len(rows)} streams; give at least two algorithms, one stream"
        )
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


@dataclass(frozen=True)
class Pair:
    """One algorithm beside another over the same streams."""

    algorithm: str
    other: str
    lower: int
    """Number of streams on which ``algorithm`` has the lower error."""
    higher: int
    """Number of streams on which it has the higher error; on the remaining ones the errors are the same."""
    probability: float
    """Probability of such differences if neither were better, by Wilcoxon's signed-rank test and Holm's correction."""


def pairs_with(algorithm: str, others: Sequence[str], errors: Iterable[Mapping[str, float]]) -> tuple[Pair, ...]:
    """Compare one algorithm with each of the others over streams, given as for :func:`ranking`.

    >>> errors = [{"a": 0.1 + k / 100, "b": 0.2 + k / 50, "c": 0.1 + k / 100} for k in range(6)]
    >>> [(pair.other, pair.lower, pair.higher, round(pair.probability, 4)) for pair in pairs_with("a", "bc", errors)]
    [('b', 6, 0, 0.0625), ('c', 0, 0, 1.0)]
    """
    rows = list(errors)
    gaps = [np.array([row[other] - row[algorithm] for row in rows]) for other in others]
    corrected = _holm([_signed_rank(gap) for gap in gaps])
    return tuple(
        Pair(algorithm, other, int(np.sum(gap > 0.0)), int(np.sum(gap < 0.0)), probability)
        for other, gap, probability in zip(others, gaps, corrected, strict=True)
    )


def _signed_rank(gaps: FloatArray) -> float:
    """Return the two-sided probability of Wilcoxon's test; streams without a difference are left out."""
    from scipy.stats import wilcoxon

    there = gaps[gaps != 0.0]
    return float(wilcoxon(there).pvalue) if len(there) else 1.0


def _holm(probabilities: Sequence[float]) -> list[float]:
    """Return the probabilities corrected for their number: the k-th smallest of m times m - k + 1, never falling."""
    order = np.argsort(probabilities, kind="stable")
    found, largest = [1.0] * len(probabilities), 0.0
    for place, k in enumerate(order):
        largest = max(largest, min(1.0, probabilities[k] * (len(probabilities) - place)))
        found[k] = largest
    return found


RESAMPLES = 2000
LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """A number with its confidence interval."""

    value: float
    low: float
    high: float


def resampled_means(errors: Sequence[npt.ArrayLike], *, resamples: int = RESAMPLES, seed: int = 0) -> FloatArray:
    """Return the mean error of each model in each resample, an array (resamples, models).

    ``errors`` has an array (seeds, steps) for each model; all have the same steps.

    >>> steady, better = np.full((2, 50), 0.3), np.full((2, 50), 0.2)
    >>> means = resampled_means([steady, better], resamples=4)
    >>> means.shape, bool((means[:, 1] < means[:, 0]).all())
    ((4, 2), True)
    """
    tables = [np.asarray(one, np.float64) for one in errors]
    if not tables or any(one.ndim != 2 or one.size == 0 or one.shape[1] != tables[0].shape[1] for one in tables):
        raise InputError(
            f"errors have the shapes {[one.shape for one in tables]}; give each model an array (seeds, steps) of the "
            "same steps"
        )
    generator = np.random.default_rng(seed)
    steps = tables[0].shape[1]
    length = math.ceil(steps ** (1 / 3))
    starts = generator.integers(steps, size=(whole("resamples", resamples, at_least=1), math.ceil(steps / length)))
    places = ((starts[:, :, None] + np.arange(length)) % steps).reshape(resamples, -1)[:, :steps]
    times = np.zeros((resamples, steps))
    np.add.at(times, (np.arange(resamples)[:, None], places), 1.0 / steps)
    means = np.empty((resamples, len(tables)))
    for k, one in enumerate(tables):
        seeds = generator.multinomial(len(one), np.full(len(one), 1.0 / len(one)), size=resamples) / len(one)
        means[:, k] = np.einsum("rs,st,rt->r", seeds, one, times)
    return means


def interval(value: float, resampled: FloatArray, level: float = LEVEL) -> Interval:
    """Return ``value`` with the percentiles of its resampled values.

    >>> interval(0.5, np.linspace(0.0, 1.0, 101), level=0.9)
    Interval(value=0.5, low=0.05, high=0.95)
    """
    aside = (1.0 - number("level", level, above=0.0, below=1.0)) / 2.0
    low, high = np.quantile(resampled, [aside, 1.0 - aside])
    return Interval(float(value), round(float(low), 12), round(float(high), 12))
