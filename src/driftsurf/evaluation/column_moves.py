"""Which columns changed around a reaction: their means, and their correlation with the label."""

from __future__ import annotations

import csv
import io
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import CSR, FloatArray, Rows, State
from driftsurf.core.fields import MOST, Array, FieldRule, Fields, Values, Whole
from driftsurf.core.input import listed
from driftsurf.core.wording import significant
from driftsurf.errors import InputError
from driftsurf.evaluation.scoring import csv_line
from driftsurf.native.columns import column_products
from driftsurf.session.observation import Observation
from driftsurf.session.session import Session

MOST_NUMBERS = 2**18
"""Limit on the numbers in memory (2 MB). If there are more columns than fit, only the first ones are watched."""
MOST_CLASSES = 12
"""Classes whose correlations are watched, if there are more than two."""
MOST_STEPS = 10
"""Steps that are compared on each side of a reaction."""
LEAST_CHANGES = 20
"""A column that changed in fewer rows is not a clock or a counter ..."""
SLOW_CHANGES = 4
"""... unless it changed in this many, and in half of the steps, as a calendar does."""
LISTED = 6
"""Columns that are listed for their shift, and again for their change of correlation."""
REACTIONS = "entered", "reset", "replaced"
"""Kinds of transitions around which columns are compared."""


@dataclass(frozen=True, slots=True)
class ColumnMove:
    """How one column changed from the steps before a reaction to the steps after it."""

    step: int
    """The step of the reaction; it belongs to the steps after."""
    steps: int
    """The number of steps on each side, at most."""
    column: int
    name: str
    mean_before: float
    mean_after: float
    shift: float
    """The difference of the means in standard deviations of all compared rows, from -2 to 2."""
    label: str
    """The class whose correlation changed most; '' for regression, or if only one class had appeared."""
    correlation_before: float
    """Correlation of the column with belonging to the class, or with the target of a regression."""
    correlation_after: float
    noise: float
    """The size of changes that chance alone explains: sqrt(1 / rows before + 1 / rows after)."""
    counts: bool = False
    """Whether the column had only risen, or only fallen, from row to row since the run began, as a clock does."""
    calendar: bool = False
    """Whether the column follows the calendar, as weekdays and hours do: then its mean always moves."""

    @property
    def beyond_chance(self) -> bool:
        """Whether the shift or the change of the correlation is more than three times the noise.

        That the mean of a part of the calendar shifts says nothing.
        """
        shift = 0.0 if self.calendar else abs(self.shift)
        return max(shift, abs(self.correlation_change)) > 3.0 * self.noise

    @property
    def correlation_change(self) -> float:
        """The correlation after the reaction minus the one before it."""
        return self.correlation_after - self.correlation_before

    def describe(self) -> str:
        """Return one line of text, with the larger change first.

        >>> ColumnMove(20, 4, 0, "x0", 0.5, 0.5, 0.01, "1", 0.62, -0.6, 0.05).describe()
        'x0: correlation with class 1 from +0.62 to -0.60; mean 0.5 to 0.5 (+0.01 sd)'
        """
        mean = f"mean {significant(self.mean_before, 3)} to {significant(self.mean_after, 3)} ({self.shift:+z.2f} sd)"
        if not self.correlation_before and not self.correlation_after:
            return f"{self.name}: {mean}"
        target = f"class {self.label}" if self.label else "the label"
        change = f"correlation with {target} from {self.correlation_before:+z.2f} to {self.correlation_after:+z.2f}"
        parts = [change, mean] if abs(self.correlation_change) >= abs(self.shift) else [mean, change]
        return f"{self.name}: {'; '.join(parts)}"


