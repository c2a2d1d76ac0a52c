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
import functools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf.core.abilities import SnapshotScoring, abilities_of
from driftsurf.core.contracts import CSR, Batch, DenseRows, FloatArray, Rows, State, Strategy, take_rows
from driftsurf.core.drifts import (
    DRIFT_RISK,
    MOST_EVIDENCE,
    SMALLEST_RISE,
    Drift,
    DriftCause,
    Drifts,
    InputChange,
    InputChanges,
)
from driftsurf.core.fields import AnyArray, Array, Fields, Json, Real, Rule, Truth, Whole, misfit
from driftsurf.core.options import number
from driftsurf.core.state import nest, pick
from driftsurf.core.values import replace
from driftsurf.native import monitor as scan
from driftsurf.native.monitor import (
    ANCHOR_ROWS,
    HALF_LIFE,
    LEAST_RARE,
    LEAST_ROWS,
    LONGEST,
    MOST_ROWS,
    NOT_RARE,
    RARE,
    RUN_LENGTH,
    Follower,
    Held,
    OtherKind,
    bet_on_losses,
    row_losses,
    scan_losses,
)
from driftsurf.session.correction import Correction, Evidence, changed_columns, narrowed, telling_columns
from driftsurf.strategies.frozen import can_freeze, frozen_from, frozen_state

__all__ = ["DriftMonitor", "Surroundings"]

Scorer = Callable[[Rows], FloatArray]


class Surroundings(NamedTuple):
    """What a monitor asks for when there may be a drift."""

    columns: Callable[[], Sequence[str]]
    """Returns the names of the columns."""
    classes: Sequence[Any]
    """Names of the classes by code."""
    strategy: Strategy
    """The strategy that is followed."""


Integers = npt.NDArray[np.int64]

PART = 50
"""Rows after which a drift is looked at again; ``BET_ROWS`` in long steps, between which the model does not change."""
ANCHORS = 3
"""Frozen models that are held."""
OLD_ROWS, CHECKED_ROWS = 4_000, 300
"""Rows after which a frozen model is replaced that is compared with the usual loss from time to time, since a model
that learns a new rule within some rows shows no rise; and rows of such a comparison."""
LEAST_CHECKED = 100
"""Rows on which a frozen model must have been as good as usual before it can testify."""
CONTESTANTS = 3
"""Contestants of the second bet: the learning model, a correction, and a fresh model."""
CHECKED_ERRORS = 1.5
"""Standard errors from the loss of a frozen model on these rows to the bound that is taken for it."""
STAKES = np.array([0.1, 0.25, 0.5, 0.8])
"""Shares of the capital that are bet on a lead."""
UNPROVEN = 2.0
"""Factor by which the smallest rise is larger without a frozen model: the model may have become worse by itself."""
FELT_ROWS = 300
"""The learning model must have become worse, too, in so many rows."""
LEAST_OPEN_ROWS = 100
"""Rows after its detection before which a drift is not over."""
BET_ROWS = 200
"""Rows that a frozen model predicts at once in a contest."""
CONTEST_ROWS = 3_000
"""Rows of a contest, at most."""
LED_ROWS = 3_000
"""Rows of a drift in which the lead of the learning model counts; later it may have learned more of the same rule."""
RESOLVED_ROWS = 5_000
"""Rows after harm was proven within which the kind of a drift is decided."""
CORRECTED_COLUMNS = 16
"""Columns of a correction; a cause is looked for among more."""
CAUSE_ROWS = 500
"""Rows after a change on which its cause is determined."""
RECOVERY_ROWS = 300
"""Rows whose mean error shows whether a model has recovered."""
PEAK_ROWS, BEFORE_ROWS = 100, 1_000
"""Rows over which the highest error of a drift is measured, and the error before it."""
SETTLED_ROWS = 1_500
"""Rows after a recovery in which the kind and the cause of a drift may still be found."""
STAYING_ROWS = 3_000
"""Rows after which an error that has not come back is the new usual one."""
WINDOW_ROWS = 1_000
"""Rows of a window in which the means of the inputs are compared."""
MOST_WATCHED = 1_000
"""Columns up to which the means of dense inputs are compared."""
SHIFT, SURE_SHIFT = 0.3, 6.0
"""Least shift of a column in standard deviations, and in standard errors, to be a move of the inputs."""
MOST_DRIFTS = 1_000
"""Drifts that are remembered."""
SERIES = math.pi**2 / 6.0
POSITIVE = [scan.SPREADS, scan.NEARS, scan.RANGE, scan.LOW, scan.HIGH]
"""Values of a scan that are divisors or weights."""


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


