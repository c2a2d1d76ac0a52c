"""Drifts of the keys of a keyed run, from the predictions and labels that it has written.

The model of a key is judged by its own losses: a CUSUM notices that they may have risen, and a bet on the rows after
that proves it, as in :mod:`driftsurf.session.drift_monitor`. There a model that was frozen before the rise testifies;
here there is none, so that a key whose model adapts within a few rows shows no drift. The null hypothesis is that the
mean loss of a key's model stays what it was. With ``n`` keys that have enough rows, each may be reported with a
probability of ``drift_risk / n``, half of it for the bet, and half for the bound that earlier rows give for the usual
loss. So a run in which nothing changes at any key reports a drift with a probability of at most ``drift_risk``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray, IntArray
from driftsurf.core.drifts import DRIFT_RISK, MOST_EVIDENCE, SMALLEST_RISE, Drift, Drifts
from driftsurf.core.frames import html_table, new_frame
from driftsurf.core.numeric import log
from driftsurf.core.wording import agreeing, counted, in_words, optional
from driftsurf.native import maths
from driftsurf.native import monitor as scan
from driftsurf.native.monitor import CONTEST_ROWS, judge_models
from driftsurf.session.drift_monitor import PART, RECOVERY_ROWS, SERIES, STAYING_ROWS

if TYPE_CHECKING:
    import pandas as pd

LEAST_ROWS: Final = scan.LEAST_ROWS
"""Scored rows of a key before which it has no drift."""
NEW_MODEL: Final = frozenset({"switched", "replaced", "reset", "recalled"})
"""Kinds of transitions after which another model predicts."""
OWN_FAULT_ROWS = 100
"""A rise that begins within so many rows after the model was replaced is that of the new model, and no drift."""
LIMITS: Final = np.array(
    [
        *(scan.LEAST_ROWS, scan.LEAST_RARE, scan.RUN_LENGTH, scan.HALF_LIFE),
        *(scan.RARE, scan.NOT_RARE, CONTEST_ROWS),
    ]
)
NAMED = 5
"""Keys that a sentence names."""


class KeyDrifts(Drifts):
    """The drifts of all keys of a keyed run, in the order of the keys.

    Examples
    --------
    >>> drift = Drift(0, 350, 10, 371, "new rule", "error", 0.07, 0.5, 0.08, 90, 440, cause="unexamined")
    >>> drifts = KeyDrifts({"Oslo": Drifts([drift])}, n_keys=50, judged=48)
    >>> drifts.keys, len(drifts.of("Rome"))
    (('Oslo',), 0)
    >>> print(drifts.describe())
    1 of 50 keys drifted: Oslo.
    >>> print(KeyDrifts({}, n_keys=50, judged=48).verdict)
    No drift in 50 keys (2 of them have fewer than 200 scored rows, too few to tell).
    """

    def __init__(self, drifts: Mapping[Any, Drifts], n_keys: int, judged: int) -> None:
        self._of = {key: own for key, own in drifts.items() if len(own)}
        super().__init__(one for own in self._of.values() for one in own)
        self.n_keys = n_keys
        self.judged = judged
        """Keys with enough scored rows to be judged."""

    @property
    def keys(self) -> tuple[Any, ...]:
        """The keys that drifted."""
        return tuple(self._of)

    @property
    def drifting(self) -> tuple[Any, ...]:
        """The keys in which a drift goes on."""
        return tuple(key for key, own in self._of.items() if own.open is not None)

    def of(self, key: Any) -> Drifts:
        """Return the drifts of one key."""
        return self._of.get(key, Drifts())

    def items(self) -> Iterator[tuple[Any, Drift]]:
        """Yield each drift with its key."""
        return ((key, one) for key, own in self._of.items() for one in own)

    def __repr__(self) -> str:
        return f"<KeyDrifts: {len(self)} in {len(self.keys)} of {self.n_keys} keys>"

    def describe(self) -> str:
        """Return how many keys drifted, and their names; "" without any."""
        if not self._of:
            return ""
        now = optional(self.drifting, f", {len(self.drifting):,} of them now")
        names = in_words(self.keys, most=NAMED)
        return f"{len(self.keys):,} of {counted(self.n_keys, 'key')} drifted{now}: {names}."

    @property
    def verdict(self) -> str:
        """Whether any key drifted, and how many cannot be judged."""
        few = self.n_keys - self.judged
        note = f"{few:,} of them {agreeing(few, 'has', 'have')} fewer than {LEAST_ROWS} scored rows, too few to tell"
        told = self.describe() or f"No drift in {counted(self.n_keys, 'key')}."
        if not few:
            return told
        return f"{told} {note[0].upper()}{note[1:]}." if self._of else f"{told[:-1]} ({note})."

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame with a row for each drift: its key, and its fields (extra ``pandas``)."""
        named = list(self.items())
        columns = {one.name: [getattr(drift, one.name) for _, drift in named] for one in fields(Drift)}
        return new_frame({"key": [key for key, _ in named], **columns}, "to_frame()")

    def _repr_html_(self) -> str:
        """Return a table, for notebooks."""
        return f"<p>{self.verdict}</p>" if not self._of else html_table(DRIFT_HEADS, drift_lines(self))


