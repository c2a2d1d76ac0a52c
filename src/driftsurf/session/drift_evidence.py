"""Evidence of a drift monitor: recent rows with their losses, frozen models, and contests."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf.core import numeric
from driftsurf.core.contracts import CSR, DenseRows, FloatArray, Rows, Strategy, take_rows
from driftsurf.native.monitor import Held
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


class EvidenceBlock(NamedTuple):
    """Consecutive rows with their labels and the scores by which they were predicted."""

    first_row: int
    step: int
    X: Rows
    y: FloatArray
    scores: FloatArray
    steps: int = 1
    """Number of steps that the rows are."""


class Anchor(NamedTuple):
    """The model as it was before it learned ``row``."""

    row: int
    scorer: Scorer
    rows: float = 0.0
    """Rows on which it was compared with the usual loss from time to time, while nothing looked like a drift, ..."""
    total: float = 0.0
    """... and the sum of its losses on them; of numbers in their own unit."""

    def checked(self, rows: float, total: float) -> Anchor:
        """Return the model after further rows on which it was compared with the usual loss."""
        return self._replace(rows=self.rows + rows, total=self.total + total)


class DriftContest(NamedTuple):
    """Evidence since a sign: about the loss of a frozen model, and about the lead of what knows the new rows.

    The capitals that are bet on the loss of the frozen model are numbers of the monitor.
    """

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
    lead: float = 0.0
    """Mean lead of the learning model over the frozen one before the drift, and its standard error."""
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


def take_block(block: EvidenceBlock, lo: int, hi: int) -> EvidenceBlock:
    """Return some rows of a block."""
    return EvidenceBlock(
        block.first_row + lo, block.step, take_rows(block.X, lo, hi), block.y[lo:hi], block.scores[lo:hi]
    )


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


def residuals_of(y: FloatArray, scores: FloatArray, *, regression: bool) -> FloatArray:
    """Return how far the labels are from what was predicted; for many classes, whether they are another one."""
    if regression:
        return y - scores
    if scores.ndim == 1:
        return np.asarray(y - 1.0 / (1.0 + numeric.exp(-np.clip(scores, -30.0, 30.0))))
    return np.asarray(scores.argmax(axis=1) != y, np.float64)


def classes_of(scores: FloatArray, *, regression: bool) -> int:
    """Return the number of classes that scores are about; 0 for regression."""
    return 0 if regression else 2 if scores.ndim == 1 else scores.shape[1]
