"""Contests of frozen models with what knows the new rows, which prove harm and its kind."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from driftsurf.core import functions
from driftsurf.core.abilities import SnapshotScoring, abilities_of
from driftsurf.core.contracts import CSR, Batch, FloatArray, take_rows
from driftsurf.core.drifts import (
    MOST_EVIDENCE,
    Drift,
    Drifts,
)
from driftsurf.core.values import replace
from driftsurf.native import maths
from driftsurf.native import monitor as scan
from driftsurf.native.monitor import (
    HALF_LIFE,
    LONGEST,
    MOST_ROWS,
    RUN_LENGTH,
    bet_on_losses,
    scan_losses,
)
from driftsurf.session.correction import Correction, narrowed, telling_columns
from driftsurf.session.drift_causes import BEFORE_ROWS, CAUSE_ROWS, MOST_DRIFTS, PEAK_ROWS, Causes
from driftsurf.session.drift_evidence import (
    LEAST_CHECKED,
    Anchor,
    Block,
    Contest,
    Rise,
    Scorer,
    Surroundings,
    log_odds,
    take_block,
)
from driftsurf.strategies.frozen import can_freeze

PART = 50
"""Rows after which a drift is looked at again; ``BET_ROWS`` in long steps, between which the model does not change."""

ANCHORS = 3
"""Frozen models that are held."""

OLD_ROWS, CHECKED_ROWS = 4_000, 300
"""Rows after which a frozen model is replaced that is compared with the usual loss from time to time, since a model
that learns a new rule within some rows shows no rise; and rows of such a comparison."""

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

RECOVERY_ROWS = 300
"""Rows whose mean error shows whether a model has recovered."""

SETTLED_ROWS = 1_500
"""Rows after a recovery in which the kind and the cause of a drift may still be found."""

STAYING_ROWS = 3_000
"""Rows after which an error that has not come back is the new usual one."""

SERIES = math.pi**2 / 6.0

TAUGHT_ROWS = 100
"""Rows of a step of a fresh model."""


class Contests(Causes):
    """Judges frozen models row by row, from a sign of a drift to its end."""

    drifts: Drifts
    drift_risk: float
    _anchors: tuple[Anchor, ...]
    _old: Anchor | None
    """An older frozen model, ..."""
    _rise: Rise
    """... and whether its losses have risen."""
    _contests: int
    _peak: float
    """Highest mean loss of the open drift."""
    _back: tuple[int, int] | None
    """When the model had recovered from the open drift: the row, and the rows from the beginning until then."""

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
                at += self._bet_on_harm(contest, take_block(block, at, count) if at else block, around)
                continue
            part = take_block(block, at, min(count, at + (PART if count < 2 * BET_ROWS else BET_ROWS)))
            at += len(part.y)
            if contest is not None:
                self._bet_on_lead(contest, part, around)
            if self.open is not None:
                self._follow(first + at)

    def _check_old(self) -> bool:
        """Compare the older frozen model with the usual loss; return whether that is a sign of drift."""
        if self._old is None or self._contest is not None or self.open is not None:
            return False
        recent = self._rows_between(max(self.rows - CHECKED_ROWS, self._old.row), self.rows)
        if len(recent.y) < CHECKED_ROWS or self._scan[scan.WEIGHT] < max(self._least_rows, OLD_ROWS / 2):
            return False
        scores = self._old.scorer(recent.X)
        mode, scores = self._mode(recent.y, scores if self.regression else log_odds(scores))
        gains, lost, bar = scan.check_losses(scores, recent.y, self._scan, mode)
        cusum, rows = self._rise.cusum + gains, self._rise.rows + len(recent.y)
        total = self._rise.total + lost * self._unit
        if cusum > 0.0:
            self._rise = Rise(cusum, self._rise.since, rows, total)
        else:
            self._old = replace(self._old, rows=self._old.rows + rows, total=self._old.total + total)
            self._rise = Rise(since=self.rows)
        return cusum > bar

    def _restart(self, weight: float, mean: float) -> None:
        """Measure the usual loss anew, beginning with a mean over some rows."""
        values = self._scan
        ratio = mean / values[scan.MEAN] if values[scan.MEAN] > 0.0 else 0.0
        values[[scan.SQUARES, scan.SECOND]] *= ratio**2 if self.regression else ratio, ratio
        values[[scan.WEIGHT, scan.MEAN, scan.BLOCK, scan.BLOCK_SUM]] = weight, mean, 0.0, 0.0
        values[scan.CUSUM : scan.SINCE] = 0.0
        values[scan.SINCE : scan.CLASS] = self.rows

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
                losses = self._losses(past.y, scores if self.regression else log_odds(scores))
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
        if len(block.y) > BET_ROWS:
            block = take_block(block, 0, BET_ROWS)
        losses = self._centred(block.y, self._losses(block.y, self._scored(contest, block)))
        needed = maths.log(SERIES * contest.number**2 / self.drift_risk)
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
            gains = np.cumsum(functions.log1p(stake * (losses - usual))[::-1])
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
            differences[2] = frozen - self._losses(part.y, fresh if self.regression else log_odds(fresh))
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


def _log_mean(logarithms: FloatArray) -> FloatArray:
    """Return the logarithm of the mean of capitals along the first axis."""
    top = logarithms.max(axis=0)
    return np.asarray(top + np.log(np.mean(np.exp(logarithms - top), axis=0)))


def _evidence(contest: Contest) -> float:
    """Return the largest capital, divided by the number of contests as the bound on false verdicts demands."""
    return float(min(math.exp(min(contest.highest, 700.0)) / (SERIES * contest.number**2), MOST_EVIDENCE))
