"""Estimates of the error of rows as they are predicted: rows in blocks, and labels that find their rows by number."""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray, State
from driftsurf.core.fields import Array, FieldRule, Fields, Values, Whole
from driftsurf.core.numeric import exp
from driftsurf.core.state import nest, pick
from driftsurf.session.error_estimate import ErrorEstimate, ErrorEstimator

if TYPE_CHECKING:
    from driftsurf.session.observation import Observation

BLOCK_ROWS = 50
"""Rows of fewer than this are put together until they are so many."""
MOST_WAITING = 100_000
"""Rows that wait for their labels at most; the oldest block is dropped first."""
MOST_PAST = 50
"""Number of blocks whose estimates are remembered once their labels have come."""
KNOWN_SIZES = 2_000
"""Number of rows from which expected sizes of numeric errors are learned."""
VALUE_GROUPS, SPREAD_GROUPS = 8, 4
"""Groups of predicted numbers and of their spreads, of equal numbers of rows."""
UNKNOWN_ERROR = 0.5
"""Expected error of a model without probabilities, before its first labels come."""
SIZE_PRIOR = 20.0
"""Rows that the mean over all groups counts as in each."""


class RowSigns(NamedTuple):
    """Signs of errors that are known of rows when they are predicted.

    >>> RowSigns(np.array([0.1, 0.4])).rows
    2
    """

    values: FloatArray
    """1 minus the highest probability of each row, NaN if the model has none; for regression the predicted numbers."""
    disagreement: FloatArray | None = None
    """Disagreement of the experts about each row (rows, signs); None for a model without experts."""
    chances: FloatArray | None = None
    """Chance with which the label of each row was asked for, 0 where it was not; None if all labels will come."""

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.values)


def signs_of(scores: FloatArray, disagreement: FloatArray | None, *, regression: bool, probabilities: bool) -> RowSigns:
    """Return the signs of errors of rows with these scores.

    >>> signs_of(np.log([[0.75, 0.25], [0.5, 0.5]]), None, regression=False, probabilities=True).values.tolist()
    [0.25, 0.5]
    """
    if regression:
        return RowSigns(scores, disagreement)
    if not probabilities:
        return RowSigns(np.full(len(scores), np.nan), disagreement)
    if scores.ndim == 2:
        return RowSigns(1.0 - exp(scores.max(axis=1)), disagreement)
    return RowSigns(1.0 / (1.0 + exp(np.abs(scores))), disagreement)


@dataclass(slots=True, eq=False)
class EstimatedRows:
    """Consecutive rows with one estimate."""

    first: int
    """Number of the first row."""
    table: FloatArray
    """For each row the sign, the expected loss, the loss (NaN until its label comes), the chance, and disagreements."""
    estimate: ErrorEstimate | None = None
    missing: int = 0
    """Number of labels that were asked for and have not come."""

    @property
    def stop(self) -> int:
        """Number of the row after the last one."""
        return self.first + len(self.table)


SIGN, EXPECTED, LOSS, CHANCE, OWN = range(5)
"""Columns of the table of a block; disagreements follow."""


class ResidualSizes:
    """Expected squared errors of predicted numbers, by the number and by the spread of the experts.

    The last rows with labels are divided into groups of equal size, by the predicted number and by the spread; a row is
    expected to be off as those of its groups were.

    >>> sizes = ResidualSizes()
    >>> numbers = np.linspace(0.0, 1.0, 400)
    >>> sizes.learn(numbers, np.zeros(400), np.where(numbers > 0.5, 4.0, 1.0))
    >>> sizes.expected(np.array([0.1, 0.9]), np.zeros(2)).round(1)
    array([1.4, 3.6])
    """

    def __init__(self) -> None:
        self.known: FloatArray = np.zeros((0, 3))
        """Predicted numbers, spreads and squared errors of the last rows."""
        self._groups: tuple[FloatArray, FloatArray, FloatArray] | None = None

    def learn(self, values: FloatArray, spreads: FloatArray, squares: FloatArray) -> None:
        """Learn rows."""
        self.known = np.concatenate([self.known, np.column_stack([values, spreads, squares])])[-KNOWN_SIZES:]
        self._groups = None

    def expected(self, values: FloatArray, spreads: FloatArray) -> FloatArray:
        """Return the expected squared error of each row; there must be rows that were learned."""
        if self._groups is None:
            values_known, spreads_known = self.known[:, 0], self.known[:, 1]
            edges = _edges(values_known, VALUE_GROUPS), _edges(spreads_known, SPREAD_GROUPS)
            codes = self._codes(values_known, spreads_known, *edges)
            squares, size = self.known[:, 2], VALUE_GROUPS * SPREAD_GROUPS
            totals = np.bincount(codes, squares, minlength=size) + SIZE_PRIOR * float(squares.mean())
            self._groups = edges[0], edges[1], totals / (np.bincount(codes, minlength=size) + SIZE_PRIOR)
        first, second, means = self._groups
        return np.asarray(means[self._codes(values, spreads, first, second)])

    @staticmethod
    def _codes(values: FloatArray, spreads: FloatArray, first: FloatArray, second: FloatArray) -> npt.NDArray[np.int64]:
        group = np.searchsorted(first, values, side="right") * SPREAD_GROUPS
        return np.asarray(group + np.searchsorted(second, spreads, side="right"))