def without_counters(
    moves: Sequence[ColumnMove], of_run: Sequence[ColumnMove]
) -> tuple[list[ColumnMove], list[ColumnMove]]:
    """Return the moves of a reaction without those of clocks and counters, and the latter.

    The mean of a steadily growing column moves by sqrt(3) standard deviations around every step. So a column is also a
    clock, with a few rows out of order, if it moved by that much, in the same direction, around every reaction of the
    run (at least two).
    """
    shifts: dict[int, list[float]] = {}
    for move in of_run:
        shifts.setdefault(move.column, []).append(move.shift)
    steady = {
        column
        for column, found in shifts.items()
        if len(found) > 1 and any(all(abs(sign * shift - 3.0**0.5) < 0.1 for shift in found) for sign in (1, -1))
    }
    counters = [move for move in moves if move.counts or move.column in steady]
    return [move for move in moves if move not in counters], counters


def name_counters(counters: Iterable[ColumnMove]) -> str:
    """Return a sentence about columns that are not listed because they only count, or "" if there are none.

    >>> name_counters([ColumnMove(20, 4, 0, "id", 10.0, 20.0, 1.73, "", 0.0, 0.0, 0.05, counts=True)])
    "not listed, because it only counts up or down: 'id'"
    """
    names = list(dict.fromkeys(move.name for move in counters))
    why = "they only count" if len(names) > 1 else "it only counts"
    return f"not listed, because {why} up or down: {listed(names)}" if names else ""


class _Counters:
    """Finds the columns that only rise, or only fall, from row to row. Columns that did both are not looked at again.

    ``rises`` and ``falls`` count the rows of each column in which it did, ``active`` the steps in which it did either,
    and ``last`` is the row before.
    """

    def __init__(self, width: int) -> None:
        self.steps = 0
        self.active = np.zeros(width)
        self.rises = np.zeros(width)
        self.falls = np.zeros(width)
        self.last = np.full(width, np.nan)
        self._places: npt.NDArray[np.int64] | None = None

    def update(self, rows: Rows) -> None:
        """Look at the rows of a step. Of sparse rows, only columns that are there in all rows but one are examined."""
        self.steps += 1
        places = self._open_columns(rows) if self._places is None else self._places
        if not len(places):
            return
        values = _dense_columns(rows, places) if isinstance(rows, CSR) else rows[:, places]
        with np.errstate(over="ignore", invalid="ignore"):
            steps = np.diff(np.vstack([self.last[places], values]), axis=0)
        self.rises[places] += np.count_nonzero(steps > 0.0, axis=0)
        self.falls[places] += np.count_nonzero(steps < 0.0, axis=0)
        self.active[places] += (steps != 0.0).any(axis=0)
        self.last[places] = values[-1]
        self._places = places[(self.rises[places] == 0.0) | (self.falls[places] == 0.0)]

    def _open_columns(self, rows: Rows) -> npt.NDArray[np.int64]:
        """Return the columns that did not both rise and fall; of the first sparse rows only those that are examined."""
        if isinstance(rows, CSR) and np.isnan(self.last).all():
            there = np.bincount(rows.indices[rows.indptr[0] : rows.indptr[-1]], minlength=len(self.last))
            self.rises[there[: len(self.last)] < len(rows.indptr) - 2] = np.inf
            self.falls[np.isinf(self.rises)] = np.inf
        self._places = np.flatnonzero((self.rises == 0.0) | (self.falls == 0.0))
        return self._places

    def found(self) -> npt.NDArray[np.bool_]:
        """Return which columns only rise or only fall. One that changes only now and then may be a switch."""
        one_way, changes = np.minimum(self.rises, self.falls) == 0.0, np.maximum(self.rises, self.falls)
        often = (changes >= SLOW_CHANGES) & (self.active >= self.steps / 2)
        return np.asarray(one_way & ((changes >= LEAST_CHANGES) | often))


