"""The model that all keys of a run share, and the rows of keys as they see them: scaled, beside what it predicts.

The shared model learns rows in the order in which they come, in time steps of ``STEP_ROWS`` rows, and predicts each row
before it learns its step. So what a key is given for a row depends on the rows before it alone, whatever the epochs.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.changes import replace
from driftsurf.core.contracts import DenseRows, FloatArray, IntArray, State
from driftsurf.core.drifts import Drifts
from driftsurf.core.fields import Array, Fields, Json, Text, Whole, misfit
from driftsurf.core.options import choice
from driftsurf.core.state import from_bytes, nest, pick, to_bytes
from driftsurf.core.targets import ClassTargets, RegressionTargets
from driftsurf.data.encoding import TableEncoder
from driftsurf.data.tables import Table
from driftsurf.errors import InputError
from driftsurf.keyed.options import SHARED_MODELS, Share
from driftsurf.keyed.quarantine import Fault, label_fault
from driftsurf.keyed.results import KeySummary, Visit
from driftsurf.keyed.visit import KeyedLearner, read_summary
from driftsurf.native.difference import Differences
from driftsurf.session.drift_monitor import DriftMonitor
from driftsurf.session.model_names import make_strategy
from driftsurf.session.session import Session

STEP_ROWS = 200
"""Rows of all keys that make a time step of the shared model."""
WIDTHS = 0.1, 0.3, 1.0
"""How large the weights of a key's differences may be, of which its rows decide."""
FORGET, RECALL = 0.995, 0.995
UNKNOWN = -1e300
"""Score of a class that the shared model did not know."""
CHUNK = 4096
"""Rows that are scaled together; the result does not depend on it."""
KEPT_ROWS = 20_000
"""Latest rows of which the shared model keeps the key and the error, to tell which keys a drift hits."""
ROWS_BEFORE, LEAST_OF_KEY = 5_000, 5
"""Rows before a drift that count as usual, and rows of a key on both sides of it without which it is not judged."""
FADING = 0.99
"""Share of the record of errors of a shared regression that remains after a time step."""


@dataclass(frozen=True, kw_only=True)
class SharingLearner(KeyedLearner):
    """How keys learn that share a model: each learns how it differs from the model of all keys.

    Parameters
    ----------
    share
        The shared model: "default", "light" or "linear".

    Examples
    --------
    >>> from driftsurf.keyed import KeyedOptions
    >>> learner = KeyedOptions(share="linear").learner(["price"])
    >>> learner.about()["share"]
    'linear'
    """

    share: Share = "default"

    def check(self) -> None:
        """Raise OptionError if an option cannot be used."""
        super().check()
        choice("share", self.share, tuple(SHARED_MODELS))

    def about(self) -> dict[str, Any]:
        """Return all that a saved key depends on, as plain values that a run folder keeps and compares."""
        return super().about() | {"share": self.share}

    def read_key(self, state: bytes) -> tuple[KeySummary, npt.NDArray[np.float32], int]:
        """Return the summary of a saved key, what it has learned, and for how many scores."""
        saved = from_bytes(state)
        self.check_digest(saved)
        known = KEY.read(saved)
        key, outputs = np.array(known["difference"]), known["outputs"]
        if len(key) != self.differences(outputs).size:
            raise misfit(saved, "difference", f"must have {self.differences(outputs).size} numbers")
        return replace(known["summary"], bytes=key.nbytes), key, outputs

    def expire(self, key: Any, state: bytes) -> Visit:
        """Drop a key that has been silent for too long; if it comes again, it starts over."""
        return dataclasses.replace(super().expire(key, state), alone=[])

    def summary(self, state: bytes) -> KeySummary:
        """Return the summary of the key with this state."""
        return self.read_key(state)[0]

    @functools.cached_property
    def task(self) -> str:
        """What is predicted, as in the option of this name."""
        if self.regression:
            return "regression"
        return "multiclass" if self.classes is not None and len(self.classes) > 2 else "binary"

    @functools.cached_property
    def two_named(self) -> bool:
        """Whether two classes are named, so that there is never a third one."""
        return not self.regression and self.classes is not None and len(set(self.classes)) == 2

    def outputs(self, n_classes: int) -> int:
        """Return how many scores a key corrects if so many classes are known."""
        return 1 if self.regression or self.two_named else max(2, n_classes)

    def differences(self, outputs: int) -> Differences:
        """Return the sizes and the loop of keys with so many scores."""
        return Differences(len(self.features), outputs, self.regression, WIDTHS, FORGET, RECALL)


