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
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from driftsurf.core import numeric
from driftsurf.core.abilities import SnapshotScoring, abilities_of
from driftsurf.core.contracts import CSR, Batch, DenseRows, FloatArray, Rows, State, Strategy, take_rows
from driftsurf.core.drifts import (
    DRIFT_RISK,
    MOST_EVIDENCE,
    SMALLEST_RISE,
    Drift,
    Drifts,
    InputChange,
    InputChanges,
)
from driftsurf.core.fields import misfit
from driftsurf.core.options import number
from driftsurf.core.state import nest, pick
from driftsurf.native import monitor as scan
from driftsurf.native.monitor import BET_PART, LEAST_CHECKED, MOST_ROWS, Follower, Held, may_have_moved
from driftsurf.session.correction import Correction, narrowed, telling_columns
from driftsurf.session.drift_causes import SHIFT, SURE_SHIFT, causes_of, source_column
from driftsurf.session.drift_evidence import (
    Anchor,
    DriftContest,
    EvidenceBlock,
    Integers,
    Scorer,
    Surroundings,
    as_classes,
    classes_of,
    copied_rows,
    log_odds,
    no_columns,
    residuals_of,
    stacked,
    take_block,
)
from driftsurf.session.drift_saved import (
    ANCHORS,
    CONTESTANTS,
    FIELDS,
    RISE,
    RISE_NAMES,
    STAKES,
    anchor_from,
    anchor_state,
    blocks_from,
    contest_from,
    contest_state,
)
from driftsurf.strategies.frozen import can_freeze, frozen

PART = 50
"""Rows after which a drift is looked at again; ``BET_PART`` in long steps, between which the model does not change."""

FELT_ROWS = 300
"""The learning model must have become worse, too, in so many rows."""

LEAST_OPEN_ROWS = 100
"""Rows after its detection before which a drift is not over."""

LED_ROWS = 3_000
"""Rows of a drift in which the lead of the learning model counts; later it may have learned more of the same rule."""

RESOLVED_ROWS = 5_000
"""Rows after harm was proven within which the kind of a drift is decided."""

CORRECTED_COLUMNS = 16
"""Columns of a correction; a cause is looked for among more."""

RECOVERY_ROWS = 300
"""Rows whose mean error shows whether a model has recovered."""

SETTLED_ROWS = 1_500
"""Rows after a recovery in which the kind and the cause of a drift may still be found."""

STAYING_ROWS = 3_000
"""Rows after which an error that has not come back is the new usual one."""

SERIES = math.pi**2 / 6.0

TAUGHT_ROWS = 100
"""Rows of a step of a fresh model."""

CAUSE_ROWS = 500
"""Rows after a change on which its cause is determined."""

PEAK_ROWS, BEFORE_ROWS = 100, 1_000
"""Rows over which the highest error of a drift is measured, and the error before it."""

WINDOW_ROWS = 1_000
"""Rows of a window in which the means of the inputs are compared."""

MOST_WATCHED = 1_000
"""Columns up to which the means of dense inputs are compared."""

MOST_DRIFTS = 1_000
"""Drifts that are remembered."""