class ColumnMoves:
    """Watch the columns of a run and record which ones changed around each reaction.

    A concept can drift without a shift of any column: then the correlation of a column with the label changes. So the
    sums of x, x^2 and x y of every column are taken at each step. The steps before a reaction, as many as its reactive
    state has, are kept as one matrix each; the steps from the reaction on are added up. When there are as many of
    them, the columns with the largest shifts and the largest changes of correlation are written. The work is
    proportional to the new rows, and memory is bounded.

    Parameters
    ----------
    session
        The model whose reactions count, and which knows the columns.
    names
        Returns the names of the columns, if the model gets rows without names.
    calendar
        Returns the places of columns that follow the calendar.
    """

    def __init__(
        self,
        session: Session,
        names: Callable[[], Sequence[str]] | None = None,
        calendar: Callable[[], Sequence[int]] = tuple,
    ) -> None:
        self.session = session
        self.names = names
        self.calendar = calendar
        self._centre: FloatArray | None = None
        """Column means of the first batch, then its mean target. Sums are taken of differences from it, because the
        sums of squares of large numbers lose the digits that a variance needs."""
        self._n_classes = 0
        self._counters = _Counters(0)
        self._recent: deque[FloatArray] = deque(maxlen=MOST_STEPS)
        self._before: FloatArray | None = None
        self._after: FloatArray | None = None
        self._open = -1, 0, 0
        """The step of the reaction that is watched, the number of steps to compare, and how many are still to come."""

    def head(self) -> str:
        """Return the line of column names."""
        return csv_line([field.name for field in fields(ColumnMove)])

    def lines(self, X: Any, seen: Mapping[str, Observation]) -> str:
        """Return the lines of a reaction whose steps are complete now; else an empty string."""
        first = next(iter(seen.values()))
        if not len(first.true):
            return ""
        sums = self._sums(self.session.read(X), first.true)
        self._begin(first)
        step, steps, missing = self._open
        text = ""
        if missing:
            assert self._before is not None
            self._after = sums if self._after is None else self._after + sums
            self._open = step, steps, missing - 1
            if missing == 1:
                text = self._written(self._before, self._after)
                self._before = self._after = None
        self._recent.append(sums)
        return text

    def _begin(self, seen: Observation) -> None:
        for decision in seen.decisions:
            reacted = any(transition.kind in REACTIONS for transition in decision.transitions)
            if reacted and not self._open[2] and self._recent:
                steps = min(decision.reactive_length or 4, MOST_STEPS)
                self._open = decision.step, steps, steps
                self._before = np.sum(list(self._recent)[-steps:], axis=0)

    def _sums(self, rows: Rows, true: Any) -> FloatArray:
        """Return the sums over a batch: a row for 1, for each target and for x (which gives x^2), a column for 1 and
        for each x."""
        y = np.asarray(true, np.float64)
        if self._centre is None:
            self._first(rows, y)
        assert self._centre is not None
        width = len(self._centre) - 1
        self._counters.update(rows)
        targets = self._targets(y)
        by_column = np.zeros((width + 1, targets.shape[1] + 1))
        if isinstance(rows, CSR):
            column_products(rows, targets, by_column)
            return np.ascontiguousarray(by_column.T)
        by_column[0, :-1], by_column[0, -1] = targets.sum(axis=0), len(y)
        with np.errstate(over="ignore", invalid="ignore"):  # an overflow is noticed later, and the column left out
            X = rows[:, :width] - self._centre[:-1]
            by_column[1:, :-1], by_column[1:, -1] = (targets.T @ X).T, np.einsum("ij,ij->j", X, X)
        return np.ascontiguousarray(by_column.T)

    def _first(self, rows: Rows, y: FloatArray) -> None:
        """Choose the columns and targets to watch. Sparse rows are not centred, so that they stay sparse."""
        self._n_classes = self.session.targets.n_classes
        columns = rows.n_features if isinstance(rows, CSR) else rows.shape[1]
        width = min(columns, MOST_NUMBERS // ((3 + max(2, len(self._codes))) * (MOST_STEPS + 2)))
        middle = np.zeros(width)
        if not isinstance(rows, CSR):
            with np.errstate(over="ignore", invalid="ignore"):
                middle = np.asarray(rows[:, :width].mean(axis=0), np.float64)
            middle[~np.isfinite(middle)] = 0.0
        self._counters = _Counters(width)
        self._centre = np.append(middle, 0.0 if self._n_classes else y.mean())

    @property
    def _codes(self) -> range:
        """The classes to correlate with: the second of two, else each of the first dozen; none for regression."""
        return range(1, 2) if self._n_classes == 2 else range(min(self._n_classes, MOST_CLASSES))

    def _targets(self, y: FloatArray) -> FloatArray:
        """Return a column of ones, then one for each class, or the difference from the centre and its square."""
        assert self._centre is not None
        out = np.ones((len(y), 1 + (len(self._codes) or 2)))
        for k, code in enumerate(self._codes, start=1):
            out[:, k] = y == code
        if not self._n_classes:
            out[:, 1] = y - self._centre[-1]
            out[:, 2] = out[:, 1] * out[:, 1]
        return out

    def _written(self, before: FloatArray, after: FloatArray) -> str:
        """Return the lines for the columns that changed most between two sums of steps."""
        assert self._centre is not None
        regression = self._n_classes == 0
        mean_before, correlation_before = _statistics(before, regression)
        mean_after, correlation_after = _statistics(after, regression)
        spread = np.sqrt(_variance(before + after))
        shift = np.divide(mean_after - mean_before, spread, out=np.zeros_like(spread), where=spread > 0.0)
        change = correlation_after - correlation_before
        most = np.argmax(np.abs(change), axis=0)
        changed = np.abs(np.take_along_axis(change, most[None], axis=0)[0])
        counts, calendar = self._counters.found(), np.zeros(len(shift), np.bool_)
        calendar[[place for place in self.calendar() if place < len(shift)]] = True
        sizes = np.where(calendar, 0.0, np.abs(shift)), changed
        first = (np.argsort(np.where(counts, 0.0, -size), kind="stable")[:LISTED] for size in sizes)
        chosen = {*chain.from_iterable(first), *np.flatnonzero(counts)[:LISTED]}
        names = self._names()
        noise = float(np.sqrt(1.0 / before[0, 0] + 1.0 / after[0, 0]))
        lines = []
        for column in sorted(chosen, key=lambda j: (counts[j], calendar[j], -max(sizes[0][j], changed[j]), j)):
            if shift[column] or changed[column]:
                label = "" if regression else self._label(self._codes[most[column]])
                name = f"x{column}" if names is None else names[column]
                centre = self._centre[column]
                means = mean_before[column] + centre, mean_after[column] + centre
                correlations = correlation_before[most[column], column], correlation_after[most[column], column]
                shown = (f"{value:.6g}" for value in (*means, shift[column]))
                rest = (f"{value:.6g}" for value in (*correlations, noise))
                kinds = int(counts[column]), int(calendar[column])
                lines.append(csv_line([*self._open[:2], column, name, *shown, label, *rest, *kinds]))
        return "".join(lines)

    def _label(self, code: int) -> str:
        """Return the label of a class; '' if it has not appeared yet."""
        known = self.session.targets.labels
        return str(known[code]) if code < len(known) else ""

    def _names(self) -> Sequence[str] | None:
        if self.names is not None:
            return self.names()
        return None if self.session.schema is None else self.session.schema.names

    def state(self) -> State:
        """Return what the next steps need, for a checkpoint."""
        nothing = np.zeros((0, 0, 0))
        kept = [part[None] for part in (self._before, self._after) if part is not None]
        return {
            "centre": np.zeros(0) if self._centre is None else self._centre,
            "n_classes": self._n_classes,
            "recent": np.array(self._recent) if self._recent else nothing,
            "open": np.array(self._open, np.int64),
            **{f"counters.{name}": getattr(self._counters, name) for name in ("steps", *COUNTED)},
            "kept": np.concatenate(kept) if kept else nothing,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Resume from what :meth:`state` returned."""
        known = FIELDS.read(state)
        self._centre = known["centre"].copy() if known["width"] else None
        self._n_classes = known["n_classes"]
        self._recent = deque(known["recent"].copy(), maxlen=MOST_STEPS)
        step, steps, missing = known["open"].tolist()
        self._open = step, steps, missing
        self._counters = _Counters(known["columns"])
        self._counters.steps = known["counters.steps"]
        for name in COUNTED:
            setattr(self._counters, name, known[f"counters.{name}"].copy())
        self._before, self._after = known["kept"].copy() if len(known["kept"]) else (None, None)


def _are_sums(known: Values, name: str, counts: range) -> bool:
    """Return whether an array holds sums over batches, with a column for 1 and for each column of the rows."""
    sums = known[name]
    return len(sums) in counts and (not len(sums) or sums.shape[2] == known["width"])


COUNTED = "rises", "falls", "active", "last"
_SUMS = Array(np.float64, ("*", "*", "*"), missing=True)
FIELDS = Fields(
    {
        "centre": Array(np.float64, ("width",), missing=True),
        "n_classes": Whole(),
        "recent": _SUMS,
        "open": Array(np.int64, (3,), least=-1, most=MOST),
        "counters.steps": Whole(),
        **{f"counters.{name}": Array(np.float64, ("columns",), missing=True) for name in COUNTED},
        "kept": _SUMS,
    },
    rules=[
        FieldRule(
            "counters.rises",
            "must have the columns of the centre",
            lambda known: known["columns"] == max(0, known["width"] - 1),
        ),
        FieldRule(
            "recent",
            "must be the sums of some batches",
            lambda known: _are_sums(known, "recent", range(MOST_STEPS + 1)),
        ),
        FieldRule(
            "kept", "must be the sums before and after a step", lambda known: _are_sums(known, "kept", range(0, 3, 2))
        ),
    ],
)
"""Saved entries of the watch over columns."""


def _variance(sums: FloatArray) -> FloatArray:
    count = sums[0, 0]
    mean, square = sums[0, 1:] / count, sums[-1, 1:] / count
    with np.errstate(over="ignore", invalid="ignore"):
        exact: FloatArray = square - mean * mean
        # The variance of a constant column is not exactly zero: the rounding errors of its squares remain.
        return np.where(np.isfinite(exact) & (exact > 1e-12 * square), exact, 0.0)


def _dense_columns(rows: CSR, places: npt.NDArray[np.int64]) -> FloatArray:
    """Return some columns of sparse rows as an array."""
    part = slice(int(rows.indptr[0]), int(rows.indptr[-1]))
    row = np.repeat(np.arange(len(rows.indptr) - 1), np.diff(rows.indptr))
    at = np.searchsorted(places, rows.indices[part])
    at[at == len(places)] = 0
    kept = places[at] == rows.indices[part]
    dense = np.zeros((len(rows.indptr) - 1, len(places)))
    dense[row[kept], at[kept]] = np.asarray(rows.data[part], np.float64)[kept]
    return dense


def _statistics(sums: FloatArray, regression: bool) -> tuple[FloatArray, FloatArray]:
    """Return the means, and the correlations of each column with each target; 0 if either does not vary."""
    count = sums[0, 0]
    mean = sums[0, 1:] / count
    targets = sums[1:2] if regression else sums[1:-1]
    level = targets[:, :1] / count
    varies = (sums[2:3, :1] / count if regression else level) - level * level
    scale = np.sqrt(np.maximum(varies, 0.0) * _variance(sums))
    with np.errstate(over="ignore", invalid="ignore"):
        cross = targets[:, 1:] / count - level * mean
        correlation = np.divide(cross, scale, out=np.zeros_like(cross), where=scale > 0.0)
    return mean, np.where(np.isfinite(correlation), correlation, 0.0)


def read_moves(text: str) -> list[ColumnMove]:
    """Read the complete lines of a file of column changes; InputError if it is something else."""
    whole = text[: text.rfind("\n") + 1]
    kinds: dict[str, Callable[[str], Any]] = {"step": int, "steps": int, "column": int, "name": str, "label": str}
    kinds["counts"] = kinds["calendar"] = lambda text: text == "1"
    try:
        return [
            ColumnMove(**{key: kinds.get(key, float)(value) for key, value in line.items()})
            for line in csv.DictReader(io.StringIO(whole))
        ]
    except (TypeError, ValueError) as error:
        raise InputError(f"the text is not a file of column changes that a run wrote: {error}") from error