class ColumnScales:
    """Centres and sizes of columns over all rows so far, by which rows are scaled as they come.

    >>> ColumnScales(1).scaled(np.array([[1.0], [3.0], [np.nan], [2.0]])).ravel()
    array([ 0.,  1., nan,  0.])
    """

    def __init__(self, columns: int) -> None:
        self.totals: FloatArray = np.zeros((4, columns))
        """The first value of each column, the number of values, and the sums of distances to the first value and of
        their squares."""

    def scaled(self, X: DenseRows, counted: npt.NDArray[np.bool_] | None = None) -> FloatArray:
        """Return rows scaled by all values up to each row, NaN for what is missing; all rows are counted, or some."""
        out = np.empty(X.shape)
        counts = np.ones(len(X), np.bool_) if counted is None else counted
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for start in range(0, len(X), CHUNK):
                chosen = slice(start, start + CHUNK)
                out[chosen] = self._scaled(X[chosen], counts[chosen])
        return out

    def _scaled(self, X: DenseRows, counted: npt.NDArray[np.bool_]) -> FloatArray:
        there = np.isfinite(X) & counted[:, np.newaxis]
        first, count, total, squares = self.totals
        begins = X[there.argmax(axis=0), np.arange(X.shape[1])]
        first = np.where((count == 0) & there.any(axis=0), begins, first)
        finite = np.isfinite(X)
        own = np.where(finite, X - first, 0.0)
        away = np.where(there, own, 0.0)
        counts, totals, sums = (
            np.cumsum(np.vstack([before, now]), axis=0)[1:]
            for before, now in ((count, there), (total, away), (squares, away * away))
        )
        mean = totals / np.maximum(counts, 1.0)
        variance = sums / np.maximum(counts, 1.0) - mean * mean
        size = np.sqrt(np.where(variance > 1e-12 * mean * mean, variance, np.inf))  # a constant column counts as 0
        self.totals = np.stack([first, counts[-1], totals[-1], sums[-1]])
        return np.where(finite, (own - mean) / size, np.nan)