DRIFT_HEADS: Final = "key", "from row", "at", "error before", "peak", "after", "rows to recover", "kind"
"""Heads of a table of the drifts of keys."""


def drift_lines(drifts: KeyDrifts) -> list[tuple[str, ...]]:
    """Return the lines of a table of the drifts of keys, the newest of each key last."""
    return [
        (
            str(key),
            f"{one.row:,}",
            one.time or "",
            one.error_text(one.error_before),
            one.error_text(one.error_peak),
            "not back yet" if one.error_after is None else one.error_text(one.error_after),
            "" if one.recovered_after_rows is None else f"{one.recovered_after_rows:,}",
            one.kind,
        )
        for key, one in drifts.items()
    ]


def _new_values(n_keys: int) -> FloatArray:
    values = np.zeros((n_keys, scan.JUDGED))
    values[:, [scan.LOW, scan.HIGH, scan.RANGE]] = 1.0
    values[:, [scan.SPREAD, scan.SPREADS, scan.NEAR, scan.NEARS]] = 2.0
    values[:, scan.LABELS : scan.OTHERS] = -1.0
    return values


def _needed(n_keys: int, drift_risk: float) -> float:
    """Return the logarithm of the capital that proves harm, before what the number of the contest adds.

    Half of the risk is that of the bet, half that the usual loss was higher than the bound that its rows give.
    """
    return maths.log(2 * max(n_keys, 1) / drift_risk)


class RunningDrifts:
    """Finds the keys that drifted, part by part of a table of predictions; a key takes a few dozen numbers.

    Parameters
    ----------
    n_keys
        Keys that are judged.
    regression
        Whether labels are numbers; else they are codes of classes.
    """

    def __init__(
        self, n_keys: int, regression: bool, smallest_rise: float = SMALLEST_RISE, drift_risk: float = DRIFT_RISK
    ) -> None:
        self.regression = regression
        self.smallest_rise = smallest_rise
        self._needed = _needed(n_keys, drift_risk)
        self._values = _new_values(n_keys)

    def add(self, key: IntArray, sequence: IntArray, predicted: npt.NDArray[Any], true: npt.NDArray[Any]) -> None:
        """Add the scored rows of a part: codes of keys, and numbers or codes of classes."""
        order = np.lexsort((sequence, key))
        own = key[order]
        if not len(own):
            return
        ends = np.flatnonzero(np.append(own[1:] != own[:-1], True))
        rows = predicted[order].astype(np.float64), true[order].astype(np.float64)
        rise = self.smallest_rise
        judge_models(own[ends], ends + 1, *rows, self._values, LIMITS, self.regression, self._needed, rise)

    def drifted(self) -> IntArray:
        """Return the codes of the keys that drifted at least once."""
        return np.flatnonzero(self._values[:, scan.PROVEN])


@dataclass(frozen=True)
class JudgedRows:
    """The rows of one key whose true label is known, and when its model was replaced."""

    predicted: npt.NDArray[Any]
    true: npt.NDArray[Any]
    scored: IntArray
    """The rows that were predicted."""
    steps: IntArray
    """The first row after each time step."""
    replaced: IntArray
    """The first row after each time step in which another model took over."""
    time_of: Callable[[int], str]
    """Returns what is shown as the time of a row."""


def drifts_of_key(
    rows: JudgedRows,
    n_keys: int,
    *,
    regression: bool,
    smallest_rise: float = SMALLEST_RISE,
    drift_risk: float = DRIFT_RISK,
) -> Drifts:
    """Return the drifts of one of ``n_keys`` judged keys, a function of its rows in their order.

    The kind is "new rule" if another model took over after the beginning and the error came back near its usual level,
    else "harm". A rise that begins right after the model was replaced is no drift.
    """
    predicted, true = rows.predicted[rows.scored].astype(np.float64), rows.true[rows.scored].astype(np.float64)
    shown = np.abs(predicted - true)
    values, at, found = _new_values(1), 0, list[Drift]()
    needed, owner = _needed(n_keys, drift_risk), np.zeros(1, np.int64)
    while at < len(true):
        stop = np.array([len(true) - at])
        judge_models(owner, stop, predicted[at:], true[at:], values, LIMITS, regression, needed, smallest_rise)
        v = values[0]
        proven = int(v[scan.PROVEN]) - 1
        if proven < 0:
            break
        losses = _losses(v, predicted, true, regression)
        begin = at + _beginning(losses[at : proven + 1], float(v[scan.MEAN]))
        peak = float(losses[begin : proven + 1].mean())
        least = smallest_rise * float(v[scan.RANGE])
        end, recovered = _end(losses, begin, proven, float(v[scan.MEAN]), peak, least)
        recent = slice(begin if end is None else max(proven + 1, end - RECOVERY_ROWS), end)
        if regression:
            before, highest, after = (
                float(one.mean()) if len(one) else math.nan
                for one in (shown[max(at, begin - 1000) : begin], shown[begin : proven + 1], shown[recent])
            )
        else:
            before, highest, after = (one / v[scan.RANGE] for one in (v[scan.MEAN], peak, losses[recent].mean()))
        row = int(rows.scored[begin])
        last_row = int(rows.scored[(end or len(true)) - 1])
        own_fault = ((rows.replaced <= row) & (rows.replaced > row - OWN_FAULT_ROWS)).any()
        another = ((rows.replaced > row) & (rows.replaced <= last_row)).any()
        if not own_fault:
            metric = "mean absolute error" if regression else "balanced error" if v[scan.RANGE] < 1.0 else "error"
            found.append(
                Drift(
                    len(found) + 1,
                    row=row,
                    step=int(np.searchsorted(rows.steps, row, side="right")),
                    detected_at_row=int(rows.scored[proven]),
                    kind="new rule" if another and recovered is not None else "harm",
                    metric=metric,
                    error_before=float(before),
                    error_peak=float(highest),
                    error_after=None if end is None else float(after),
                    recovered_after_rows=recovered,
                    ended_at_row=None if end is None else last_row,
                    evidence=_evidence(v, n_keys),
                    cause="unexamined",
                    time=rows.time_of(row),
                )
            )
        if end is None:
            break
        at = end
        _restart(v, end, float(losses[recent].mean()))
    return Drifts(found)


