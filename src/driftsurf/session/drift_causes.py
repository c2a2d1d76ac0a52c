"""Causes of a drift: the columns, classes and inputs that changed, and how large its error is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import CSR, FloatArray
from driftsurf.core.drifts import (
    Drift,
    DriftCause,
    Drifts,
    InputChange,
    InputChanges,
)
from driftsurf.native import monitor as scan
from driftsurf.native.monitor import (
    MOST_ROWS,
)
from driftsurf.session.correction import Evidence, changed_columns, narrowed, telling_columns
from driftsurf.session.drift_evidence import Block, Contest, HeldRows, Integers, Surroundings, joined, take_block, wide

CAUSE_ROWS = 500
"""Rows after a change on which its cause is determined."""

PEAK_ROWS, BEFORE_ROWS = 100, 1_000
"""Rows over which the highest error of a drift is measured, and the error before it."""

WINDOW_ROWS = 1_000
"""Rows of a window in which the means of the inputs are compared."""

MOST_WATCHED = 1_000
"""Columns up to which the means of dense inputs are compared."""

SHIFT, SURE_SHIFT = 0.3, 6.0
"""Least shift of a column in standard deviations, and in standard errors, to be a move of the inputs."""

MOST_DRIFTS = 1_000
"""Drifts that are remembered."""

SHARED = "another cell is missing"
"""Encoded column that many columns share."""

LEAST_CLASS = 0.02
"""Share of rows from which on a class is there."""

UNSURE_ROWS = 200
"""Rows before the estimated beginning of a drift that may already be new."""

CALENDAR = (
    *(" (days since 1970)", " (sine of the hour)", " (cosine of the hour)"),
    *(f" {day}" for day in ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")),
)
"""Ends of the names of encoded columns of a date, whose values move by themselves."""


class Causes(HeldRows):
    """Finds out what changed in a drift, and records drifts and moves of the inputs."""

    drifts: Drifts
    changes: InputChanges
    updates: tuple[Drift, ...]
    """Drifts that the last step detected, changed or ended."""
    _contest: Contest | None
    _means: FloatArray
    """Means of earlier windows of the inputs, and of their variances (windows, 2 * columns)."""

    @property
    def open(self) -> Drift | None:
        """The drift that goes on."""
        last = self.drifts[-1] if len(self.drifts) else None
        return None if last is None or last.ended else last

    @property
    def metric(self) -> str:
        """Name of the error that drifts are measured with."""
        return "root mean squared error" if self.regression else "balanced error" if self._is_balanced else "error"

    def _sides(self, contest: Contest, row: int) -> tuple[Block, Block]:
        """Return rows before the drift that the frozen model had not learned, and the rows since."""
        first = contest.since - MOST_ROWS // 2
        first = first if contest.anchor is None else max(first, contest.anchor.row)
        return self._rows_between(first, contest.since), self._rows_between(contest.since, row)

    def _cause(self, contest: Contest, row: int, around: Surroundings, kind: str = "") -> dict[str, Any]:
        """Return the fields of a drift that say what changed, as far as the rows show it."""
        old, new = self._sides(contest, row)
        if min(len(old.y), len(new.y)) < 30:
            return {}
        known = list(around.columns())
        classes = () if self.regression else class_moves(old.y, new.y, around.classes)
        if any(one.startswith("new: ") for one in classes):
            kind = "new rule"  # whatever knows only old rows is wrong about a class that they do not have
        told: dict[str, Any] = {"classes": classes} | ({"kind": kind} if kind else {})
        width = new.X.n_features if isinstance(new.X, CSR) else new.X.shape[1]
        label = [known[k] if k < len(known) else f"column {k}" for k in range(width)]
        old_scores, new_scores = self._scored(contest, old), self._scored(contest, new)
        residuals = np.concatenate([self._residuals(old.y, old_scores), self._residuals(new.y, new_scores)])
        both = joined([old, new])
        columns = telling_columns(both.X, residuals)
        columns = columns[~only_counts(narrowed(both.X, columns))]
        columns = columns[[label[k] != SHARED for k in columns]]
        if not len(columns):
            return told | {"cause": "classes" if classes else "unknown"}
        sources = list(dict.fromkeys(source_column(label[k]) for k in columns))
        groups = [sources.index(source_column(label[k])) for k in columns]
        n_classes, unit = self._scale(new_scores)
        tested = len(set(map(source_column, label)))
        sides = (
            Evidence(narrowed(old.X, columns), old.y, wide(old_scores, new_scores)),
            Evidence(narrowed(new.X, columns), new.y, wide(new_scores, old_scores)),
        )
        found = [
            sources[k] for k in changed_columns(n_classes, unit, *sides, groups, tested, strict=not contest.resolved)
        ]
        moved = any(not label[columns[k]].endswith(CALENDAR) for k in moved_columns(sides[0].X, sides[1].X))
        cause: DriftCause = "classes" if classes else "columns" if found else "unknown"
        if kind == "harm" and not classes:  # no rule changed, so that no column did
            found, cause = [], "unknown"
        if moved and not classes and not found:
            cause = "inputs"
        return told | {"columns": tuple(found), "cause": cause}

    def _error_of(self, block: Block) -> float:
        """Return the error of rows as they were predicted, in its unit."""
        if not len(block.y):
            usual = self._scan[[scan.MEAN, scan.RANGE, scan.SQUARES, scan.SCALE]].tolist()
            return math.sqrt(usual[2]) * usual[3] if self.regression else float(usual[0] / usual[1])
        if self.regression:
            return _root_mean_square(block.scores - block.y)
        losses = self._losses(block.y, block.scores)
        if not self._is_balanced:
            return float(losses.mean())
        shares = [float((losses[block.y == k] > 0.0).mean()) for k in (0.0, 1.0) if (block.y == k).any()]
        return sum(shares) / 2.0

    def _highest(self, block: Block) -> Block:
        """Return the hundred rows in a row with the highest mean loss."""
        sums = np.concatenate([np.zeros(1), np.cumsum(self._losses(block.y, block.scores))])
        size = min(PEAK_ROWS, len(block.y))
        first = int((sums[size:] - sums[: len(sums) - size]).argmax())
        return take_block(block, first, first + size)

    def _index(self, taken: int) -> int:
        return taken - self.drifts[0].number

    def _replace(self, drift: Drift) -> None:
        """Put a drift in the place of its earlier version."""
        place = self._index(drift.number)
        self.drifts = Drifts((*self.drifts[:place], drift, *self.drifts[place + 1 :]))

    def _record(self, drift: Drift) -> None:
        """Put a drift in the place of its earlier version, and report it with this step."""
        self._replace(drift)
        self.updates = (*(one for one in self.updates if one.number != drift.number), drift)

    def _compare_inputs(self, around: Surroundings) -> None:
        """Compare the means of the last rows with those of earlier windows."""
        width = self._follower.memory.X.shape[1]
        if self._parts or width > MOST_WATCHED:
            return
        a, b, first_row = self._follower.between(self.rows - WINDOW_ROWS, self.rows)
        window = np.empty(2 * width)
        self._follower.means_of(a, b, window)
        before = self._means if self._means.shape[1:] == window.shape else np.zeros((0, len(window)))
        self._means = np.vstack([before, window])[-16:]
        if len(before) < 2:
            return
        usual, spread = before[:, :width].mean(axis=0), np.sqrt(before[:, width:].mean(axis=0))
        shift = np.abs(window[:width] - usual)
        far = shift > SHIFT * spread
        if not far.any():  # nearly always
            return
        noise = spread / math.sqrt(b - a) + before[:, :width].std(axis=0)
        moved = np.flatnonzero(far & (shift > SURE_SHIFT * noise))
        if not len(moved):
            return
        self._means = window[None]
        harmed = any((one.ended_at_row or self.rows) >= first_row for one in self.drifts)
        if harmed or self._contest is not None:
            return
        known, order = (
            list(around.columns()),
            moved[np.argsort(-(shift[moved] / np.maximum(spread[moved], 1e-300)), kind="stable")],
        )
        columns = dict.fromkeys(source_column(known[k]) if k < len(known) else f"column {k}" for k in order.tolist())
        change = InputChange(first_row, self._follower.step_of(first_row), tuple(columns))
        self.changes = InputChanges((*self.changes[1 - MOST_DRIFTS :], change))


def source_column(name: str) -> str:
    """Return the column of a table that an encoded column was made of.

    >>> [source_column(name) for name in ("city=Rome", "city (hash 3)", "city is missing", "price")]
    ['city', 'city', 'city', 'price']
    >>> [source_column(name) for name in ("at Monday", "at (sine of the hour)", "at (days since 1970)")]
    ['at', 'at', 'at']
    """
    name = name.partition("=")[0].partition(" (hash ")[0]
    return next((name.removesuffix(end) for end in (" is missing", *CALENDAR) if name.endswith(end)), name)


def _root_mean_square(residuals: FloatArray) -> float:
    return math.sqrt(float(np.mean(np.square(residuals)))) if len(residuals) else 0.0


def only_counts(X: FloatArray) -> npt.NDArray[np.bool_]:
    """Return which columns only rise or only fall from row to row, as clocks and counters do."""
    steps = np.diff(X, axis=0)
    moving = (steps != 0.0).any(axis=0)
    return np.asarray(moving & ((steps >= 0.0).all(axis=0) | (steps <= 0.0).all(axis=0)))


def class_moves(old: FloatArray, new: FloatArray, labels: Sequence[Any]) -> tuple[str, ...]:
    """Return the classes that came or went between old and new rows, such as "new: fraud" and "gone: spam"."""
    size = int(max(old.max(), new.max())) + 1
    sure = old[: max(len(old) - UNSURE_ROWS, len(old) // 2)]
    before, after = (np.bincount(one.astype(np.int64), minlength=size) for one in (sure, new))
    came = np.flatnonzero((before == 0) & (after >= np.maximum(3, LEAST_CLASS * len(new))))
    gone = np.flatnonzero((after == 0) & (before * (len(new) / max(len(sure), 1)) >= 10.0))
    return (*(f"new: {labels[k]}" for k in came.tolist()), *(f"gone: {labels[k]}" for k in gone.tolist()))


def moved_columns(old: FloatArray, new: FloatArray) -> Integers:
    """Return the columns whose means differ between old and new rows beyond chance and noticeably."""
    spread = np.sqrt(0.5 * (old.var(axis=0) + new.var(axis=0)))
    shift = np.abs(new.mean(axis=0) - old.mean(axis=0))
    noise = spread * math.sqrt(1.0 / len(old) + 1.0 / len(new))
    return np.flatnonzero((shift > SHIFT * spread) & (shift > SURE_SHIFT * noise))