class DriftMonitor(Follower):
    """Value that follows a model: ``after`` returns the value after one more step and leaves this one unchanged.

    Parameters
    ----------
    regression
        Whether the model predicts numbers.
    smallest_rise
        Smallest rise of the error that matters: in shares of rows, or for regression in units of four usual errors.
    drift_risk
        Largest probability with which a run in which nothing changes reports a drift.
    """

    __slots__ = ()  # all values are those of the base class, which copies them in every step

    smallest_rise: float
    drift_risk: float
    rows: int
    contests: int
    drifting: bool
    peak: float
    drifts: Drifts
    changes: InputChanges
    updates: tuple[Drift, ...]
    contest: DriftContest | None
    anchors: tuple[Anchor, ...]
    old: Anchor | None
    back: tuple[int, int] | None
    parts: tuple[tuple[int, CSR], ...]
    means: FloatArray

    def __init__(
        self, *, regression: bool, smallest_rise: float = SMALLEST_RISE, drift_risk: float = DRIFT_RISK
    ) -> None:
        self.smallest_rise = number("smallest_rise", smallest_rise, at_least=0.0, below=1.0)
        self.drift_risk = number("drift_risk", drift_risk, above=0.0, below=1.0)
        self.drifts, self.changes, self.means = Drifts(), InputChanges(), np.zeros((0, 0))

    @property
    def open(self) -> Drift | None:
        """The drift that goes on."""
        last = self.drifts[-1] if len(self.drifts) else None
        return None if last is None or last.ended else last

    @property
    def metric(self) -> str:
        """Name of the error that drifts are measured with."""
        return "root mean squared error" if self.regression else "balanced error" if self.span < 1.0 else "error"

    # -------------------------------------------------------------------- called by the base class

    def allocated(self, rows: int, blocks: int, X: Any, scores: FloatArray) -> Held:
        """Return memory for so many rows and blocks of the kind of these rows and scores."""
        outputs = scores.shape[1:] if scores.ndim == 2 and scores.shape[1] != 2 else ()
        X = np.empty((rows, X.shape[1]), X.dtype)
        return Held(X, np.empty(rows), np.empty((rows, *outputs)), np.empty((blocks, 4), np.int64))

    def add_sparse(self, first_row: int, X: CSR) -> DenseRows:
        """Hold sparse rows, and return rows without columns, which stand for them."""
        held = self.held_from
        kept = (one for one in self.parts if one[0] + len(one[1].indptr) - 1 > held)
        self.parts = *kept, (first_row, copied_rows(X))
        return no_columns(len(X.indptr) - 1)

    def widened(self, scores: FloatArray) -> FloatArray:
        """Hold scores of as many classes as there are in these, or the other way round; return these scores."""
        memory, scores = self.memory, log_odds(scores)
        outputs = max(1 if one.ndim == 1 else one.shape[1] for one in (memory.scores, scores))
        if memory.scores.shape[1:] != (outputs,):
            place, waiting = self.start, self.waiting_mark
            marks = memory.marks[self.first_mark : self.marks_stop].tolist()
            self.forget_rows()
            for closed, some in ((True, marks), (False, [waiting])):
                for first, step, steps, count in some:
                    rows = slice(place, place + count)
                    wide = as_classes(memory.scores[rows], outputs)
                    self.hold(first, step, steps, memory.X[rows], memory.y[rows], wide, closed)
                    place += count
        return as_classes(scores, outputs)

    def frozen(self, first_row: int, scorer: Scorer) -> Anchor | None:
        """Return the model before a step; None if it cannot be saved."""
        model = frozen(scorer)
        return None if model is None else Anchor(first_row, model)

    def scored(self, anchor: Anchor, row: int, a: int, b: int) -> FloatArray:
        """Return the scores of a frozen model for the rows at places ``a`` to ``b``, as the scores of rows are held."""
        scores = anchor.scorer(self._held(row, 0, a, b).X)
        return np.ascontiguousarray(scores if self.regression else log_odds(scores))

    def new_contest(self, number: int, since: int, start: int, *known: Any) -> DriftContest:
        """Return a contest that begins."""
        return DriftContest(number, since, start, *known)

    def proves(self, row: int, around: Surroundings) -> bool:
        """Declare a drift if the losses of the learning model have risen too, with a row that proves harm."""
        contest = self.contest
        assert contest is not None
        felt = self._is_felt(contest, row + 1)
        if felt:
            self._declare(contest, row, Surroundings(*around))
        return felt

    def follow_drift(self, at: int, around: Surroundings) -> int:
        """Follow an open drift in some rows of the last block, from number ``at`` on; return where it goes on."""
        block, around = self._block(-1), Surroundings(*around)
        count = len(block.y)
        part = take_block(block, at, min(count, at + (PART if count < 2 * BET_PART else BET_PART)))
        at += len(part.y)
        if self.contest is not None:
            self._bet_on_lead(self.contest, part, around)
        if self.open is not None:
            self._follow(block.first_row + at)
        self.drifting = self.open is not None or self.contest is not None
        return at

    def compare_inputs(self, around: Surroundings) -> None:
        """Compare the means of the last rows with those of earlier windows."""
        width = self.memory.X.shape[1]
        if self.parts or width > MOST_WATCHED:
            return
        a, b, first_row = self.between(self.rows - WINDOW_ROWS, self.rows)
        window = np.empty(2 * width)
        self.moments(a, b, window)
        before = self.means if self.means.shape[1:] == window.shape else np.zeros((0, len(window)))
        self.means = np.concatenate([before, window[None]])[-16:]
        if len(before) < 2 or not may_have_moved(before, window, SHIFT):  # nearly always
            return
        usual, spread = before[:, :width].mean(axis=0), np.sqrt(before[:, width:].mean(axis=0))
        shift = np.abs(window[:width] - usual)
        noise = spread / math.sqrt(b - a) + before[:, :width].std(axis=0)
        moved = np.flatnonzero((shift > SHIFT * spread) & (shift > SURE_SHIFT * noise))
        if not len(moved):
            return
        self.means = window[None]
        harmed = any((one.ended_at_row or self.rows) >= first_row for one in self.drifts)
        if harmed or self.contest is not None:
            return
        known = list(Surroundings(*around).columns())
        order = moved[np.argsort(-(shift[moved] / np.maximum(spread[moved], 1e-300)), kind="stable")]
        columns = dict.fromkeys(source_column(known[k]) if k < len(known) else f"column {k}" for k in order.tolist())
        change = InputChange(first_row, self.step_of(first_row), tuple(columns))
        self.changes = InputChanges((*self.changes[1 - MOST_DRIFTS :], change))

    # -------------------------------------------------------------------- rows and losses

    @property
    def _first_row(self) -> int:
        """Number of the first row that is held."""
        return self.block(0)[2]

    def _block(self, which: int) -> EvidenceBlock:
        """Return a block of held rows, counted from the first one, or the last one for -1."""
        a, b, row, step, steps = self.block(which)
        return self._held(row, step, a, b)._replace(steps=steps)

    def _rows_between(self, lo: int, hi: int) -> EvidenceBlock:
        """Return the held rows from number ``lo`` to before ``hi``."""
        a, b, row = self.between(lo, hi)
        return self._held(row, 0, a, b)

    def _held(self, row: int, step: int, a: int, b: int) -> EvidenceBlock:
        """Return the held rows at places ``a`` to ``b``, the first of which has the number ``row``."""
        memory = self.memory
        X: Rows = memory.X[a:b]
        if self.parts:
            cuts = ((one, max(row - first, 0), row + b - a - first) for first, one in self.parts)
            limited = ((one, lo, min(hi, len(one.indptr) - 1)) for one, lo, hi in cuts)
            found = [take_rows(one, lo, hi) for one, lo, hi in limited if lo < hi]
            X = stacked(found) if found else take_rows(self.parts[-1][1], 0, 0)
        return EvidenceBlock(row, step, X, memory.y[a:b], memory.scores[a:b])

    def _scored(self, contest: DriftContest, block: EvidenceBlock) -> FloatArray:
        """Return the scores of the frozen model for a block; those of the learning model if there is none."""
        if contest.anchor is None or not len(block.y):
            return block.scores
        scores = contest.anchor.scorer(block.X)
        return scores if self.regression else log_odds(scores)

    def _losses(self, y: FloatArray, scores: FloatArray) -> FloatArray:
        """Return the losses of rows by scores of this or another model."""
        losses = np.empty(len(y))
        self.losses_into(np.ascontiguousarray(scores), np.ascontiguousarray(y), losses)
        return losses

    def _centred(self, y: FloatArray, losses: FloatArray) -> FloatArray:
        """Return losses whose mean does not depend on how many rows a rare class has."""
        if self.span == 1.0:
            return losses
        return np.asarray(losses + np.where(y > 0.5, self.centre(1.0), self.centre(0.0)))

    @property
    def _score_unit(self) -> float:
        """The residual that counts as one step of a score."""
        return self.unit / 4.0 if self.regression else 1.0

    def _sides(self, contest: DriftContest, row: int) -> tuple[EvidenceBlock, EvidenceBlock]:
        """Return rows before the drift that the frozen model had not learned, and the rows since."""
        first = contest.since - MOST_ROWS // 2
        first = first if contest.anchor is None else max(first, contest.anchor.row)
        return self._rows_between(first, contest.since), self._rows_between(contest.since, row)

    def _cause(self, contest: DriftContest, row: int, around: Surroundings, kind: str = "") -> dict[str, Any]:
        """Return the fields of a drift that say what changed, as far as the rows show it."""
        old, new = self._sides(contest, row)
        scores = self._scored(contest, old), self._scored(contest, new)
        known: dict[str, Any] = {"regression": self.regression, "resolved": contest.resolved, "kind": kind}
        return causes_of(old, new, *scores, around, unit=self._score_unit, **known)

    def _error_of(self, block: EvidenceBlock) -> float:
        """Return the error of rows as they were predicted, in its unit."""
        if not len(block.y):
            return math.sqrt(self.mean_square) * self.unit if self.regression else self.usual / self.span
        if self.regression:
            return math.sqrt(float(np.mean(np.square(block.scores - block.y))))
        losses = self._losses(block.y, block.scores)
        if self.span == 1.0:
            return float(losses.mean())
        shares = [float((losses[block.y == k] > 0.0).mean()) for k in (0.0, 1.0) if (block.y == k).any()]
        return sum(shares) / 2.0

    def _highest(self, block: EvidenceBlock) -> EvidenceBlock:
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

    # -------------------------------------------------------------------- a drift, from its proof to its end

    def _is_felt(self, contest: DriftContest, row: int) -> bool:
        """Return whether the losses of the learning model have risen too, by twice their standard error."""
        rows = self._rows_between(self._beginning(contest, row), row)
        losses, usual = self._centred(rows.y, self._losses(rows.y, rows.scores)), float(self.usual)
        for first in range(0, len(losses), FELT_ROWS):
            part = losses[first : first + FELT_ROWS]
            least = max(self.smallest_rise * self.span, 2.0 * self.standard_error(usual, len(part)))
            if float(part.mean()) - usual >= least:
                return True
        return False

    def _bet_on_lead(self, contest: DriftContest, part: EvidenceBlock, around: Surroundings) -> None:
        """Bet that what knows the new rows predicts better than the frozen model, and let it learn more of them."""
        scores = self._scored(contest, part)
        losses = self._losses(part.y, scores)
        self.add_to_contest(float(losses.sum()), len(losses))
        self.contest = contest = contest if contest.resolved else self._led(contest, part, scores, losses)
        drift, row = self.drifts[self._index(contest.drift)], part.first_row + len(losses)
        grown = row - contest.since
        if (contest.resolved and grown >= CAUSE_ROWS) or row - contest.start > RESOLVED_ROWS:
            self.contest = None
            kind = "new rule" if contest.resolved or drift.kind == "new rule" else "harm"
            self._record(dataclasses.replace(drift, **{"kind": kind} | self._cause(contest, row, around, kind)))
            return
        if grown - len(losses) < CAUSE_ROWS <= grown:
            self._record(dataclasses.replace(drift, **self._cause(contest, row, around)))
        if not contest.resolved and (contest.new is None or MOST_ROWS > grown >= 1.6 * contest.corrected_rows):
            self._correct(contest, row, around)

    def _declare(self, contest: DriftContest, row: int, around: Surroundings) -> None:
        """Record a new drift."""
        contest = contest._replace(since=self._beginning(contest, row + 1))
        since = contest.since
        kept = self.drifts[1 - MOST_DRIFTS :]
        taken = kept[-1].number + 1 if len(kept) else 1
        newest = self._highest(self._rows_between(min(since, row + 1 - PEAK_ROWS), row + 1))
        before = self._rows_between(since - BEFORE_ROWS, since)
        self.peak = float(self._losses(newest.y, newest.scores).mean())
        drift = Drift(
            taken,
            row=since,
            step=self.step_of(since),
            detected_at_row=row,
            kind="undecided",
            metric=self.metric,
            error_before=self._error_of(before if len(before.y) >= LEAST_CHECKED else take_block(before, 0, 0)),
            error_peak=self._error_of(newest),
            evidence=_evidence(contest.number, self.capitals[-1]),
        )
        self.drifts, self.drifting = Drifts((*kept, drift)), True
        leads, lead = np.zeros((CONTESTANTS, len(STAKES))), self._usual_lead(contest)
        self.contest = contest = contest._replace(drift=taken, leads=leads, lead=lead)
        self._record(dataclasses.replace(drift, **self._cause(contest, row + 1, around)))
        self._correct(contest, row + 1, around)

    def _usual_lead(self, contest: DriftContest) -> float:
        """Return by how much the learning model was better than the frozen one before the drift, beyond chance."""
        if contest.anchor is None:
            return 0.0
        past = self._rows_between(max(contest.anchor.row, contest.since - BEFORE_ROWS), contest.since)
        if len(past.y) < LEAST_CHECKED:
            return 0.0
        leads = self._losses(past.y, self._scored(contest, past)) - self._losses(past.y, past.scores)
        return max(0.0, float(leads.mean()) + float(leads.std()) / math.sqrt(len(leads)))

    def _beginning(self, contest: DriftContest, row: int) -> int:
        """Return the row from which on the losses of the frozen model are most likely to have risen."""
        first = self._first_row if contest.anchor is None else contest.anchor.row + LEAST_CHECKED // 2
        earlier = self.drifts[-1].ended_at_row if len(self.drifts) else None
        held = self._rows_between(max(min(first, contest.since), 0 if earlier is None else earlier + 1), row)
        losses = self._centred(held.y, self._losses(held.y, self._scored(contest, held)))
        best, found, variance = -math.inf, contest.since, self.variance(contest.usual)
        for place in range(len(scan.ALTERNATIVES)):
            usual, stake, _ = self.bet(contest.usual, variance, place)
            gains = np.cumsum(numeric.log1p(stake * (losses - usual))[::-1])
            last = int(gains.argmax())
            if gains[last] > best:
                best, found = float(gains[last]), row - 1 - last
        return found

    def _led(self, contest: DriftContest, part: EvidenceBlock, scores: FloatArray, frozen: FloatArray) -> DriftContest:
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
            differences[2] = frozen - self._losses(part.y, fresh if self.regression else log_odds(fresh))
        for place, one in differences.items():
            leads[place] += np.log1p(STAKES[:, None] * np.maximum(one, -1.0)).sum(axis=1)
        resolved = bool(_log_mean(leads.reshape(-1, 1))[0] >= math.log(1.0 / self.drift_risk))
        if resolved:
            drift = self.drifts[self._index(contest.drift)]
            self._record(dataclasses.replace(drift, kind="new rule"))
        return contest._replace(leads=leads, resolved=resolved)

    def _correct(self, contest: DriftContest, row: int, around: Surroundings) -> None:
        """Let new rows correct the frozen model and teach a fresh one; as many old ones correct the former once."""
        old, new = self._sides(contest, row)
        known = len(old.y) if contest.anchor is None else contest.anchor.row // 2  # what knows more rows may be better
        count = min(len(old.y), len(new.y), known)
        if count < 30:
            return
        old_scores, new_scores = self._scored(contest, old), self._scored(contest, new)
        columns = contest.columns
        if columns is None:
            residuals = residuals_of(new.y, new_scores, regression=self.regression)
            columns = telling_columns(new.X, residuals, CORRECTED_COLUMNS)
        n_classes, unit = classes_of(new_scores, regression=self.regression), self._score_unit
        done = contest.old
        if done is None:
            contest = contest._replace(centre=float(old.y.mean()))
            done = Correction.fitted(n_classes, unit, narrowed(old.X, columns), old.y, self._base(contest, old_scores))
        newest = take_block(new, len(new.y) - count, len(new.y))
        X, base = narrowed(newest.X, columns), self._base(contest, new_scores[len(new.y) - count :])
        made = Correction.fitted(n_classes, unit, X, newest.y, base)
        rival = _taught(newest, around)
        rows = len(new.y)
        self.contest = contest._replace(columns=columns, old=done, new=made, rival=rival, corrected_rows=rows)

    def _base(self, contest: DriftContest, scores: FloatArray) -> FloatArray:
        """Return the scores that old and new rows correct: those of the frozen model, or of none, if there is none."""
        if contest.anchor is not None:
            return scores
        return np.full_like(scores, contest.centre if self.regression else 0.0)

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
        if len(newest.y) == PEAK_ROWS and height > self.peak:
            self.peak = height
            self._record(dataclasses.replace(drift, error_peak=max(drift.error_peak, self._error_of(newest))))
            drift = self.drifts[-1]
        usual, span = self.usual, self.span
        least = self.smallest_rise * span
        back = usual + max(least, 0.1 * (self.peak - usual))
        mean = float(losses.mean())
        long_enough = row - drift.detected_at_row >= LEAST_OPEN_ROWS and len(losses) >= RECOVERY_ROWS - PART
        if self.back is None and long_enough and mean <= back:
            took = max(row - len(losses), drift.detected_at_row + 1) - drift.row
            self.back = row - 1, took
            drift = dataclasses.replace(drift, error_after=self._error_of(recent), recovered_after_rows=took)
            self._record(drift)
        if self.back is not None:
            if self.contest is None or row - self.back[0] > SETTLED_ROWS:
                self._end(self.back[0], mean, {})
        elif row - drift.detected_at_row > STAYING_ROWS:
            self._end(row - 1, mean, {"error_after": self._error_of(recent)})

    def _end(self, row: int, mean: float, fields: dict[str, Any]) -> None:
        """End the open drift; nothing is said about it later."""
        drift = self.open
        assert drift is not None
        if drift.kind == "undecided":
            fields = fields | {"kind": "harm"}
        self._record(dataclasses.replace(drift, ended_at_row=row, **fields))
        self.contest, self.contests, self.anchors, self.old, self.back = None, 0, (), None, None
        self.start_over(float(RECOVERY_ROWS), mean)

    # -------------------------------------------------------------------- state

    def state(self) -> State:
        """Return everything that later steps depend on."""
        state: State = {
            "smallest_rise": self.smallest_rise,
            "drift_risk": self.drift_risk,
            "rows": self.rows,
            "contests": self.contests,
            "peak": self.peak,
            "back": json.dumps(self.back),
            "scan": np.frombuffer(self.values).copy(),
            "drifts": json.dumps([one.to_dict() for one in self.drifts]),
            "changes": json.dumps([dataclasses.asdict(one) for one in self.changes]),
            "means": self.means,
        }
        if self.marks_stop > self.first_mark:
            marks = self.memory.marks[self.first_mark : self.marks_stop]
            state |= nest("blocks", self._rows_state(marks, self.start, self.stop))
        if count := self.waiting_rows:
            state |= nest("waiting", self._rows_state(np.array([self.waiting_mark]), self.stop, self.stop + count))
        state |= nest("rise", dict(zip(RISE_NAMES, self.old_rise, strict=True)))
        for place, anchor in enumerate(self.anchors):
            state |= nest(f"anchor{place}", anchor_state(anchor))
        if self.old is not None:
            state |= nest("old", anchor_state(self.old))
        if self.contest is not None:
            state |= nest("contest", contest_state(self.contest, self.capitals))
        return state

    def from_state(
        self, state: Mapping[str, Any], strategy: Strategy, n_features: int, *, sparse: bool, dtype: str
    ) -> DriftMonitor:
        """Return the monitor that ``state()`` was called on."""
        known, rise = FIELDS.read(state), RISE.read(pick("rise", state))
        new = DriftMonitor(
            regression=self.regression, smallest_rise=known["smallest_rise"], drift_risk=known["drift_risk"]
        )
        new.rows, new.contests, new.peak = known["rows"], known["contests"], known["peak"]
        new.back, new.means, new.drifts, new.changes = (known[name] for name in ("back", "means", "drifts", "changes"))
        saved = [(name, blocks_from(pick(name, state), n_features, sparse, dtype)) for name in ("blocks", "waiting")]
        widths = (1 if one.scores.ndim == 1 else one.scores.shape[1] for _, blocks in saved for one in blocks)
        outputs = max(widths, default=1)
        for name, blocks in saved:
            for one in blocks:
                X, scores = one.X, one.scores if outputs == 1 else as_classes(one.scores, outputs)
                if isinstance(X, CSR):
                    new.parts, X = (*new.parts, (one.first_row, X)), no_columns(len(one.y))
                place = one.first_row, one.step, one.steps
                new.hold(*place, X, one.y, np.ascontiguousarray(scores), name == "blocks")
        anchors = [pick(f"anchor{place}", state) for place in range(ANCHORS)]
        new.anchors = tuple(anchor_from(one, strategy) for one in anchors if one)
        old, contest = pick("old", state), pick("contest", state)
        new.old = anchor_from(old, strategy) if old else None
        new.set_numbers(values=known["scan"], old_rise=[rise[name] for name in RISE_NAMES])
        if contest:
            new.contest, capitals = contest_from(contest, strategy)
            new.set_numbers(capitals=capitals)
            known_drifts = {-1, *(one.number for one in new.drifts)}
            if new.marks_stop == new.first_mark or new.contest.drift not in known_drifts:
                raise misfit(state, "contest", "has no rows or no drift that it is about")
            if new.contest.columns is not None and (new.contest.columns >= n_features).any():
                raise misfit(state, "contest", f"is about columns beyond the {n_features} of the rows")
        new.drifting = new.open is not None or (new.contest is not None and new.contest.drift >= 0)
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


def _taught(block: EvidenceBlock, around: Surroundings) -> Scorer | None:
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


def _log_mean(logarithms: FloatArray) -> FloatArray:
    """Return the logarithm of the mean of capitals along the first axis."""
    top = logarithms.max(axis=0)
    return np.asarray(top + np.log(np.mean(np.exp(logarithms - top), axis=0)))


def _evidence(number: int, highest: float) -> float:
    """Return the largest capital of a contest, divided by their number as the bound on false verdicts demands."""
    return float(min(math.exp(min(highest, 700.0)) / (SERIES * number**2), MOST_EVIDENCE))