def _losses(v: FloatArray, predicted: FloatArray, true: FloatArray, regression: bool) -> FloatArray:
    """Return the losses of rows from 0 to 1, with the weights or the unit of the values."""
    if regression:
        return np.asarray(np.minimum(np.abs(predicted - true) / v[scan.SCALE], 1.0))
    return np.where(predicted != true, np.where(true == v[scan.LABELS], v[scan.LOW], v[scan.HIGH]), 0.0)


def _beginning(losses: FloatArray, usual: float) -> int:
    """Return the row from which on the losses, to the end, are most likely to have risen, to whatever level."""
    usual = min(max(usual, 1e-4), 0.98)
    rows = np.arange(1, len(losses) + 1)
    level = np.clip(np.cumsum(losses[::-1]) / rows, usual, 0.99)
    gains = rows * (level * log(level / usual) + (1.0 - level) * log((1.0 - level) / (1.0 - usual)))
    return len(losses) - 1 - int(gains.argmax())


def _end(
    losses: FloatArray, begin: int, proven: int, usual: float, peak: float, least: float
) -> tuple[int | None, int | None]:
    """Return the row after a drift, None while it goes on, and the rows until it recovered, None if it has not.

    It is over when the mean loss of some hundred rows is back near the usual one, or stays elsewhere.
    """
    back = usual + max(least, 0.15 * (peak - usual))
    sums = np.append(0.0, np.cumsum(losses))
    # Rows before the proof have the peak, which would raise the mean, or, if it is short, vanish in it.
    for row in range(proven + 1 + RECOVERY_ROWS - PART, len(losses) + 1, PART):
        start = max(proven + 1, row - RECOVERY_ROWS)
        if (sums[row] - sums[start]) / (row - start) <= back:
            return row, start - begin
        if row - proven > STAYING_ROWS:
            return row, None
    return None, None


def _evidence(v: FloatArray, n_keys: int) -> float:
    """Return the largest capital, divided by the numbers of keys and contests as the bound demands."""
    capital = maths.exp(min(float(v[scan.HIGHEST]), 700.0))
    return min(capital / (SERIES * float(v[scan.CONTESTS]) ** 2 * 2 * n_keys), MOST_EVIDENCE)


def _restart(v: FloatArray, row: int, mean: float) -> None:
    """Measure the usual loss anew after a drift, beginning with its mean over the last rows."""
    v[scan.SQUARES] *= (mean / v[scan.MEAN]) ** 2 if v[scan.MEAN] > 0.0 else 0.0
    v[[scan.WEIGHT, scan.MEAN, scan.ROW]] = RECOVERY_ROWS, mean, row
    v[[scan.BLOCK, scan.BLOCK_SUM, scan.CONTEST, scan.CONTESTS, scan.PROVEN]] = 0.0
    v[scan.PART : scan.CAPITALS] = 0.0
    v[scan.RUN : scan.NEAR] = 0.0
    v[scan.CUSUM : scan.SINCE] = 0.0


def replaced_rows(sequence: IntArray, journal: Sequence[tuple[int, str]]) -> tuple[IntArray, IntArray]:
    """Return the first row after each time step, and after each one in which another model took over.

    ``journal`` has the last sequence number of each time step, and the kinds of its transitions.

    >>> replaced_rows(np.array([1, 2, 3, 4, 5]), [(2, ""), (4, "entered,switched")])
    (array([2, 4]), array([4]))
    """
    ends = np.searchsorted(sequence, [at for at, _ in journal], side="right").astype(np.int64)
    new = [bool(NEW_MODEL.intersection(kinds.split(","))) for _, kinds in journal]
    return ends, ends[np.array(new, np.bool_)]