class DriftMonitor:
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
        self._scan = _values(self._follower)
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

    # -------------------------------------------------------------------- one step

    def after(
        self,
        step: int,
        first_row: int,
        X: Rows,
        y: FloatArray,
        scores: FloatArray,
        scorer: Scorer | None,
        around: Surroundings,
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
        around
            What is asked for when there may be a drift.
        """
        new = self._copy()
        if self.updates:
            new.updates = ()
        new.rows = first_row + len(y)
        dense = X
        if isinstance(X, CSR):
            new._parts, dense = self._parts_with(first_row, _copied(X)), _no_columns(len(y))
        if not scores.flags.c_contiguous:
            scores = np.ascontiguousarray(scores)
        try:
            follower, due, sign = self._follower.after(step, first_row, dense, y, scores, self._busy)
        except OtherKind:
            follower, scores = _widened(self._follower, scores)
            follower, due, sign = follower.after(step, first_row, dense, y, scores, self._busy)
        new._follower = follower
        if due:
            new._look(due, sign, step, first_row, scorer, around)
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
        self._scan = _values(self._follower)
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
        vars(new).update(vars(self))
        return new

    @property
    def open(self) -> Drift | None:
        """The drift that goes on."""
        last = self.drifts[-1] if len(self.drifts) else None
        return None if last is None or last.ended else last

    @property
    def _least_rows(self) -> float:
        share = self._scan[scan.RANGE] / 2.0
        return max(LEAST_ROWS, LEAST_RARE / share if self._is_balanced else 0.0)

    @property
    def _is_balanced(self) -> bool:
        return bool(self._scan[scan.RANGE] < 1.0)

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

    def _check_old(self) -> bool:
        """Compare the older frozen model with the usual loss; return whether that is a sign of drift."""
        if self._old is None or self._contest is not None or self.open is not None:
            return False
        recent = self._rows_between(max(self.rows - CHECKED_ROWS, self._old.row), self.rows)
        if len(recent.y) < CHECKED_ROWS or self._scan[scan.WEIGHT] < max(self._least_rows, OLD_ROWS / 2):
            return False
        scores = self._old.scorer(recent.X)
        mode, scores = self._mode(recent.y, scores if self.regression else _margins(scores))
        gains, lost, bar = scan.check_losses(scores, recent.y, self._scan, mode)
        cusum, rows = self._rise.cusum + gains, self._rise.rows + len(recent.y)
        total = self._rise.total + lost * self._unit
        if cusum > 0.0:
            self._rise = Rise(cusum, self._rise.since, rows, total)
        else:
            self._old = replace(self._old, rows=self._old.rows + rows, total=self._old.total + total)
            self._rise = Rise(since=self.rows)
        return cusum > bar

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

    @property
    def _spread(self) -> float:
        values = self._scan.tolist()
        return max(1.0, values[scan.SPREAD] / values[scan.SPREADS], values[scan.NEAR] / values[scan.NEARS])

    def _examine(self, block: Block, sign: int, around: Surroundings) -> None:
        """Look closely at a block with a sign, or during a contest or a drift."""
        values, mode, scores = self._scan, *self._mode(block.y, block.scores)
        first, count, at, scanned = block.first_row, len(block.y), 0, sign >= 0
        while at < count:
            if self._contest is None and self.open is None:
                if not scanned:
                    values[scan.ROW] = first
                    half_life = HALF_LIFE * min(LONGEST, 1.0 / values[scan.RANGE])
                    sign = scan_losses(scores, block.y, values, mode, at, self._least_rows, RUN_LENGTH, half_life)
                scanned = False
                if sign < 0:
                    break
                at, place = sign + 1, int(values[scan.CUSUM : scan.SINCE].argmax())
                self._begin_contest(first + at, int(values[scan.SINCE + place]), self._anchors)
                continue
            contest = self._contest
            if contest is not None and contest.drift < 0:
                at += self._bet_on_harm(contest, take_block(block, at, count), around)
                continue
            part = take_block(block, at, min(count, at + (PART if count < 2 * BET_ROWS else BET_ROWS)))
            at += len(part.y)
            if contest is not None:
                self._bet_on_lead(contest, part, around)
            if self.open is not None:
                self._follow(first + at)

    @property
    def _unit(self) -> float:
        """The residual that is a loss of 1; 1 for classes."""
        return float(self._scan[scan.SCALE]) if self.regression else 1.0

    @property
    def _loss_mode(self) -> int:
        """How the variance of losses is computed."""
        return scan.NUMBERS if self.regression else scan.LOSSES

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
            values[scan.SHIFT] = math.log(share / (1.0 - share)) * (1.0 if rare else -1.0)
            values[scan.LOW + 1 - rare] = share / (1.0 - share)
            values[scan.RANGE] = 2.0 * share
        values[[scan.SPREAD, scan.SPREADS, scan.NEAR, scan.NEARS]] = 2.0
        self._restart(0.0, 0.0)

    def _restart(self, weight: float, mean: float) -> None:
        """Measure the usual loss anew, beginning with a mean over some rows."""
        values = self._scan
        ratio = mean / values[scan.MEAN] if values[scan.MEAN] > 0.0 else 0.0
        values[[scan.SQUARES, scan.SECOND]] *= ratio**2 if self.regression else ratio, ratio
        values[[scan.WEIGHT, scan.MEAN, scan.BLOCK, scan.BLOCK_SUM]] = weight, mean, 0.0, 0.0
        values[scan.CUSUM : scan.SINCE] = 0.0
        values[scan.SINCE : scan.CLASS] = self.rows

    # -------------------------------------------------------------------- rows of the recent past

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
            X = _stacked(found) if found else take_rows(self._parts[-1][1], 0, 0)
        return Block(row, step, X, memory.y[a:b], memory.scores[a:b])

    def _scored(self, contest: Contest, block: Block) -> FloatArray:
        """Return the scores of the frozen model for a block; those of the learning model if there is none."""
        if contest.anchor is None or not len(block.y):
            return block.scores
        scores = contest.anchor.scorer(block.X)
        return scores if self.regression else _margins(scores)

    # -------------------------------------------------------------------- the contest

    def _begin_contest(self, row: int, since: int, anchors: Sequence[Anchor]) -> None:
        """Bet from ``row`` on, on the model as it was before the suspected rise."""
        values = self._scan
        since = max(since, self._first_row)
        values[scan.CUSUM : scan.SINCE] = 0.0
        values[scan.SINCE : scan.CLASS] = row
        usual, weight = float(values[scan.MEAN]), float(values[scan.WEIGHT])
        reference = self._reference(usual, weight)
        found, anchor = usual, None
        if anchors:
            chosen = self._best_anchor(anchors, since, usual)
            if chosen is None:
                return
            anchor, found, bound = chosen
            if found - usual > max(self.smallest_rise * values[scan.RANGE], 3.0 * self._error(usual, LEAST_CHECKED)):
                self._old = None  # the model was still learning when it was frozen
                return
            usual, reference = max(usual, found), max(reference, bound)
        self._contests += 1
        spread = self._spread
        blank = np.zeros(len(scan.ALTERNATIVES))
        contest = Contest(self._contests, since, row, anchor, usual, reference, spread, usual, 0.0, blank)
        past = self._rows_between(since, row)
        if len(past.y):
            losses = self._centred(past.y, self._losses(past.y, self._scored(contest, past)))
            contest = replace(contest, before=float(losses.mean()))
        self._contest = contest

    def _best_anchor(self, anchors: Sequence[Anchor], since: int, usual: float) -> tuple[Anchor, float, float] | None:
        """Return the frozen model with the lowest bound on its loss before a row, its mean loss then, and the bound."""
        found: list[tuple[float, int, Anchor, float]] = []
        for one in anchors:
            past = self._rows_between(one.row, since)
            rows, total = float(len(past.y)), 0.0
            if rows > one.rows:
                scores = one.scorer(past.X)
                losses = self._losses(past.y, scores if self.regression else _margins(scores))
                total = float(self._centred(past.y, losses).sum())
            else:
                rows, total = one.rows, one.total / self._unit
            if rows < LEAST_CHECKED:
                continue
            mean = total / rows
            bound = max(mean, usual) + CHECKED_ERRORS * self._error(max(mean, usual), rows)
            found.append((bound, -one.row, one, mean))
        if not found:
            return None
        bound, _, anchor, mean = min(found, key=lambda each: each[:2])
        return anchor, mean, bound

    def _bet_on_harm(self, contest: Contest, block: Block, around: Surroundings) -> int:
        """Bet on the losses of the frozen model until harm is proven; return the number of rows."""
        block = take_block(block, 0, min(len(block.y), BET_ROWS))
        losses = self._centred(block.y, self._losses(block.y, self._scored(contest, block)))
        needed = math.log(SERIES * contest.number**2 / self.drift_risk)
        rise = self.smallest_rise * (UNPROVEN if contest.anchor is None else 1.0)
        least = contest.usual + rise * float(self._scan[scan.RANGE])
        values = np.array([*contest.bets, contest.rows, contest.total, contest.highest])
        limits = contest.reference, contest.spread, needed, contest.before, least, float(CONTEST_ROWS)

        def bet(start: int, looks: bool) -> tuple[int, Contest]:
            stop = bet_on_losses(losses, start, self._loss_mode, self._scan, values, looks, *limits)
            rows, total, highest = values[3:].tolist()
            return stop, replace(contest, bets=values[:3].copy(), rows=int(rows), total=total, highest=highest)

        stop, after = bet(0, True)
        if stop >= 0 and self._is_felt(after, block.first_row + stop + 1):
            self._declare(after, block.first_row + stop, around)
            return stop + 1
        if stop >= 0:
            stop, after = bet(stop + 1, False)
        self._contest = after if stop == -1 else None
        if stop < -1 and after.highest >= needed:  # only the frozen models are out of date
            self._anchors, self._old = (), None
        return len(losses) if stop == -1 else -1 - stop

    def _is_felt(self, contest: Contest, row: int) -> bool:
        """Return whether the losses of the learning model have risen too, by twice their standard error."""
        rows = self._rows_between(self._beginning(contest, row), row)
        losses, usual = self._centred(rows.y, self._losses(rows.y, rows.scores)), float(self._scan[scan.MEAN])
        for first in range(0, len(losses), FELT_ROWS):
            part = losses[first : first + FELT_ROWS]
            least = max(self.smallest_rise * self._scan[scan.RANGE], 2.0 * self._error(usual, len(part)))
            if float(part.mean()) - usual >= least:
                return True
        return False

    def _bet_on_lead(self, contest: Contest, part: Block, around: Surroundings) -> None:
        """Bet that what knows the new rows predicts better than the frozen model, and let it learn more of them."""
        scores = self._scored(contest, part)
        losses = self._losses(part.y, scores)
        total, rows = contest.total + float(losses.sum()), contest.rows + len(losses)
        contest = replace(contest, total=total, rows=rows)
        self._contest = contest = contest if contest.resolved else self._led(contest, part, scores, losses)
        drift, row = self.drifts[self._index(contest.drift)], part.first_row + len(losses)
        grown = row - contest.since
        if (contest.resolved and grown >= CAUSE_ROWS) or row - contest.start > RESOLVED_ROWS:
            self._contest = None
            kind = "new rule" if contest.resolved or drift.kind == "new rule" else "harm"
            self._record(dataclasses.replace(drift, **{"kind": kind} | self._cause(contest, row, around, kind)))
            return
        if grown - len(losses) < CAUSE_ROWS <= grown:
            self._record(dataclasses.replace(drift, **self._cause(contest, row, around)))
        if not contest.resolved and (contest.new is None or MOST_ROWS > grown >= 1.6 * contest.corrected_rows):
            self._correct(contest, row, around)

    def _declare(self, contest: Contest, row: int, around: Surroundings) -> None:
        """Record a new drift."""
        contest = replace(contest, since=self._beginning(contest, row + 1))
        since = contest.since
        kept = self.drifts[1 - MOST_DRIFTS :]
        taken = kept[-1].number + 1 if len(kept) else 1
        newest = self._highest(self._rows_between(min(since, row + 1 - PEAK_ROWS), row + 1))
        before = self._rows_between(since - BEFORE_ROWS, since)
        self._peak = float(self._losses(newest.y, newest.scores).mean())
        drift = Drift(
            taken,
            row=since,
            step=self._follower.step_of(since),
            detected_at_row=row,
            kind="undecided",
            metric=self.metric,
            error_before=self._error_of(before if len(before.y) >= LEAST_CHECKED else take_block(before, 0, 0)),
            error_peak=self._error_of(newest),
            evidence=_evidence(contest),
        )
        self.drifts = Drifts((*kept, drift))
        leads, lead = np.zeros((CONTESTANTS, len(STAKES))), self._usual_lead(contest)
        self._contest = contest = replace(contest, drift=taken, leads=leads, lead=lead)
        self._record(dataclasses.replace(drift, **self._cause(contest, row + 1, around)))
        self._correct(contest, row + 1, around)

    def _usual_lead(self, contest: Contest) -> float:
        """Return by how much the learning model was better than the frozen one before the drift, beyond chance."""
        if contest.anchor is None:
            return 0.0
        past = self._rows_between(max(contest.anchor.row, contest.since - BEFORE_ROWS), contest.since)
        if len(past.y) < LEAST_CHECKED:
            return 0.0
        leads = self._losses(past.y, self._scored(contest, past)) - self._losses(past.y, past.scores)
        return max(0.0, float(leads.mean()) + float(leads.std()) / math.sqrt(len(leads)))

    def _beginning(self, contest: Contest, row: int) -> int:
        """Return the row from which on the losses of the frozen model are most likely to have risen."""
        first = self._first_row if contest.anchor is None else contest.anchor.row + LEAST_CHECKED // 2
        earlier = self.drifts[-1].ended_at_row if len(self.drifts) else None
        held = self._rows_between(max(min(first, contest.since), 0 if earlier is None else earlier + 1), row)
        losses = self._centred(held.y, self._losses(held.y, self._scored(contest, held)))
        best, found = -math.inf, contest.since
        for place in range(len(scan.ALTERNATIVES)):
            usual, stake, _ = self._bet(contest.usual, place)
            gains = np.cumsum(np.log1p(stake * (losses - usual))[::-1])
            last = int(gains.argmax())
            if gains[last] > best:
                best, found = float(gains[last]), row - 1 - last
        return found

    def _led(self, contest: Contest, part: Block, scores: FloatArray, frozen: FloatArray) -> Contest:
        """Return the contest after bets on the leads over the frozen model, whose losses are given."""
        leads = contest.leads
        assert leads is not None
        leads = leads.copy()
        differences = dict[int, FloatArray]()
        if contest.anchor is not None and part.first_row - contest.since < LED_ROWS:
            differences[0] = frozen - self._losses(part.y, part.scores) - contest.lead
        if contest.old is not None and contest.new is not None and contest.columns is not None:
            X, y, base = narrowed(part.X, contest.columns), part.y, self._base(contest, scores)
            differences[1] = contest.old.losses(X, y, base) - contest.new.losses(X, y, base)
        if contest.rival is not None:
            fresh = contest.rival(part.X)
            differences[2] = frozen - self._losses(part.y, fresh if self.regression else _margins(fresh))
        for place, one in differences.items():
            leads[place] += np.log1p(STAKES[:, None] * np.maximum(one, -1.0)).sum(axis=1)
        resolved = bool(_log_mean(leads.reshape(-1, 1))[0] >= math.log(1.0 / self.drift_risk))
        if resolved:
            drift = self.drifts[self._index(contest.drift)]
            self._record(dataclasses.replace(drift, kind="new rule"))
        return replace(contest, leads=leads, resolved=resolved)

    def _correct(self, contest: Contest, row: int, around: Surroundings) -> None:
        """Let new rows correct the frozen model and teach a fresh one; as many old ones correct the former once."""
        old, new = self._sides(contest, row)
        known = len(old.y) if contest.anchor is None else contest.anchor.row // 2  # what knows more rows may be better
        count = min(len(old.y), len(new.y), known)
        if count < 30:
            return
        old_scores, new_scores = self._scored(contest, old), self._scored(contest, new)
        columns = contest.columns
        if columns is None:
            columns = telling_columns(new.X, self._residuals(new.y, new_scores), CORRECTED_COLUMNS)
        n_classes, unit = self._scale(new_scores)
        done = contest.old
        if done is None:
            contest = replace(contest, centre=float(old.y.mean()))
            done = Correction.fitted(n_classes, unit, narrowed(old.X, columns), old.y, self._base(contest, old_scores))
        newest = take_block(new, len(new.y) - count, len(new.y))
        X, base = narrowed(newest.X, columns), self._base(contest, new_scores[len(new.y) - count :])
        made = Correction.fitted(n_classes, unit, X, newest.y, base)
        rival = _taught(newest, around)
        rows = len(new.y)
        self._contest = replace(contest, columns=columns, old=done, new=made, rival=rival, corrected_rows=rows)

    def _base(self, contest: Contest, scores: FloatArray) -> FloatArray:
        """Return the scores that old and new rows correct: those of the frozen model, or of none, if there is none."""
        if contest.anchor is not None:
            return scores
        return np.full_like(scores, contest.centre if self.regression else 0.0)

    def _sides(self, contest: Contest, row: int) -> tuple[Block, Block]:
        """Return rows before the drift that the frozen model had not learned, and the rows since."""
        first = contest.since - MOST_ROWS // 2
        first = first if contest.anchor is None else max(first, contest.anchor.row)
        return self._rows_between(first, contest.since), self._rows_between(contest.since, row)

    def _scale(self, scores: FloatArray) -> tuple[int, float]:
        if self.regression:
            return 0, float(self._scan[scan.SCALE]) / 4.0
        return (2 if scores.ndim == 1 else scores.shape[1]), 1.0

    def _residuals(self, y: FloatArray, scores: FloatArray) -> FloatArray:
        """Return how far the labels are from what was predicted; for many classes, whether they are another one."""
        if self.regression:
            return y - scores
        if scores.ndim == 1:
            return np.asarray(y - 1.0 / (1.0 + np.exp(-np.clip(scores, -30.0, 30.0))))
        return np.asarray(scores.argmax(axis=1) != y, np.float64)

    # -------------------------------------------------------------------- cause, size and end

    def _cause(self, contest: Contest, row: int, around: Surroundings, kind: str = "") -> dict[str, Any]:
        """Return the fields of a drift that say what changed, as far as the rows show it."""
        old, new = self._sides(contest, row)
        if min(len(old.y), len(new.y)) < 30:
            return {}
        known = list(around.columns())
        classes = () if self.regression else _class_moves(old.y, new.y, around.classes)
        if any(one.startswith("new: ") for one in classes):
            kind = "new rule"  # whatever knows only old rows is wrong about a class that they do not have
        told: dict[str, Any] = {"classes": classes} | ({"kind": kind} if kind else {})
        width = new.X.n_features if isinstance(new.X, CSR) else new.X.shape[1]
        label = [known[k] if k < len(known) else f"column {k}" for k in range(width)]
        old_scores, new_scores = self._scored(contest, old), self._scored(contest, new)
        residuals = np.concatenate([self._residuals(old.y, old_scores), self._residuals(new.y, new_scores)])
        both = _joined([old, new])
        columns = telling_columns(both.X, residuals)
        columns = columns[~_counts(narrowed(both.X, columns))]
        columns = columns[[label[k] != SHARED for k in columns]]
        if not len(columns):
            return told | {"cause": "classes" if classes else "unknown"}
        sources = list(dict.fromkeys(source_column(label[k]) for k in columns))
        groups = [sources.index(source_column(label[k])) for k in columns]
        n_classes, unit = self._scale(new_scores)
        tested = len(set(map(source_column, label)))
        sides = (
            Evidence(narrowed(old.X, columns), old.y, _wide(old_scores, new_scores)),
            Evidence(narrowed(new.X, columns), new.y, _wide(new_scores, old_scores)),
        )
        found = [
            sources[k] for k in changed_columns(n_classes, unit, *sides, groups, tested, strict=not contest.resolved)
        ]
        moved = any(not label[columns[k]].endswith(CALENDAR) for k in _moved(sides[0].X, sides[1].X))
        cause: DriftCause = "classes" if classes else "columns" if found else "unknown"
        if kind == "harm" and not classes:  # no rule changed, so that no column did
            found, cause = [], "unknown"
        if moved and not classes and not found:
            cause = "inputs"
        return told | {"columns": tuple(found), "cause": cause}

    @property
    def metric(self) -> str:
        """Name of the error that drifts are measured with."""
        return "root mean squared error" if self.regression else "balanced error" if self._is_balanced else "error"

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

    def _follow(self, row: int) -> None:
        """Follow the error of the learning model in an open drift, and end the drift when it is over."""
        drift = self.open
        assert drift is not None
        recent = self._rows_between(max(drift.row, row - RECOVERY_ROWS), row)
        losses = self._losses(recent.y, recent.scores)
        if len(losses) < PART:
            return
        newest = take_block(recent, max(len(losses) - PEAK_ROWS, 0), len(losses))
        height = float(losses[-PEAK_ROWS:].mean())
        if len(newest.y) == PEAK_ROWS and height > self._peak:
            self._peak = height
            self._record(dataclasses.replace(drift, error_peak=max(drift.error_peak, self._error_of(newest))))
            drift = self.drifts[-1]
        usual, span = self._scan[scan.MEAN], self._scan[scan.RANGE]
        least = self.smallest_rise * span
        back = usual + max(least, 0.1 * (self._peak - usual))
        mean = float(losses.mean())
        long_enough = row - drift.detected_at_row >= LEAST_OPEN_ROWS and len(losses) >= RECOVERY_ROWS - PART
        if self._back is None and long_enough and mean <= back:
            took = max(row - len(losses), drift.detected_at_row + 1) - drift.row
            self._back = row - 1, took
            drift = dataclasses.replace(drift, error_after=self._error_of(recent), recovered_after_rows=took)
            self._record(drift)
        if self._back is not None:
            if self._contest is None or row - self._back[0] > SETTLED_ROWS:
                self._end(self._back[0], mean, {})
        elif row - drift.detected_at_row > STAYING_ROWS:
            self._end(row - 1, mean, {"error_after": self._error_of(recent)})

    def _end(self, row: int, mean: float, fields: dict[str, Any]) -> None:
        """End the open drift; nothing is said about it later."""
        drift = self.open
        assert drift is not None
        if drift.kind == "undecided":
            fields = fields | {"kind": "harm"}
        self._record(dataclasses.replace(drift, ended_at_row=row, **fields))
        self._contest, self._contests, self._anchors, self._old, self._back = None, 0, (), None, None
        self._restart(float(RECOVERY_ROWS), mean)

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

    # -------------------------------------------------------------------- moves of the inputs alone

    def _compare_inputs(self, around: Surroundings) -> None:
        """Compare the means of the last rows with those of earlier windows."""
        if self._parts or self._follower.memory.X.shape[1] > MOST_WATCHED:
            return
        recent = self._rows_between(self.rows - WINDOW_ROWS, self.rows)
        X = np.asarray(recent.X, np.float64)
        means = X.mean(axis=0)
        variances = np.maximum(np.einsum("ij,ij->j", X - means, X - means) / max(len(X), 1), 0.0)
        window = np.concatenate([means, variances])
        width = X.shape[1]
        before = self._means if self._means.shape[1:] == window.shape else np.zeros((0, len(window)))
        self._means = np.vstack([before, window])[-16:]
        if len(before) < 2:
            return
        usual, spread = before[:, :width].mean(axis=0), np.sqrt(before[:, width:].mean(axis=0))
        noise = spread / math.sqrt(len(X)) + before[:, :width].std(axis=0)
        shift = np.abs(window[:width] - usual)
        moved = np.flatnonzero((shift > SHIFT * spread) & (shift > SURE_SHIFT * noise))
        if not len(moved):
            return
        self._means = window[None]
        harmed = any((one.ended_at_row or self.rows) >= recent.first_row for one in self.drifts)
        if harmed or self._contest is not None:
            return
        known, order = (
            list(around.columns()),
            moved[np.argsort(-(shift[moved] / np.maximum(spread[moved], 1e-300)), kind="stable")],
        )
        columns = dict.fromkeys(source_column(known[k]) if k < len(known) else f"column {k}" for k in order.tolist())
        change = InputChange(recent.first_row, self._follower.step_of(recent.first_row), tuple(columns))
        self.changes = InputChanges((*self.changes[1 - MOST_DRIFTS :], change))

    # -------------------------------------------------------------------- state

    def state(self) -> State:
        """Return everything that later steps depend on."""
        state: State = {
            "smallest_rise": self.smallest_rise,
            "drift_risk": self.drift_risk,
            "rows": self.rows,
            "contests": self._contests,
            "peak": self._peak,
            "back": json.dumps(self._back),
            "scan": _values(self._follower),
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
            state |= nest(f"anchor{place}", _anchor_state(anchor))
        if self._old is not None:
            state |= nest("old", _anchor_state(self._old))
        if self._contest is not None:
            state |= nest("contest", _contest_state(self._contest))
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
        saved = [(name, _blocks_from(pick(name, state), *shape)) for name in ("blocks", "waiting")]
        widths = (1 if one.scores.ndim == 1 else one.scores.shape[1] for _, blocks in saved for one in blocks)
        outputs = max(widths, default=1)
        for name, blocks in saved:
            for one in blocks:
                X, scores = one.X, one.scores if outputs == 1 else _as_classes(one.scores, outputs)
                if isinstance(X, CSR):
                    new._parts, X = (*new._parts, (one.first_row, X)), _no_columns(len(one.y))
                place = one.first_row, one.step, one.steps
                follower = follower.extended(*place, X, one.y, np.ascontiguousarray(scores), name == "blocks")
        anchors = [pick(f"anchor{place}", state) for place in range(ANCHORS)]
        new._anchors = tuple(_anchor_from(one, strategy) for one in anchors if one)
        new._follower = follower.with_values(known["scan"], new._next_anchor)
        old = pick("old", state)
        new._old, new._rise = (_anchor_from(old, strategy) if old else None), Rise(**RISE.read(pick("rise", state)))
        contest = pick("contest", state)
        new._contest = _contest_from(contest, strategy, self.regression) if contest else None
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


def _read_back(saved: Any) -> tuple[int, int] | None:
    """Return the saved row and number of rows of a recovery; ValueError if they are not valid."""
    if saved is None:
        return None
    if not (isinstance(saved, list) and len(saved) == 2 and all(type(one) is int for one in saved)):
        raise ValueError("must be a row and a number of rows, or nothing")
    return saved[0], saved[1]


FIELDS = Fields(
    {
        "smallest_rise": Real(least=0.0, most=1.0),
        "drift_risk": Real(least=1e-300, most=1.0),
        "rows": Whole(),
        "contests": Whole(),
        "peak": Real(least=0.0),
        "back": Json(_read_back),
        "scan": Array(np.float64, (scan.VALUES,)),
        "drifts": Json(lambda saved: Drifts(map(Drift.from_dict, saved))),
        "changes": Json(
            lambda saved: InputChanges(InputChange(**one | {"columns": tuple(one["columns"])}) for one in saved)
        ),
        "means": Array(np.float64, ("windows", "means")),
    },
    parts=["blocks", "waiting", "anchor*", "old", "rise", "contest"],
    rules=[
        Rule("scan", "must have a spread and a range above 0", lambda known: bool((known["scan"][POSITIVE] > 0).all()))
    ],
)
"""Saved entries of a monitor."""

RISE = Fields({"cusum": Real(least=0.0), "since": Whole(), "rows": Real(least=0.0), "total": Real(least=0.0)})
"""Saved entries of a rise."""

TAUGHT_ROWS = 100
"""Rows of a step of a fresh model."""


def _taught(block: Block, around: Surroundings) -> Scorer | None:
    """Return the scores of a fresh model that has learned these rows; None if it cannot be saved."""
    strategy = around.strategy.fresh(0)
    n_classes = 0 if strategy.learner.capabilities.regression else len(around.classes)
    X = block.X
    width = X.n_features if isinstance(X, CSR) else X.shape[1]
    strategy.begin(width, sparse=isinstance(X, CSR), n_classes=n_classes)
    frozen: Any = strategy
    if SnapshotScoring not in abilities_of(strategy):
        return None
    for first in range(0, len(block.y), TAUGHT_ROWS):
        stop = min(first + TAUGHT_ROWS, len(block.y))
        part = take_rows(X, first, stop)
        strategy.step(Batch(part, block.y[first:stop], np.ones(stop - first)))
        if not can_freeze(frozen.scorer()):
            return None
    return frozen.scorer()  # type: ignore[no-any-return]


EMPTY = np.zeros(0, np.int64)
ROWS = Fields(
    {
        "first_rows": Array(np.int64, ("blocks",), least=0),
        "steps": Array(np.int64, ("blocks",), least=0),
        "counts": Array(np.int64, ("blocks",), least=1),
        "sizes": Array(np.int64, ("blocks",), least=1),
        "y": Array(np.float64, ("rows",)),
        "margins": Array(np.float64, ("rows",)),
        "scores": Array(np.float64, ("rows", "outputs"), missing=True),
        "X": AnyArray(),
        "indices": Array(np.int64, ("values",), least=0, most="n_features-1"),
        "indptr": Array(np.int64, ("rows+1",), least=0, most="values"),
    },
    optional=["margins", "scores", "indices", "indptr"],
    rules=[
        Rule("sizes", "must add up to the rows", lambda known: int(known["sizes"].sum()) == len(known["y"])),
        Rule(
            "indptr",
            "must not fall",
            lambda known: "indptr" not in known or bool((np.diff(known["indptr"]) >= 0).all()),
        ),
    ],
)
"""Saved entries of blocks of rows."""

ANCHOR = Fields({"row": Whole(), "rows": Real(least=0.0), "total": Real(least=0.0)}, parts=["model"])
"""Saved entries of a frozen model."""

PARTS = ["anchor", "old", "new", "rival"]
"""Parts of a contest that have entries of their own."""
CONTEST = Fields(
    {
        "number": Whole(1),
        "since": Whole(),
        "start": Whole(),
        "usual": Real(),
        "reference": Real(),
        "spread": Real(least=1.0),
        "before": Real(),
        "lead": Real(least=0.0),
        "centre": Real(),
        "bets": Array(np.float64, (len(scan.ALTERNATIVES),)),
        "rows": Whole(),
        "total": Real(),
        "highest": Real(),
        "drift": Whole(-1),
        "leads": Array(np.float64, (CONTESTANTS, len(STAKES))),
        "columns": Array(np.int64, ("columns",), least=0),
        "corrected_rows": Whole(),
        "resolved": Truth(),
        "n_classes": Whole(),
    },
    optional=["leads", "columns"],
    parts=PARTS,
)
"""Saved entries of a contest."""


def _blocks_from(state: Mapping[str, Any], n_features: int, sparse: bool, dtype: str) -> tuple[Block, ...]:
    if not state:
        return ()
    known = ROWS.read(state, n_features=n_features)
    X, y = known["X"], known["y"]
    shape = known["indices"].shape if sparse else (len(y), n_features)
    if X.dtype != dtype or X.shape != shape or ("margins" in known) == ("scores" in known):
        raise misfit(state, "X", f"must be rows of {n_features} columns of type {dtype}, with their scores")
    rows: Rows = X
    if sparse:
        rows = CSR(X, known["indices"].astype(np.int32), known["indptr"].astype(np.int64), n_features)
    scores = known["margins"] if "margins" in known else known["scores"]
    whole = Block(0, 0, rows, y, scores)
    stops = np.cumsum(known["sizes"]).tolist()
    starts = [0, *stops[:-1]]
    numbers = (known[name].tolist() for name in ("first_rows", "steps", "counts"))
    cuts = zip(*numbers, starts, stops, strict=True)
    return tuple(
        take_block(whole, a, b)._replace(first_row=row, step=step, steps=count) for row, step, count, a, b in cuts
    )


def _anchor_state(anchor: Anchor) -> State:
    own: State = {"row": anchor.row, "rows": anchor.rows, "total": anchor.total}
    return own | nest("model", frozen_state(anchor.scorer))


def _anchor_from(state: Mapping[str, Any], strategy: Strategy) -> Anchor:
    known = ANCHOR.read(state)
    return Anchor(known["row"], frozen_from(pick("model", state), strategy), known["rows"], known["total"])


def _contest_state(contest: Contest) -> State:
    entries = {name: value for name, value in vars(contest).items() if name not in PARTS}
    state: State = {name: value for name, value in entries.items() if value is not None}
    state["n_classes"] = 0 if contest.old is None else contest.old.n_classes
    if contest.anchor is not None:
        state |= nest("anchor", _anchor_state(contest.anchor))
    if contest.rival is not None:
        state |= nest("rival", frozen_state(contest.rival))
    for name, one in (("old", contest.old), ("new", contest.new)):
        if one is not None:
            state |= nest(name, one.state())
    return state


def _contest_from(state: Mapping[str, Any], strategy: Strategy, regression: bool) -> Contest:
    known = dict(CONTEST.read(state))
    n_classes = known.pop("n_classes")
    anchor, sides = pick("anchor", state), {name: pick(name, state) for name in ("old", "new")}
    made: dict[str, Any] = {name: Correction.from_state(one, n_classes) for name, one in sides.items() if one}
    if len(made) == 1 or bool(made) != ("columns" in known) or (known["drift"] >= 0) != ("leads" in known):
        raise misfit(state, "drift", "must have both corrections and the capitals, or none of them")
    frozen, rival = _anchor_from(anchor, strategy) if anchor else None, pick("rival", state)
    made["rival"] = frozen_from(rival, strategy) if rival else None
    names = [one.name for one in dataclasses.fields(Contest)]
    entries: dict[str, Any] = {name: known[name] for name in names if name in known}
    return Contest(anchor=frozen, **entries, **made)


# -------------------------------------------------------------------- rows and numbers


def take_block(block: Block, lo: int, hi: int) -> Block:
    """Return some rows of a block."""
    return Block(block.first_row + lo, block.step, take_rows(block.X, lo, hi), block.y[lo:hi], block.scores[lo:hi])


def _joined(blocks: Sequence[Block]) -> Block:
    """Return blocks as one."""
    if len(blocks) == 1:
        return blocks[0]
    first = blocks[0]
    outputs = max(1 if one.scores.ndim == 1 else one.scores.shape[1] for one in blocks)
    scores = [one.scores if outputs == 1 else _as_classes(one.scores, outputs) for one in blocks]
    y = np.concatenate([one.y for one in blocks])
    X, steps = _stacked([one.X for one in blocks]), sum(one.steps for one in blocks)
    return Block(first.first_row, first.step, X, y, np.concatenate(scores), steps)


def _stacked(rows: Sequence[Rows]) -> Rows:
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


def _copied(X: CSR) -> CSR:
    a, b = int(X.indptr[0]), int(X.indptr[-1])
    return CSR(X.data[a:b].copy(), X.indices[a:b].copy(), X.indptr - a, X.n_features)


@functools.cache
def _no_columns(count: int) -> DenseRows:
    """Return rows without columns, which stand for sparse ones where labels and scores are held."""
    return np.zeros((count, 0))


def allocated(rows: int, blocks: int, X: Any, scores: FloatArray) -> Held:
    """Return memory for so many rows and blocks of the kind of these rows and scores."""
    outputs = scores.shape[1:] if scores.ndim == 2 and scores.shape[1] != 2 else ()
    X = np.empty((rows, X.shape[1]), X.dtype)
    return Held(X, np.empty(rows), np.empty((rows, *outputs)), np.empty((blocks, 4), np.int64))


def _values(follower: Follower) -> FloatArray:
    """Return the values of the scan."""
    return np.frombuffer(follower.values).copy()


def _widened(follower: Follower, scores: FloatArray) -> tuple[Follower, FloatArray]:
    """Return the follower, and scores of further rows, with as many classes as either has."""
    memory = follower.memory
    scores = _margins(scores)
    outputs = max(1 if one.ndim == 1 else one.shape[1] for one in (memory.scores, scores))
    if memory.scores.shape[1:] != (outputs,):
        wide, place = Follower(scan.LOSSES, allocated), follower.start
        marks = memory.marks[follower.first_mark : follower.marks_stop].tolist()
        for closed, some in ((True, marks), (False, [follower.waiting_mark])):
            for first, step, steps, count in some:
                rows = slice(place, place + count)
                kept = memory.X[rows], memory.y[rows], _as_classes(memory.scores[rows], outputs)
                wide = wide.extended(first, step, steps, *kept, closed)
                place += count
        follower = wide.with_values(_values(follower), follower.anchor_at)
    return follower, _as_classes(scores, outputs)


def _margins(scores: FloatArray) -> FloatArray:
    """Return scores of two classes as log-odds of the second one, others as they are; always a copy."""
    if scores.ndim == 2 and scores.shape[1] == 2:
        return np.ascontiguousarray(scores[:, 1] - scores[:, 0])
    return np.array(scores)


def _as_classes(scores: FloatArray, outputs: int) -> FloatArray:
    """Return scores with a column for each class; a class that was not known has a very small probability."""
    if scores.ndim == 1:
        scores = np.stack([-np.logaddexp(0.0, scores), -np.logaddexp(0.0, -scores)], axis=1)
    missing = outputs - scores.shape[1]
    return scores if not missing else np.hstack([scores, np.full((len(scores), missing), UNKNOWN_CLASS)])


UNKNOWN_CLASS = -30.0
"""Logarithm of the probability of a class that a model does not know."""


def _wide(scores: FloatArray, other: FloatArray) -> FloatArray:
    """Return scores with as many classes as other ones."""
    outputs = max(1 if one.ndim == 1 else one.shape[1] for one in (scores, other))
    return scores if outputs == 1 else _as_classes(scores, outputs)


def source_column(name: str) -> str:
    """Return the column of a table that an encoded column was made of.

    >>> [source_column(name) for name in ("city=Rome", "city (hash 3)", "city is missing", "price")]
    ['city', 'city', 'city', 'price']
    >>> [source_column(name) for name in ("at Monday", "at (sine of the hour)", "at (days since 1970)")]
    ['at', 'at', 'at']
    """
    name = name.partition("=")[0].partition(" (hash ")[0]
    return next((name.removesuffix(end) for end in (" is missing", *CALENDAR) if name.endswith(end)), name)


CALENDAR = (
    *(" (days since 1970)", " (sine of the hour)", " (cosine of the hour)"),
    *(f" {day}" for day in ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")),
)
"""Ends of the names of encoded columns of a date, whose values move by themselves."""


def _log_mean(logarithms: FloatArray) -> FloatArray:
    """Return the logarithm of the mean of capitals along the first axis."""
    top = logarithms.max(axis=0)
    return np.asarray(top + np.log(np.mean(np.exp(logarithms - top), axis=0)))


def _evidence(contest: Contest) -> float:
    """Return the largest capital, divided by the number of contests as the bound on false verdicts demands."""
    return float(min(math.exp(min(contest.highest, 700.0)) / (SERIES * contest.number**2), MOST_EVIDENCE))


def _root_mean_square(residuals: FloatArray) -> float:
    return math.sqrt(float(np.mean(np.square(residuals)))) if len(residuals) else 0.0


SHARED = "another cell is missing"
"""Encoded column that many columns share."""


def _counts(X: FloatArray) -> npt.NDArray[np.bool_]:
    """Return which columns only rise or only fall from row to row, as clocks and counters do."""
    steps = np.diff(X, axis=0)
    moving = (steps != 0.0).any(axis=0)
    return np.asarray(moving & ((steps >= 0.0).all(axis=0) | (steps <= 0.0).all(axis=0)))


LEAST_CLASS = 0.02
"""Share of rows from which on a class is there."""
UNSURE_ROWS = 200
"""Rows before the estimated beginning of a drift that may already be new."""


def _class_moves(old: FloatArray, new: FloatArray, labels: Sequence[Any]) -> tuple[str, ...]:
    """Return the classes that came or went between old and new rows, such as "new: fraud" and "gone: spam"."""
    size = int(max(old.max(), new.max())) + 1
    sure = old[: max(len(old) - UNSURE_ROWS, len(old) // 2)]
    before, after = (np.bincount(one.astype(np.int64), minlength=size) for one in (sure, new))
    came = np.flatnonzero((before == 0) & (after >= np.maximum(3, LEAST_CLASS * len(new))))
    gone = np.flatnonzero((after == 0) & (before * (len(new) / max(len(sure), 1)) >= 10.0))
    return (*(f"new: {labels[k]}" for k in came.tolist()), *(f"gone: {labels[k]}" for k in gone.tolist()))


def _moved(old: FloatArray, new: FloatArray) -> Integers:
    """Return the columns whose means differ between old and new rows beyond chance and noticeably."""
    spread = np.sqrt(0.5 * (old.var(axis=0) + new.var(axis=0)))
    shift = np.abs(new.mean(axis=0) - old.mean(axis=0))
    noise = spread * math.sqrt(1.0 / len(old) + 1.0 / len(new))
    return np.flatnonzero((shift > SHIFT * spread) & (shift > SURE_SHIFT * noise))
