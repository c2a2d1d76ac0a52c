"""Correction of a frozen model by some rows: how its scores would have to change, column by column."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import CSR, FloatArray, Rows, State
from driftsurf.core.fields import Array, Fields, Real
from driftsurf.native.columns import column_products

MOST_COLUMNS = 64
"""Columns that are examined; of more, those that go along most with the residuals."""
BINS = 8
ROUNDS = 12
SHRINKAGE = 0.5
PRIOR = 1.0
"""Weight of the belief that nothing has to be corrected, in rows whose label is a coin toss."""
LARGEST_SCORE = 5.0
MOST_SCORE = 30.0
"""Log-odds beyond which a probability is 0 or 1, to three parts in 10^14."""
BACKFITS = 3
"""Times that what a column explains is taken away, each time given the others."""
BEYOND_SCORE = 0.1
"""Probability by chance that a column must stay below once the score is accounted for."""
SIGNIFICANCE = 0.01
"""Probability with which any column is named by chance."""

Integers = npt.NDArray[np.int64]


def telling_columns(X: Rows, residuals: FloatArray, most: int = MOST_COLUMNS) -> Integers:
    """Return the columns to examine: all, or of many those whose values go along most with the residuals."""
    width = X.n_features if isinstance(X, CSR) else X.shape[1]
    if width <= most:
        return np.arange(width)
    centred = residuals - residuals.mean()
    if isinstance(X, CSR):
        products = np.zeros((width + 1, 3))
        column_products(X, np.column_stack([np.ones(len(centred)), centred]), products)
        total, along, squares = products[1:].T
        spread, along = np.sqrt(np.maximum(squares - total**2 / len(centred), 0.0)), np.abs(along)
    else:
        spread = X.std(axis=0) * math.sqrt(len(centred))
        along = np.abs(centred @ (X - X.mean(axis=0)))
    ranks = np.divide(along, spread, out=np.zeros(width), where=spread > 0.0)
    return np.sort(np.argsort(-ranks, kind="stable")[:most])


def narrowed(X: Rows, columns: Integers) -> FloatArray:
    """Return some columns of rows as a dense array."""
    if not isinstance(X, CSR):
        return np.asarray(X[:, columns], np.float64)
    out = np.zeros((len(X.indptr) - 1, len(columns)))
    a, b = int(X.indptr[0]), int(X.indptr[-1])
    places = np.full(X.n_features, -1)
    places[columns] = np.arange(len(columns))
    found = places[X.indices[a:b]]
    rows = np.repeat(np.arange(len(out)), np.diff(X.indptr))
    out[rows[found >= 0], found[found >= 0]] = X.data[a:b][found >= 0]
    return out


@dataclass(frozen=True)
class Correction:
    """Scores of a frozen model, corrected for bins of the values of single columns and of its own score.

    It is an additive model, made by twelve rounds of boosting: each round corrects for the column that explains most
    of the residuals. A bin counts apart for rows that the model predicted differently, so that a rule that was reversed
    for some values of a column can be corrected.

    The unit of a score is the log-odds of two classes, the log-probability of more, or ``unit`` for numbers.
    """

    n_classes: int
    """Number of classes; 0 for regression."""
    unit: float
    edges: FloatArray
    """Inner edges of the bins of each column, the last of which is the score (columns, BINS - 1)."""
    chosen: Integers
    """Column of each round."""
    values: FloatArray
    """What each round adds to a row in each bin (rounds, 2 * BINS, outputs)."""

    @classmethod
    def fitted(cls, n_classes: int, unit: float, X: FloatArray, y: FloatArray, scores: FloatArray) -> Correction:
        """Return the correction that rows with true targets ask for."""
        shares = np.linspace(0.0, 1.0, BINS + 1)[1:-1]
        columns = np.column_stack([X, _level(scores)])
        edges = np.ascontiguousarray(np.quantile(columns, shares, axis=0).T)
        start = cls(n_classes, unit, edges, np.zeros(0, np.int64), np.zeros((0, 2 * BINS, _outputs(scores))))
        cells, F = start._cells(X, scores), start._start(scores)
        chosen, values = list[int](), list[FloatArray]()
        for _ in range(ROUNDS):
            gains, steps = _gains(cells, *start._slopes(F, y))
            best = int(np.argmax(gains))
            chosen.append(best)
            values.append(SHRINKAGE * steps[best] * (1.0 if n_classes else unit))
            F = F + values[-1][cells[:, best]]
        return cls(n_classes, unit, edges, np.array(chosen), np.stack(values))

    def corrected(self, X: FloatArray, scores: FloatArray) -> FloatArray:
        """Return the corrected scores of rows (rows, outputs)."""
        F, cells = self._start(scores), self._cells(X, scores)
        known = F[:, : self.values.shape[2]]  # a class that appeared since is not corrected
        for column, values in zip(self.chosen.tolist(), self.values, strict=True):
            known += values[cells[:, column]]
        return F

    def losses(self, X: FloatArray, y: FloatArray, scores: FloatArray) -> FloatArray:
        """Return the losses of the corrected scores: 0 or 1, or for numbers the residual in quarters of the unit."""
        F = self.corrected(X, scores)
        if not self.n_classes:
            return np.asarray(np.minimum(np.abs(F[:, 0] - y) / (4.0 * self.unit), 1.0))
        predicted = F[:, 0] > 0.0 if F.shape[1] == 1 else F.argmax(axis=1)
        return np.asarray(predicted != y, np.float64)

    def slopes(self, X: FloatArray, y: FloatArray, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the residuals of rows, and their variances, by the corrected scores."""
        return self._slopes(self.corrected(X, scores), y)

    def _start(self, scores: FloatArray) -> FloatArray:
        if not self.n_classes:
            return np.array(scores[:, None])
        return np.array(np.clip(scores.reshape(len(scores), -1), -LARGEST_SCORE, LARGEST_SCORE))

    def _cells(self, X: FloatArray, scores: FloatArray) -> Integers:
        columns = np.column_stack([X, _level(scores)])
        cells = np.empty(columns.shape, np.int64)
        for place, edges in enumerate(self.edges):
            cells[:, place] = np.searchsorted(edges, columns[:, place])
        if scores.ndim == 1:
            threshold = 0.0 if self.n_classes else self.edges[-1, (BINS - 1) // 2]
            cells += BINS * (scores > threshold)[:, None]
        return cells

    def _slopes(self, F: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        if not self.n_classes:
            most = 3.0 * self.unit
            return np.clip(y[:, None] - F, -most, most) / self.unit, np.ones_like(F)
        if F.shape[1] == 1:
            p, true = 1.0 / (1.0 + np.exp(-np.clip(F, -MOST_SCORE, MOST_SCORE))), y[:, None]
        else:
            p = np.exp(F - F.max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
            true = (y[:, None] == np.arange(F.shape[1])).astype(np.float64)
        return np.asarray(true - p, np.float64), np.maximum(p * (1.0 - p), 1e-4)

    # -------------------------------------------------------------------- state

    def state(self) -> State:
        """Return the correction as flat entries."""
        return {"unit": self.unit, "edges": self.edges, "chosen": self.chosen, "values": self.values}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], n_classes: int) -> Correction:
        """Return the correction that ``state()`` was called on."""
        known = FIELDS.read(state)
        return cls(n_classes, known["unit"], known["edges"], known["chosen"], known["values"])


FIELDS = Fields(
    {
        "unit": Real(least=1e-300),
        "edges": Array(np.float64, ("columns", BINS - 1)),
        "chosen": Array(np.int64, ("rounds",), least=0, most="columns-1"),
        "values": Array(np.float64, ("rounds", 2 * BINS, "outputs")),
    }
)
"""Saved entries of a correction."""


def _level(scores: FloatArray) -> FloatArray:
    """Return the score by which rows are binned: itself, or the largest log-probability."""
    return scores if scores.ndim == 1 else scores.max(axis=1)


def _outputs(scores: FloatArray) -> int:
    return 1 if scores.ndim == 1 else scores.shape[1]


def _sums(cells: Integers, values: FloatArray) -> FloatArray:
    """Return the sums of values over the rows of each bin of each column (columns, 2 * BINS, outputs)."""
    columns = cells.shape[1]
    flat = (cells + 2 * BINS * np.arange(columns)).ravel()
    size = columns * 2 * BINS
    sums = [np.bincount(flat, np.repeat(one, columns), size) for one in values.T]
    return np.asarray(np.stack(sums, axis=1).reshape(columns, 2 * BINS, -1), np.float64)


def _gains(cells: Integers, residuals: FloatArray, variances: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return how much each column explains of the residuals, and the steps that its bins ask for."""
    slopes, curvatures = _sums(cells, residuals), _sums(cells, variances)
    prior = PRIOR * (0.25 if variances.max() <= 0.25 else 4.0)
    steps = np.clip(slopes / (curvatures + prior), -2.0 * LARGEST_SCORE, 2.0 * LARGEST_SCORE)
    return (slopes * steps).sum(axis=(1, 2)), steps


class Evidence(NamedTuple):
    """Rows with the scores that a frozen model gave to them."""

    X: FloatArray
    y: FloatArray
    scores: FloatArray


def changed_columns(
    n_classes: int,
    unit: float,
    old: Evidence,
    new: Evidence,
    groups: Sequence[int],
    width: int,
    *,
    strict: bool = False,
    most: int = 5,
) -> list[int]:
    """Return the groups of columns whose relation to the residuals differs between old and new rows beyond chance.

    A score test compares the mean residuals of a frozen model in the bins of each column. The column with the largest
    difference is named, the scores of the new rows are corrected for it, and the test is repeated, so that a column
    which only goes along with another one is not named beside it. ``width`` is the number of all groups, of which one
    is named by chance with a probability of 1 %. With ``strict``, a column must also explain what the score cannot:
    noise changes what all rows with the same score have in common.
    """
    from scipy.special import gammaincc  # slow to import, and few processes ever need it

    shares = np.linspace(0.0, 1.0, BINS + 1)[1:-1]
    edges = np.quantile(np.concatenate([old.X, new.X]), shares, axis=0).T
    level = np.quantile(np.concatenate([_level(old.scores), _level(new.scores)]), shares)[None]
    binned = Correction(n_classes, unit, np.vstack([edges, level]), np.zeros(0, np.int64), np.zeros((0, 2 * BINS, 1)))
    before, after = (binned._cells(one.X, one.scores) for one in (old, new))
    slopes, variances = (_sums(before, part) for part in binned.slopes(*old))
    start = binned._start(new.scores)
    members = np.append(np.asarray(groups), max(groups) + 1)  # the last column is the score
    score = int(members[-1])
    counted = _counted_cells(np.concatenate([before, after]), np.bincount(members)[members] > 1)
    weights = _weights(np.vstack([old.X, new.X]), members)

    def tested(F: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return by how much the difference of each group exceeds chance, its probability, and what takes it away."""
        gains, changes = _differences(
            after, *binned._slopes(F, new.y), slopes, variances, counted, robust=not n_classes
        )
        statistics, freedom = (np.bincount(members, part * weights) for part in gains)
        chances = gammaincc(np.maximum(freedom, 1) / 2.0, statistics / 2.0)
        return np.asarray(statistics - freedom), np.asarray(chances), changes

    def without(F: FloatArray, taken: Sequence[int]) -> FloatArray:
        """Return the scores without what some groups explain."""
        for group in [*taken] * BACKFITS:
            changes = tested(F)[2]
            for column in np.flatnonzero(members == group):
                F = F + changes[column][after[:, column]] * (1.0 if n_classes else unit)
        return F

    start, found = binned._start(new.scores), list[int]()
    least = BEYOND_SCORE if strict else 1.0
    beyond = tested(without(start, [score]))[1] <= least
    F = start
    while len(found) < most:
        excess, chances, _ = tested(F)
        excess[(chances > SIGNIFICANCE / max(width, 1)) | ~beyond] = -np.inf
        excess[[score, *found]] = -np.inf
        best = int(excess.argmax())
        if excess[best] == -np.inf:
            break
        found.append(best)
        F = without(start, [*found, score])
    return found


def _counted_cells(cells: Integers, shared: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return which bins of columns count: of columns that are one source together, not the bin with the most rows.

    That bin of the indicator of one category has the rows of all others, which would count once for each of them.
    """
    counted = np.ones((cells.shape[1], 2, BINS), np.bool_)
    for column in np.flatnonzero(shared):
        counted[column, :, np.bincount(cells[:, column] % BINS, minlength=BINS).argmax()] = False
    return counted.reshape(-1, 2 * BINS)


def _weights(X: FloatArray, members: Integers) -> FloatArray:
    """Return how much each column counts in its group, so that what several columns say counts once.

    The indicators of categories have different rows; they are one column together, and so are the other columns.
    """
    weights = np.ones(len(members))
    for group in np.flatnonzero(np.bincount(members) > 1):
        own = np.flatnonzero(members == group)
        other = np.array([len(np.unique(X[:, column])) > 2 for column in own])
        kinds = int(other.any()) + int(not other.all())
        weights[own] = np.where(other, 1.0 / max(int(other.sum()), 1), 1.0) / kinds
    return weights


def _differences(
    cells: Integers,
    residuals: FloatArray,
    variances: FloatArray,
    old_slopes: FloatArray,
    old_variances: FloatArray,
    counted: npt.NDArray[np.bool_],
    *,
    robust: bool,
) -> tuple[tuple[FloatArray, FloatArray], FloatArray]:
    """Return statistic and degrees of freedom of the difference of each column, and what would take it away."""
    slopes, weights = _sums(cells, residuals), _sums(cells, variances)
    share = np.divide(weights, old_variances, out=np.zeros_like(weights), where=old_variances > 0.0)
    noise = weights * (1.0 + share)
    if robust:
        noise = noise * max(float(np.mean(np.square(residuals - residuals.mean()))), 1e-12)
    known = (weights > 0.0) & (old_variances > 0.0) & counted[:, :, None]
    steps = slopes - share * old_slopes
    ratio = np.divide(np.square(steps), noise, out=np.zeros_like(noise), where=known)
    changes = np.divide(steps, weights + PRIOR, out=np.zeros_like(steps), where=weights > 0.0)
    return (ratio.sum(axis=(1, 2)), known.sum(axis=(1, 2)).astype(np.float64)), changes
