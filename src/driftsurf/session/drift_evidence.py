"""Evidence of a drift monitor: recent rows with their losses, frozen models, and contests."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf.core import functions
from driftsurf.core.contracts import CSR, DenseRows, FloatArray, Rows, Strategy, take_rows
from driftsurf.native import monitor as scan
from driftsurf.native.monitor import (
    LEAST_RARE,
    LEAST_ROWS,
    Follower,
    Held,
    row_losses,
)
from driftsurf.session.correction import Correction

Scorer = Callable[[Rows], FloatArray]


Integers = npt.NDArray[np.int64]


class Surroundings(NamedTuple):
    """Values of a session that a monitor needs when there may be a drift."""

    columns: Callable[[], Sequence[str]]
    """Returns the names of the columns."""
    classes: Sequence[Any]
    """Names of the classes by code."""
    strategy: Strategy
    """The strategy that is followed."""


LEAST_CHECKED = 100
"""Rows on which a frozen model must have been as good as usual before it can testify."""


class Block(NamedTuple):
    """Consecutive rows with their labels and the scores by which they were predicted."""

    first_row: int
    step: int
    X: Rows
    y: FloatArray
    scores: FloatArray
    steps: int = 1
    """Number of steps that the rows are."""


@dataclass(frozen=True)
class Anchor:
    """The model as it was before it learned ``row``."""

    row: int
    scorer: Scorer
    rows: float = 0.0
    """Rows on which it was compared with the usual loss from time to time, while nothing looked like a drift, ..."""
    total: float = 0.0
    """... and the sum of its losses on them; of numbers in their own unit."""


class Rise(NamedTuple):
    """The CUSUM of the losses of an older frozen model, and the rows and losses of comparisons since it was 0."""

    cusum: float = 0.0
    since: int = 0
    rows: float = 0.0
    total: float = 0.0


@dataclass(frozen=True)
class Contest:
    """Evidence since a sign: about the loss of a frozen model, and about the lead of what knows the new rows."""

    number: int
    """Number of the contest since the last drift, from 1."""
    since: int
    """First row of the suspected drift."""
    start: int
    """First row on which is bet."""
    anchor: Anchor | None
    """The frozen model; None if the strategy has none: then the learning model itself is judged."""
    usual: float
    """Usual mean loss."""
    reference: float
    """Mean loss of the null hypothesis: the usual one and its standard error."""
    spread: float
    """Factor by which the losses vary more than independent ones, at least 1."""
    before: float
    """Mean loss of the frozen model since ``since``, before the first bet."""
    lead: float
    """Mean lead of the learning model over the frozen one before the drift, and its standard error."""
    bets: FloatArray
    """Logarithms of the capitals, one for each alternative."""
    rows: int = 0
    total: float = 0.0
    """Sum of the losses on which was bet."""
    highest: float = 0.0
    """Largest logarithm of the mean capital."""
    drift: int = -1
    """Number of the drift that was declared; -1 before."""
    leads: FloatArray | None = None
    """Logarithms of the capitals of the second bet (contestants, stakes)."""
    columns: Integers | None = None
    """Columns that corrections examine."""
    old: Correction | None = None
    new: Correction | None = None
    rival: Scorer | None = None
    """A fresh model that learned the new rows alone."""
    centre: float = 0.0
    """Mean of old numbers, which corrections begin with if there is no frozen model."""
    corrected_rows: int = 0
    """Number of new rows of the last correction."""
    resolved: bool = False


class HeldRows:
    """The rows that a monitor holds, and their losses in the unit of its scan."""

    regression: bool
    smallest_rise: float
    rows: int
    """Number of rows so far."""
    _follower: Follower
    """The last rows, and the scan of their losses."""
    _parts: tuple[tuple[int, CSR], ...]
    """The last rows, if they are sparse, with the number of the first one of each part."""
    _scan: FloatArray
    """Values of the scan, while the monitor works on them; afterwards the follower has them."""

    @property
    def _first_row(self) -> int:
        """Number of the first row that is held."""
        return self._follower.block(0)[2]

    def _block(self, which: int) -> Block:
        """Return a block of held rows, counted from the first one, or the last one for -1."""
        a, b, row, step, steps = self._follower.block(which)
        return self._held(row, step, a, b)._replace(steps=steps)

    def _rows_between(self, lo: int, hi: int) -> Block:
        """Return the held rows from number ``lo`` to before ``hi``."""
        a, b, row = self._follower.between(lo, hi)
        return self._held(row, 0, a, b)

    def _held(self, row: int, step: int, a: int, b: int) -> Block:
        """Return the held rows at places ``a`` to ``b``, the first of which has the number ``row``."""
        memory = self._follower.memory
        X: Rows = memory.X[a:b]
        if self._parts:
            cuts = ((one, max(row - first, 0), row + b - a - first) for first, one in self._parts)
            limited = ((one, lo, min(hi, len(one.indptr) - 1)) for one, lo, hi in cuts)
            found = [take_rows(one, lo, hi) for one, lo, hi in limited if lo < hi]
            X = stacked(found) if found else take_rows(self._parts[-1][1], 0, 0)
        return Block(row, step, X, memory.y[a:b], memory.scores[a:b])

    def _scored(self, contest: Contest, block: Block) -> FloatArray:
        """Return the scores of the frozen model for a block; those of the learning model if there is none."""
        if contest.anchor is None or not len(block.y):
            return block.scores
        scores = contest.anchor.scorer(block.X)
        return scores if self.regression else log_odds(scores)

    @property
    def _least_rows(self) -> float:
        share = self._scan[scan.RANGE] / 2.0
        return max(LEAST_ROWS, LEAST_RARE / share if self._is_balanced else 0.0)

    @property
    def _is_balanced(self) -> bool:
        return bool(self._scan[scan.RANGE] < 1.0)

    @property
    def _unit(self) -> float:
        """The residual that is a loss of 1; 1 for classes."""
        return float(self._scan[scan.SCALE]) if self.regression else 1.0

    @property
    def _loss_mode(self) -> int:
        """How the variance of losses is computed."""
        return scan.NUMBERS if self.regression else scan.LOSSES

    @property
    def _spread(self) -> float:
        values: list[float] = self._scan.tolist()
        return max(1.0, values[scan.SPREAD] / values[scan.SPREADS], values[scan.NEAR] / values[scan.NEARS])

    def _mode(self, y: FloatArray, scores: FloatArray) -> tuple[int, FloatArray]:
        """Return how losses are computed, and from what."""
        if self.regression:
            return scan.NUMBERS, scores
        if scores.ndim == 1:
            return scan.MARGINS, scores
        return scan.LOSSES, (scores.argmax(axis=1) != y).astype(np.float64)

    def _losses(self, y: FloatArray, scores: FloatArray) -> FloatArray:
        """Return the losses of rows by scores of this or another model."""
        mode, values = self._mode(y, scores)
        losses = np.empty(len(y))
        row_losses(np.ascontiguousarray(values), np.ascontiguousarray(y), self._scan, losses, mode)
        return losses

    def _centred(self, y: FloatArray, losses: FloatArray) -> FloatArray:
        """Return losses whose mean does not depend on how many rows a rare class has."""
        if not self._is_balanced:
            return losses
        return np.asarray(losses + np.where(y > 0.5, *(scan.centre_of(one, self._scan) for one in (1.0, 0.0))))

    def _variance(self, mean: float) -> float:
        """Return the variance of losses with a mean."""
        return scan.variance_of(mean, self._loss_mode, self._scan)

    def _error(self, mean: float, rows: float) -> float:
        """Return the standard error of a mean of losses."""
        return math.sqrt(self._variance(mean) / max(rows, 1.0))

    def _reference(self, usual: float, weight: float) -> float:
        """Return the mean loss of the null hypothesis."""
        return scan.reference_of(usual, weight, self._loss_mode, self._scan)

    def _bet(self, mean: float, place: int) -> tuple[float, float, float]:
        """Return a usual mean loss, the stake on an alternative to it, and the growth of the capital in a row."""
        return scan.bet(mean, self._scan, self._variance(mean), place)

    def _scale(self, scores: FloatArray) -> tuple[int, float]:
        if self.regression:
            return 0, float(self._scan[scan.SCALE]) / 4.0
        return (2 if scores.ndim == 1 else scores.shape[1]), 1.0

    def _residuals(self, y: FloatArray, scores: FloatArray) -> FloatArray:
        """Return how far the labels are from what was predicted; for many classes, whether they are another one."""
        if self.regression:
            return y - scores
        if scores.ndim == 1:
            return np.asarray(y - 1.0 / (1.0 + functions.exp(-np.clip(scores, -30.0, 30.0))))
        return np.asarray(scores.argmax(axis=1) != y, np.float64)


def take_block(block: Block, lo: int, hi: int) -> Block:
    """Return some rows of a block."""
    return Block(block.first_row + lo, block.step, take_rows(block.X, lo, hi), block.y[lo:hi], block.scores[lo:hi])


def joined(blocks: Sequence[Block]) -> Block:
    """Return blocks as one."""
    if len(blocks) == 1:
        return blocks[0]
    first = blocks[0]
    outputs = max(1 if one.scores.ndim == 1 else one.scores.shape[1] for one in blocks)
    scores = [one.scores if outputs == 1 else as_classes(one.scores, outputs) for one in blocks]
    y = np.concatenate([one.y for one in blocks])
    X, steps = stacked([one.X for one in blocks]), sum(one.steps for one in blocks)
    return Block(first.first_row, first.step, X, y, np.concatenate(scores), steps)


def stacked(rows: Sequence[Rows]) -> Rows:
    """Return rows one below the other."""
    if not isinstance(rows[0], CSR):
        dense: Any = rows
        return np.concatenate(dense)
    parts = [one for one in rows if isinstance(one, CSR)]
    cuts = [(int(one.indptr[0]), int(one.indptr[-1])) for one in parts]
    starts = np.cumsum([0, *(b - a for a, b in cuts)])
    indptr = [one.indptr[1:] - a + start for one, (a, _), start in zip(parts, cuts, starts[:-1], strict=True)]
    data = np.concatenate([one.data[a:b] for one, (a, b) in zip(parts, cuts, strict=True)])
    indices = np.concatenate([one.indices[a:b] for one, (a, b) in zip(parts, cuts, strict=True)])
    whole = np.concatenate([np.zeros(1, parts[0].indptr.dtype), *indptr]).astype(parts[0].indptr.dtype)
    return CSR(data, indices, whole, parts[0].n_features)


def copied_rows(X: CSR) -> CSR:
    """Return a copy of sparse rows without the values around them."""
    a, b = int(X.indptr[0]), int(X.indptr[-1])
    return CSR(X.data[a:b].copy(), X.indices[a:b].copy(), X.indptr - a, X.n_features)


@functools.lru_cache(maxsize=8)
def no_columns(count: int) -> DenseRows:
    """Return rows without columns, which stand for sparse ones where labels and scores are held."""
    return np.zeros((count, 0))


def allocated(rows: int, blocks: int, X: Any, scores: FloatArray) -> Held:
    """Return memory for so many rows and blocks of the kind of these rows and scores."""
    outputs = scores.shape[1:] if scores.ndim == 2 and scores.shape[1] != 2 else ()
    X = np.empty((rows, X.shape[1]), X.dtype)
    return Held(X, np.empty(rows), np.empty((rows, *outputs)), np.empty((blocks, 4), np.int64))


def values_of(follower: Follower) -> FloatArray:
    """Return the values of the scan."""
    return np.frombuffer(follower.values).copy()


def widened(follower: Follower, scores: FloatArray) -> tuple[Follower, FloatArray]:
    """Return the follower, and scores of further rows, with as many classes as either has."""
    memory = follower.memory
    scores = log_odds(scores)
    outputs = max(1 if one.ndim == 1 else one.shape[1] for one in (memory.scores, scores))
    if memory.scores.shape[1:] != (outputs,):
        wide, place = Follower(scan.LOSSES, allocated), follower.start
        marks = memory.marks[follower.first_mark : follower.marks_stop].tolist()
        for closed, some in ((True, marks), (False, [follower.waiting_mark])):
            for first, step, steps, count in some:
                rows = slice(place, place + count)
                kept = memory.X[rows], memory.y[rows], as_classes(memory.scores[rows], outputs)
                wide = wide.extended(first, step, steps, *kept, closed)
                place += count
        follower = wide.with_values(values_of(follower), follower.anchor_at)
    return follower, as_classes(scores, outputs)


UNKNOWN_CLASS = -30.0
"""Logarithm of the probability of a class that a model does not know."""


def log_odds(scores: FloatArray) -> FloatArray:
    """Return scores of two classes as log-odds of the second one, others as they are; always a copy."""
    if scores.ndim == 2 and scores.shape[1] == 2:
        return np.ascontiguousarray(scores[:, 1] - scores[:, 0])
    return np.array(scores)


def as_classes(scores: FloatArray, outputs: int) -> FloatArray:
    """Return scores with a column for each class; a class that was not known has a very small probability."""
    if scores.ndim == 1:
        scores = np.stack([-np.logaddexp(0.0, scores), -np.logaddexp(0.0, -scores)], axis=1)
    missing = outputs - scores.shape[1]
    return scores if not missing else np.hstack([scores, np.full((len(scores), missing), UNKNOWN_CLASS)])


def wide(scores: FloatArray, other: FloatArray) -> FloatArray:
    """Return scores with as many classes as other ones."""
    outputs = max(1 if one.ndim == 1 else one.shape[1] for one in (scores, other))
    return scores if outputs == 1 else as_classes(scores, outputs)