class SharedModel:
    """The model that all keys share, with the columns that it sees.

    Parameters
    ----------
    learner
        How keys learn.
    key
        The name of the column of keys, which the model sees as words.
    hidden
        Columns that it does not see.
    """

    def __init__(self, learner: SharingLearner, key: str, hidden: Collection[str] = ()) -> None:
        self._learner = learner
        self._hidden = frozenset(hidden)
        self._encoder = TableEncoder(categorical=(key,))
        self._scales = ColumnScales(len(learner.features))
        strategy = make_strategy(SHARED_MODELS[learner.share], None, learner.task)  # type: ignore[arg-type]
        self._session = Session(
            strategy.fresh(learner.seed),
            classes=learner.classes,
            batch_size=STEP_ROWS,
            owner="the shared model",
            categories=lambda: self._encoder.categories(),
            names=lambda: self._encoder.feature_names(),
            monitor=DriftMonitor(regression=learner.regression),
        )
        self._keys, self._losses = np.zeros(0, np.int64), np.zeros(0)
        """Keys and errors of the latest rows that were learned."""
        self._hit: dict[str, list[int]] = {}
        """For each drift, at how many keys the error rose, and how many could be judged."""
        self._errors = np.zeros(2)
        """Of a regression, how many errors were recorded, and the sum of their squares."""

    @property
    def labels(self) -> tuple[Any, ...]:
        """The classes so far, by their codes."""
        return tuple(self._session.targets.labels)

    @property
    def outputs(self) -> int:
        """How many scores of a row a key corrects."""
        return self._learner.outputs(len(self.labels))

    @property
    def drifts(self) -> Drifts:
        """The drifts of the shared model, whose rows are those that it has learned, in the order of the source."""
        return self._session.drifts

    @property
    def rows_learned(self) -> int:
        """How many rows the model has been given to learn."""
        return self._session.steps * STEP_ROWS + self._session.rows_pending

    # -------------------------------------------------------------------- labels

    def label_faults(self, words: Sequence[Any], sequence: int = 0) -> dict[int, Fault]:
        """Return which labels cannot be learned, by their places, and why."""
        faults: dict[int, Fault] = {}
        known = self._session.targets
        for place, word in enumerate(words):
            try:
                known, _ = known.read([word], 1)
            except InputError as error:
                faults[place] = label_fault(error, word, [sequence])
        return faults

    def codes(self, words: Sequence[Any]) -> FloatArray:
        """Return the code of each label, or its number; NaN for one that was never learned."""
        if isinstance(self._session.targets, RegressionTargets):
            return np.array([_number(word) for word in words])
        codes = {label: code for code, label in enumerate(self.labels)}
        return np.array([codes.get(word, np.nan) for word in words], np.float64)

    # -------------------------------------------------------------------- rows

    def scaled(self, X: DenseRows, counted: npt.NDArray[np.bool_]) -> FloatArray:
        """Return the columns of keys in usual sizes, to which some of these rows count."""
        return self._scales.scaled(X, counted)

    def encoded(self, table: Table) -> Any:
        """Return the rows of a table as the model sees them; the first table fixes how."""
        seen = table.without(*[name for name in self._hidden if name in table.columns])
        encoder = self._encoder if self._encoder.fitted else self._encoder.fit(seen)
        return encoder.transform(seen)

    def observe(
        self, X: Any, y: Sequence[Any], learned: npt.NDArray[np.bool_], keys: IntArray | None = None
    ) -> FloatArray:
        """Predict rows, and learn some of them; return what was predicted before each was learned.

        ``keys`` are numbers of the keys of rows, by which the keys are counted that a drift hits. What is returned are
        the log-odds of the second of two named classes, log-probabilities of classes, or numbers and the usual size of
        their errors. They are NaN before the first time step, unless classes are named.
        """
        labels = np.empty(len(y), np.object_)
        labels[:] = y
        places = np.flatnonzero(learned)
        found: list[FloatArray] = []
        self._keys = np.append(self._keys, (np.zeros(len(y), np.int64) if keys is None else keys)[learned])
        start = begun = 0
        while start < len(y):
            room = STEP_ROWS - self._session.rows_pending
            ends = begun + room <= len(places)
            stop = int(places[begun + room - 1]) + 1 if ends else len(y)
            found.append(self._piece(X[start:stop], labels[start:stop], learned[start:stop]))
            start, begun = stop, begun + room
        self._count_hit()
        self._keys, self._losses = self._keys[-KEPT_ROWS:], self._losses[-KEPT_ROWS:]
        return self._joined(found)

    def _count_hit(self) -> None:
        """Count the keys that the drifts of the latest rows hit."""
        base = self.rows_learned - len(self._losses)
        for drift in self.drifts:
            first = drift.row - base
            over = max(drift.detected_at_row, drift.row + (drift.recovered_after_rows or 0)) - base
            if first > 0:
                before, after = (
                    self._errors_by_key(max(0, first - ROWS_BEFORE), first),
                    self._errors_by_key(first, over),
                )
                both = before.keys() & after.keys()
                middle = 0.5 * (1.0 + drift.error_peak / drift.error_before) if drift.error_before else 1.0
                power = 2 if self._learner.regression else 1  # errors of numbers are squared, and a drift has the root
                usual = float(np.nanmean(self._losses[max(0, first - ROWS_BEFORE) : first]))
                rise = usual * (middle**power - 1.0)
                hit = sum(_rose(before[key], after[key], rise) for key in both)
                self._hit[str(drift.number)] = [int(hit), len(both)]

    def _errors_by_key(self, start: int, stop: int) -> dict[int, tuple[int, float, float]]:
        """Return rows, mean error and its variance of each key that has enough of these rows."""
        losses = self._losses[start:stop]
        known = ~np.isnan(losses)
        keys, codes = np.unique(self._keys[start:stop][known], return_inverse=True)
        counts = np.bincount(codes, minlength=len(keys))
        means, squares = (np.bincount(codes, losses[known] ** power, len(keys)) / counts for power in (1, 2))
        return {
            key: (int(counts[k]), float(means[k]), float(squares[k] - means[k] ** 2))
            for k, key in enumerate(keys.tolist())
            if counts[k] >= LEAST_OF_KEY
        }

    def report(self) -> dict[str, Any]:
        """Return what the shared model is, its drifts in words, and how many keys each hit, as plain values."""
        told = [
            {
                "row": drift.row,
                "detected_at_row": drift.detected_at_row,
                "open": drift is self.drifts.open,
                "sentence": drift.describe(),
                "keys_hit": self._hit.get(str(drift.number), [0, 0])[0],
                "keys_judged": self._hit.get(str(drift.number), [0, 0])[1],
            }
            for drift in self.drifts
        ]
        return {"model": SHARED_MODELS[self._learner.share], "rows": self.rows_learned, "drifts": told}

    def _piece(self, X: Any, y: npt.NDArray[Any], learned: npt.NDArray[np.bool_]) -> FloatArray:
        """Predict the rows of one time step or a part of it, with the model before it, and learn those that are due."""
        session = self._session
        targets = session.targets
        can_predict = session.steps > 0 or (isinstance(targets, ClassTargets) and targets.closed)
        rest = ~learned
        parts: list[tuple[npt.NDArray[np.bool_], FloatArray]] = []
        if rest.any() and can_predict and session.schema is not None:
            parts.append((rest, np.asarray(session.scores(X[np.flatnonzero(rest)]))))
        size = self._error_size
        if learned.any():
            seen = session.observe(X[np.flatnonzero(learned)], y[learned].tolist(), decided=False)
            losses = seen.squared_errors() if self._learner.regression else seen.predicted != seen.true
            self._losses = np.append(self._losses, losses if can_predict else np.full(len(losses), np.nan))
            if can_predict:
                parts.append((learned, np.asarray(seen.scores)))
                if self._learner.regression:
                    missed = np.asarray(seen.true, np.float64) - np.asarray(seen.scores)
                    self._errors = FADING * self._errors + (len(missed), float(missed @ missed))
        width = max([2, *(own.shape[1] for _, own in parts if own.ndim == 2)])
        out = np.full((len(y), 1 if self._learner.two_named else width), np.nan)
        for rows, own in parts:
            out[rows] = self._shaped(own, size, out.shape[1])
        return out

    @property
    def _error_size(self) -> float:
        count, squares = self._errors.tolist()
        return float(np.sqrt(squares / count)) if count and squares > 0.0 else 1.0

    def _shaped(self, scores: FloatArray, size: float, width: int) -> FloatArray:
        """Return scores as keys take them."""
        if self._learner.regression:
            return np.column_stack([scores.reshape(len(scores)), np.full(len(scores), size)])
        if scores.ndim == 1:
            scores = np.column_stack([np.zeros(len(scores)), scores])
        scores = np.where(np.isfinite(scores), scores, UNKNOWN)
        if self._learner.two_named:
            return (scores[:, 1] - scores[:, 0])[:, np.newaxis]
        return np.column_stack([scores, np.full((len(scores), width - scores.shape[1]), UNKNOWN)])

    def _joined(self, parts: Sequence[FloatArray]) -> FloatArray:
        width = 2 if self._learner.regression else self.outputs
        return np.concatenate([widened(part, width) for part in parts]) if parts else np.zeros((0, width))

    # -------------------------------------------------------------------- state

    def to_bytes(self) -> bytes:
        """Return everything that decides what comes next."""
        encoder = self._encoder.state() if self._encoder.fitted else {}
        own: State = {
            "scales": self._scales.totals,
            "errors": self._errors,
            "keys": self._keys,
            "losses": self._losses.astype(np.float32),
            "hit": json.dumps(self._hit),
        }
        return to_bytes(own | nest("encoder", encoder) | nest("session", self._session.state()))

    def restore(self, data: bytes) -> None:
        """Continue from what ``to_bytes`` returned."""
        saved = from_bytes(data)
        known = FIELDS.read(saved, columns=len(self._learner.features))
        encoder = pick("encoder", saved)
        if encoder:
            self._encoder = TableEncoder.from_state(encoder)
        self._session.restore(pick("session", saved))
        self._scales.totals, self._errors = np.array(known["scales"]), np.array(known["errors"])
        self._keys, self._losses, self._hit = known["keys"], known["losses"].astype(np.float64), known["hit"]


