"""Detect drifts of a whole model from its losses, row by row, with evidence that is valid at any time.

1. **Sign.** CUSUMs of the losses before learning notice that the error may have risen, and since which row.
2. **Contest.** A sign proves nothing: a usual stream has one in some thousand rows. From the next row on, the model
   as it was *before* the rise, frozen, predicts beside the model that learns. The null hypothesis is that its mean loss
   is not above the usual one. A bet on every row multiplies a capital, which cannot grow in expectation if that is
   true, so that it ever exceeds 1 / alpha with a probability of at most alpha (Ville's inequality). Contest k since the
   last drift has alpha = risk * 6 / (pi k)^2, so that a run of any length in which nothing changes reports a drift with
   a probability of at most ``drift_risk``. The frozen model does not adapt, so that its losses stay high even if the
   model has learned the new rule within some rows; and a model that has become worse by itself is no drift.
3. **Kind.** Once harm is proven, a second bet is on the lead of what knows the new rows over what does not: of the
   learning model over the frozen one, beyond the lead that it had before; of a correction of the frozen one by new rows
   over one by as many old rows; and of a fresh model of new rows, half as many as the frozen one knows at most. Its
   null hypothesis is that a model that knows only the new rows does not beat the old one. If it is refuted, the rule is
   new; otherwise newer rows predict no better. Without a frozen model, models of new and of old rows are compared.
4. **End.** The drift is over when the error of the learning model is back near its usual level, or stays elsewhere.

Everything is a function of the rows and scores in their order; it is saved with the model and continues bit for bit.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from driftsurf.core.contracts import CSR, FloatArray, Rows, State, Strategy
from driftsurf.core.drifts import (
    DRIFT_RISK,
    SMALLEST_RISE,
    Drift,
    Drifts,
    InputChanges,
)
from driftsurf.core.fields import misfit
from driftsurf.core.options import number
from driftsurf.core.state import nest, pick
from driftsurf.native import maths
from driftsurf.native import monitor as scan
from driftsurf.native.monitor import (
    ANCHOR_ROWS,
    LEAST_ROWS,
    NOT_RARE,
    RARE,
    Follower,
    OtherKind,
)
from driftsurf.session.drift_contests import ANCHORS, OLD_ROWS, Contests
from driftsurf.session.drift_evidence import (
    Anchor,
    Contest,
    Integers,
    Rise,
    Scorer,
    Surroundings,
    allocated,
    as_classes,
    copied_rows,
    no_columns,
    values_of,
    widened,
)
from driftsurf.session.drift_saved import (
    FIELDS,
    RISE,
    anchor_from,
    anchor_state,
    blocks_from,
    contest_from,
    contest_state,
)
from driftsurf.strategies.frozen import can_freeze

__all__ = ["DriftMonitor", "Surroundings"]


class DriftMonitor(Contests):
    """Value that follows a model: ``after`` returns the value after one more step and leaves this one unchanged.

    Parameters
    ----------
    n_classes
        0 for regression, else any other number.
    smallest_rise
        Smallest rise of the error that matters: in shares of rows, or for regression in units of four usual errors.
    drift_risk
        Largest probability with which a run in which nothing changes reports a drift.
    """

    def __init__(
        self, *, regression: bool, smallest_rise: float = SMALLEST_RISE, drift_risk: float = DRIFT_RISK
    ) -> None:
        self.regression = regression
        self.smallest_rise: float = number("smallest_rise", smallest_rise, at_least=0.0, below=1.0)
        self.drift_risk: float = number("drift_risk", drift_risk, above=0.0, below=1.0)
        self.rows: int = 0
        """Number of rows so far."""
        self.drifts: Drifts = Drifts()
        self.changes: InputChanges = InputChanges()
        self.updates: tuple[Drift, ...] = ()
        """Drifts that the last step detected, changed or ended."""
        self._follower = Follower(scan.NUMBERS if regression else scan.LOSSES, allocated)
        """The last rows, and the scan of their losses."""
        self._parts: tuple[tuple[int, CSR], ...] = ()
        """The last rows, if they are sparse, with the number of the first one of each part."""
        self._scan = values_of(self._follower)
        """Values of the scan, while this module works on them; afterwards the follower has them."""
        self._busy = False
        """Whether there is a contest or an open drift."""
        self._anchors: tuple[Anchor, ...] = ()
        self._old: Anchor | None = None
        """An older frozen model, ..."""
        self._rise = Rise()
        """... and whether its losses have risen."""
        self._contest: Contest | None = None
        self._contests = 0
        self._peak = 0.0
        """Highest mean loss of the open drift."""
        self._back: tuple[int, int] | None = None
        """When the model had recovered from the open drift: the row, and the rows from the beginning until then."""
        self._means = np.zeros((0, 0))
        """Means of earlier windows of the inputs, and of their variances (windows, 2 * columns)."""

    def after(
        self,
        step: int,
        first_row: int,
        X: Rows,
        y: FloatArray,
        scores: FloatArray,
        scorer: Scorer | None,
        columns: Callable[[], Sequence[str]],
        classes: Sequence[Any],
        strategy: Strategy,
    ) -> DriftMonitor:
        """Return the monitor after a step.

        Parameters
        ----------
        step, first_row
            Number of the step and of its first row.
        X, y
            Its rows, with codes of their labels, or numbers. They are copied.
        scores
            Scores by which the rows were predicted, before they were learned.
        scorer
            Function that gave the scores, if it stays as it is.
        columns, classes, strategy
            Fields of ``Surroundings``, for when there may be a drift.
        """
        new = self._copy()
        if self.updates:
            new.updates = ()
        new.rows = first_row + len(y)
        dense: Any = X
        if isinstance(X, CSR):
            new._parts, dense = self._parts_with(first_row, copied_rows(X)), no_columns(len(y))
        if not scores.flags.c_contiguous:
            scores = np.ascontiguousarray(scores)
        try:
            follower, due, sign = self._follower.after(step, first_row, dense, y, scores, self._busy)
        except OtherKind:
            follower, scores = widened(self._follower, scores)
            follower, due, sign = follower.after(step, first_row, dense, y, scores, self._busy)
        new._follower = follower
        if due:
            new._look(due, sign, step, first_row, scorer, Surroundings(columns, classes, strategy))
        return new

    def _parts_with(self, first_row: int, X: CSR) -> tuple[tuple[int, CSR], ...]:
        """Return the sparse rows that are held, and new ones."""
        held = self._follower.held_from
        return *(one for one in self._parts if one[0] + len(one[1].indptr) - 1 > held), (first_row, X)

    def _look(
        self, due: int, sign: int, step: int, first_row: int, scorer: Scorer | None, around: Surroundings
    ) -> None:
        """Do what the follower leaves to do after it has taken a block of rows, and maybe found a sign."""
        if due & scan.ANCHOR_DUE and scorer is not None and can_freeze(scorer):
            self._add_anchor(Anchor(first_row, scorer))
        if due == scan.ANCHOR_DUE:
            return
        self._scan = values_of(self._follower)
        if due & scan.LOOK_DUE:
            block = self._block(-1)
            self._examine(block, sign, around)
            if self.rows // ANCHOR_ROWS > block.first_row // ANCHOR_ROWS:
                due |= scan.WEIGHING_DUE
        if due & scan.WEIGHING_DUE:
            self._weigh_classes()
        if due & scan.CHECK_DUE and self._check_old() and self._old is not None:
            self._begin_contest(self.rows, self._rise.since, (self._old,))
            self._rise = Rise(since=self.rows)
        if due & scan.WINDOW_DUE:
            self._compare_inputs(around)
        self._busy = self._contest is not None or self.open is not None
        self._follower = self._follower.with_values(self._scan, self._next_anchor)

    def _copy(self) -> DriftMonitor:
        """Return a shallow copy; ``copy.copy`` would take ten times as long."""
        new = object.__new__(type(self))
        new.__dict__ = self.__dict__.copy()  # faster than updating a new one
        return new

    @property
    def _next_anchor(self) -> int:
        """The row from which on a model is to be frozen."""
        return self._anchors[-1].row + ANCHOR_ROWS if self._anchors else 0

    def _add_anchor(self, anchor: Anchor) -> None:
        """Remember a frozen model."""
        self._anchors = (*self._anchors[1 - ANCHORS :], anchor)
        if self._old is None or (anchor.row - self._old.row >= OLD_ROWS and not self._rise.cusum):
            self._old, self._rise = anchor, Rise(since=anchor.row)
        self._follower = self._follower.with_anchor_at(self._next_anchor)

    def _weigh_classes(self) -> None:
        """Let errors of both classes count the same where one is rare; then the usual loss is measured again."""
        values = self._scan
        if self.regression or self._follower.memory.scores.ndim != 1 or self._contest is not None:
            return
        weight, *counts = values[[scan.WEIGHT, scan.CLASS, scan.CLASS + 1]].tolist()
        share = min(counts) / max(sum(counts), 1.0)
        if weight < LEAST_ROWS:
            return
        if self._is_balanced == (share < (NOT_RARE if self._is_balanced else RARE)) or self.open is not None:
            return
        rare = counts.index(min(counts))
        values[[scan.SHIFT, scan.LOW, scan.HIGH, scan.RANGE]] = 0.0, 1.0, 1.0, 1.0
        if share < RARE:
            share = max(share, 1.0 / max(sum(counts), 2.0))
            values[scan.SHIFT] = maths.log(share / (1.0 - share)) * (1.0 if rare else -1.0)
            values[scan.LOW + 1 - rare] = share / (1.0 - share)
            values[scan.RANGE] = 2.0 * share
        values[[scan.SPREAD, scan.SPREADS, scan.NEAR, scan.NEARS]] = 2.0
        self._restart(0.0, 0.0)

    def state(self) -> State:
        """Return everything that later steps depend on."""
        state: State = {
            "smallest_rise": self.smallest_rise,
            "drift_risk": self.drift_risk,
            "rows": self.rows,
            "contests": self._contests,
            "peak": self._peak,
            "back": json.dumps(self._back),
            "scan": values_of(self._follower),
            "drifts": json.dumps([one.to_dict() for one in self.drifts]),
            "changes": json.dumps([dataclasses.asdict(one) for one in self.changes]),
            "means": self._means,
        }
        follower = self._follower
        if follower.marks_stop > follower.first_mark:
            marks = follower.memory.marks[follower.first_mark : follower.marks_stop]
            state |= nest("blocks", self._rows_state(marks, follower.start, follower.stop))
        if count := follower.waiting_rows:
            marks = np.array([follower.waiting_mark])
            state |= nest("waiting", self._rows_state(marks, follower.stop, follower.stop + count))
        state |= nest("rise", self._rise._asdict())
        for place, anchor in enumerate(self._anchors):
            state |= nest(f"anchor{place}", anchor_state(anchor))
        if self._old is not None:
            state |= nest("old", anchor_state(self._old))
        if self._contest is not None:
            state |= nest("contest", contest_state(self._contest))
        return state

    def from_state(
        self, state: Mapping[str, Any], strategy: Strategy, n_features: int, *, sparse: bool, dtype: str
    ) -> DriftMonitor:
        """Return the monitor that ``state()`` was called on."""
        known = FIELDS.read(state)
        new = self._copy()
        new.smallest_rise, new.drift_risk = known["smallest_rise"], known["drift_risk"]
        new.rows, new._contests, new._peak = known["rows"], known["contests"], known["peak"]
        new._back = known["back"]
        new._means = known["means"]
        new.drifts, new.changes = known["drifts"], known["changes"]
        new.updates = ()
        shape = n_features, sparse, dtype
        follower = Follower(scan.NUMBERS if self.regression else scan.LOSSES, allocated)
        outputs, new._parts = 1, ()
        saved = [(name, blocks_from(pick(name, state), *shape)) for name in ("blocks", "waiting")]
        widths = (1 if one.scores.ndim == 1 else one.scores.shape[1] for _, blocks in saved for one in blocks)
        outputs = max(widths, default=1)
        for name, blocks in saved:
            for one in blocks:
                X, scores = one.X, one.scores if outputs == 1 else as_classes(one.scores, outputs)
                if isinstance(X, CSR):
                    new._parts, X = (*new._parts, (one.first_row, X)), no_columns(len(one.y))
                place = one.first_row, one.step, one.steps
                follower = follower.extended(*place, X, one.y, np.ascontiguousarray(scores), name == "blocks")
        anchors = [pick(f"anchor{place}", state) for place in range(ANCHORS)]
        new._anchors = tuple(anchor_from(one, strategy) for one in anchors if one)
        new._follower = follower.with_values(known["scan"], new._next_anchor)
        old = pick("old", state)
        new._old, new._rise = (anchor_from(old, strategy) if old else None), Rise(**RISE.read(pick("rise", state)))
        contest = pick("contest", state)
        new._contest = contest_from(contest, strategy, self.regression) if contest else None
        if new._contest is not None:
            known_drifts = {-1, *(one.number for one in new.drifts)}
            if follower.marks_stop == follower.first_mark or new._contest.drift not in known_drifts:
                raise misfit(state, "contest", "has no rows or no drift that it is about")
            if new._contest.columns is not None and (new._contest.columns >= n_features).any():
                raise misfit(state, "contest", f"is about columns beyond the {n_features} of the rows")
        new._busy = new._contest is not None or new.open is not None
        return new

    def _rows_state(self, marks: Integers, a: int, b: int) -> State:
        """Return the state of rows at places ``a`` to ``b``, and of their blocks."""
        rows = self._held(int(marks[0, 0]), 0, a, b)
        first_rows, steps, counts, sizes = marks.T.copy()
        state: State = {"first_rows": first_rows, "steps": steps, "counts": counts, "sizes": sizes, "y": rows.y.copy()}
        state["margins" if rows.scores.ndim == 1 else "scores"] = rows.scores.copy()
        X = rows.X
        if isinstance(X, CSR):
            return state | {"X": X.data, "indices": X.indices.astype(np.int64), "indptr": X.indptr.astype(np.int64)}
        return state | {"X": X.copy()}