def _edges(column: FloatArray, groups: int) -> FloatArray:
    """Return the values that divide a column into groups of equal size."""
    return np.asarray(np.sort(column)[[len(column) * k // groups for k in range(1, groups)]])


@dataclass(slots=True, eq=False)
class ErrorTracker:
    """Estimates the error of rows when they are predicted, and learns from their labels whenever these come.

    Rows are numbered from 0 in the order of their predictions. Those of a call are one block, whose error is estimated;
    fewer than 50 rows are put together with the next ones, until there are so many.

    Examples
    --------
    >>> tracker = ErrorTracker(regression=False)
    >>> random = np.random.default_rng(0)
    >>> for step in range(40):
    ...     doubts = random.uniform(0.0, 0.4, 200)
    ...     found = tracker.predicted(RowSigns(doubts))
    ...     tracker.labelled(200 * step, (random.random(200) < doubts).astype(float))
    >>> print(tracker.predicted(RowSigns(np.full(200, 0.3))).describe())
    0.282 (0.229 to 0.334)
    """

    regression: bool
    """Whether losses are squared errors."""
    estimator: ErrorEstimator | None = None
    """None before the first block."""
    estimate: ErrorEstimate | None = None
    """The newest estimate; None before there is one."""
    next_row: int = 0
    _blocks: list[EstimatedRows] = field(default_factory=list)
    """Blocks that wait for labels, oldest first; the last one may have fewer rows than it needs."""
    _past: list[EstimatedRows] = field(default_factory=list)
    """The last blocks whose labels have come, without their values."""
    _sizes: ResidualSizes = field(default_factory=ResidualSizes)

    # -------------------------------------------------------------------- rows

    def predicted(self, signs: RowSigns) -> ErrorEstimate | None:
        """Take rows that were predicted; return the estimate for the newest block, None before there is one."""
        if not signs.rows:
            return self.estimate
        table = self._table(signs)
        last = self._blocks[-1] if self._blocks else None
        if last is not None and len(last.table) < BLOCK_ROWS and last.stop == self.next_row:
            last.table = np.concatenate([last.table, table])
        else:
            last = EstimatedRows(self.next_row, table)
            self._blocks.append(last)
        self.next_row += signs.rows
        last.missing += int(np.count_nonzero(table[:, CHANCE]))
        if len(last.table) >= BLOCK_ROWS:
            self._estimate(last)
            while len(self._blocks) > 1 and self.next_row - self._blocks[0].first > MOST_WAITING:
                del self._blocks[0]
        return self.estimate

    def observed(self, seen: Observation) -> ErrorEstimate | None:
        """Estimate the error of rows that were predicted, then learn their labels; None unless they end a block."""
        before, first = self.estimate, self.next_row
        kinds = {"regression": self.regression, "probabilities": seen.probabilities}
        self.predicted(signs_of(seen.scores, seen.disagreement, **kinds))
        found = self.estimate
        self.labelled(first, self.losses(seen.true, seen.predicted))
        return None if found is before else found

    def losses(self, true: npt.NDArray[Any], predicted: npt.NDArray[Any]) -> FloatArray:
        """Return the loss of each row."""
        return np.asarray(np.square(true - predicted) if self.regression else true != predicted, np.float64)

    def _table(self, signs: RowSigns) -> FloatArray:
        more = 0 if signs.disagreement is None else signs.disagreement.shape[1]
        table = np.empty((signs.rows, OWN + more))
        table[:, SIGN] = table[:, EXPECTED] = signs.values
        table[:, LOSS] = np.nan
        table[:, CHANCE] = 1.0 if signs.chances is None else signs.chances
        if signs.disagreement is not None:
            table[:, OWN:] = signs.disagreement
        return table

    def _estimate(self, block: EstimatedRows) -> None:
        """Estimate the error of a block that has enough rows."""
        table = block.table
        if self.estimator is None:
            self.estimator = ErrorEstimator(1 + table.shape[1] - OWN, regression=self.regression)
        if not self._expect(table):
            return
        if 1 + table.shape[1] - OWN != self.estimator.signals:  # a model of another kind predicts now
            return
        more = np.square(table[:, OWN:]) if self.regression else table[:, OWN:]
        signals = [float(table[:, EXPECTED].sum()), *more.sum(axis=0).tolist()]
        means = [self._error(one / len(table)) for one in signals]
        block.estimate = self.estimator.predict(block.first, len(table), means)
        self.estimate = block.estimate or self.estimate

    def _expect(self, table: FloatArray) -> bool:
        """Fill in the expected losses of rows; return whether they are known."""
        assert self.estimator is not None
        if self.regression:
            if not len(self._sizes.known):
                return False
            spreads = table[:, OWN] if table.shape[1] > OWN else np.zeros(len(table))
            table[:, EXPECTED] = self._sizes.expected(table[:, SIGN], spreads)
        elif math.isnan(table[0, SIGN]):
            usual = self.estimator.usual
            table[:, EXPECTED] = table[:, SIGN] = UNKNOWN_ERROR if math.isnan(usual) else usual
        return True

    def expected_losses(self) -> FloatArray:
        """Return the expected loss of each row of the newest block."""
        return np.asarray(self._blocks[-1].table[:, EXPECTED]) if self._blocks else np.zeros(0)

    # -------------------------------------------------------------------- labels

    def labelled(self, first: int, losses: FloatArray) -> None:
        """Take the losses of consecutive rows from ``first`` on, 0 or 1, or squared errors."""
        stop = first + len(losses)
        for block in self._between(first, stop):
            a, b = max(first, block.first), min(stop, block.stop)
            self._take(block, slice(a - block.first, b - block.first), losses[a - first : b - first])

    def labelled_rows(self, rows: npt.NDArray[np.int64], losses: FloatArray) -> None:
        """Take the losses of rows by their numbers; rows that are not known any more change nothing."""
        if not len(rows):
            return
        order = np.argsort(rows, kind="stable")
        rows, losses = rows[order], losses[order]
        for block in self._between(int(rows[0]), int(rows[-1]) + 1):
            a, b = np.searchsorted(rows, [block.first, block.stop])
            if a < b:
                self._take(block, rows[a:b] - block.first, losses[a:b])

    def _between(self, first: int, stop: int) -> list[EstimatedRows]:
        """Return the blocks that have rows between two numbers."""
        lo = max(bisect.bisect_right(self._blocks, first, key=lambda one: one.first) - 1, 0)
        return self._blocks[lo : bisect.bisect_left(self._blocks, stop, key=lambda one: one.first)]

    def _take(self, block: EstimatedRows, places: slice | npt.NDArray[np.int64], losses: FloatArray) -> None:
        """Take losses of rows of a block, and learn from it once all labels have come that were asked for."""
        table = block.table
        new = np.isnan(table[places, LOSS]) & (table[places, CHANCE] > 0.0)
        table[places, LOSS] = losses
        block.missing -= int(np.count_nonzero(new))
        if not block.missing and len(table) >= BLOCK_ROWS:
            self._learn(block)
            self._blocks.remove(block)
            self._past = [*self._past[1 - MOST_PAST :], replace(block, table=table[:, :0].copy())]

    def estimate_of(self, rows: npt.NDArray[np.int64]) -> ErrorEstimate | None:
        """Return the mean of the estimates that were made for rows; None if there is none, or if it was long ago."""
        found = [
            (int(np.count_nonzero((rows >= one.first) & (rows < one.stop))), one.estimate)
            for one in (*self._past, *self._blocks)
        ]
        known = [(count, one) for count, one in found if count and one is not None]
        total = sum(count for count, _ in known)
        if not total:
            return None
        value, low, high = (sum(count * one[k] for count, one in known) / total for k in range(3))
        return ErrorEstimate(value, low, high, total)

    def _learn(self, block: EstimatedRows) -> None:
        """Learn from a block whose labels have come."""
        table, estimator = block.table, self.estimator
        assert estimator is not None
        asked, losses = table[:, CHANCE] > 0.0, table[:, LOSS]
        if self.regression and asked.any():
            spreads = table[asked, OWN] if table.shape[1] > OWN else np.zeros(int(asked.sum()))
            self._sizes.learn(table[asked, SIGN], spreads, losses[asked])
        if asked.all() and (table[:, CHANCE] == 1.0).all():
            estimator.learn(block.first, self._error(float(losses.sum()) / len(table)))
        elif asked.any():
            weights = 1.0 / table[asked, CHANCE]
            corrected = estimator.audit(block.first, losses[asked], table[asked, EXPECTED], weights)
            self.estimate = corrected or self.estimate
            effective = float(weights.sum()) ** 2 / float(np.square(weights).sum())
            mean = float((weights * losses[asked]).sum()) / float(weights.sum())
            estimator.learn(block.first, self._error(mean), effective)

    def _error(self, mean: float) -> float:
        return math.sqrt(mean) if self.regression else mean

    # -------------------------------------------------------------------- state

    def state(self) -> State:
        """Return everything that later estimates depend on."""
        blocks, width = [*self._past, *self._blocks], max([OWN, *(one.table.shape[1] for one in self._blocks)])
        tables = [np.zeros((0, width)), *(_padded(one.table, width) for one in self._blocks)]
        state: State = {
            "next_row": self.next_row,
            "blocks": np.array([[one.first, *one.table.shape] for one in blocks], np.int64).reshape(len(blocks), 3),
            "past": len(self._past),
            "rows": np.concatenate(tables),
            "sizes": self._sizes.known,
            "estimates": np.array([_plain(one) for one in (self.estimate, *(block.estimate for block in blocks))]),
        }
        return state if self.estimator is None else state | nest("estimator", self.estimator.state())

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state()`` returned."""
        known, own = FIELDS.read(state), pick("estimator", state)
        self.estimator, self.next_row = ErrorEstimator.from_state(own) if own else None, known["next_row"]
        self._sizes, self._blocks, self._past = ResidualSizes(), [], []
        self._sizes.known = known["sizes"]
        estimates = [_from_plain(one) for one in known["estimates"].tolist()]
        self.estimate = estimates[0]
        start, past = 0, known["past"]
        shapes = zip(known["blocks"].tolist(), estimates[1:], strict=True)
        for place, ((first, rows, width), estimate) in enumerate(shapes):
            if place < past:
                self._past.append(EstimatedRows(first, np.zeros((rows, 0)), estimate))
                continue
            table = known["rows"][start : start + rows, :width].copy()
            missing = int(np.count_nonzero(np.isnan(table[:, LOSS]) & (table[:, CHANCE] > 0.0)))
            self._blocks.append(EstimatedRows(first, table, estimate, missing))
            start += rows


def _padded(table: FloatArray, width: int) -> FloatArray:
    return np.pad(table, ((0, 0), (0, width - table.shape[1])))


def _plain(estimate: ErrorEstimate | None) -> list[float]:
    return [math.nan] * 5 if estimate is None else [float(one) for one in estimate]


def _from_plain(saved: list[float]) -> ErrorEstimate | None:
    value, low, high, rows, audited = saved
    return None if math.isnan(rows) else ErrorEstimate(value, low, high, int(rows), int(audited))


def _are_blocks(known: Values) -> bool:
    """Return whether the blocks are in order, have all rows, and fit their tables."""
    first, rows, width = known["blocks"][known["past"] :].T
    in_order = (first[1:] >= (first + rows)[:-1]).all() and (first + rows <= known["next_row"]).all()
    fits = not len(rows) or (rows.min() > 0 and width.min() >= OWN and width.max() <= known["rows"].shape[1])
    return bool(in_order and fits and rows.sum() == len(known["rows"]))


FIELDS = Fields(
    {
        "next_row": Whole(),
        "past": Whole(0, MOST_PAST),
        "blocks": Array(np.int64, ("waiting", 3), least=0),
        "rows": Array(np.float64, ("*", "*"), missing=True),
        "sizes": Array(np.float64, ("*", 3)),
        "estimates": Array(np.float64, ("waiting+1", 5), missing=True),
    },
    parts=["estimator"],
    rules=[
        FieldRule("past", "must be blocks", lambda known: known["past"] <= len(known["blocks"])),
        FieldRule("blocks", "must be rows in order, each with its values", _are_blocks),
    ],
)
"""Saved entries of a tracker."""