FIELDS = Fields(
    {
        "scales": Array(np.float64, (4, "columns"), missing=True),
        "errors": Array(np.float64, (2,)),
        "keys": Array(np.int64, ("rows",)),
        "losses": Array(np.float32, ("rows",), missing=True),
        "hit": Json(dict),
    },
    parts=["encoder", "session"],
)
"""Saved entries of a shared model."""


KEY = Fields(
    {
        "keyed": Text(),
        "summary": Json(read_summary),
        "difference": Array(np.float32, ("*",)),
        "outputs": Whole(least=1, most=2**16),
    }
)
"""Saved entries of a key that shares a model."""


def _rose(before: tuple[int, float, float], after: tuple[int, float, float], rise: float) -> bool:
    """Return whether an error rose by more than so much, and by two standard errors."""
    (n, mean, spread), (m, newer, wider) = before, after
    error = math.sqrt((spread + 1.0 / n) / n + (wider + 1.0 / m) / m)
    return newer - mean > max(rise, 2.0 * error)


def widened(scores: FloatArray, width: int) -> FloatArray:
    """Return scores with more classes, which were unknown; rows without scores have none."""
    missing = width - scores.shape[1]
    if missing <= 0:
        return scores
    rest = np.where(np.isnan(scores[:, :1]), np.nan, UNKNOWN)
    return np.hstack([scores, np.repeat(rest, missing, axis=1)])


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")
