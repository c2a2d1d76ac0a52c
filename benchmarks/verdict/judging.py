"""Let a model learn a stream, and note what it reported, what happened to its error, and what the detectors said."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks.verdict.models import build
from benchmarks.verdict.streams import GRADUAL, Made, compare_errors
from driftsurf.core.contracts import FloatArray
from driftsurf.detectors import ADWIN, DDM, PageHinkley

__all__ = ["DETECTORS", "Task", "judged"]

FIRST = 200
"""Rows that are learned at once before rows are predicted; a larger batch is learned as it is."""
WINDOW = 2_000
"""Rows over which the error of a model is measured around a change."""
CURVE, SMOOTH = 1_000, 200
"""Rows of the error curve before a verdict, and rows over which its peak after it is averaged."""
STEEP = 3.0
"""Times the usual error beyond which an absolute error is 1 for the detectors, which accept errors from 0 to 1."""
DETECTORS: Mapping[str, Callable[[], Any]] = {"ADWIN": ADWIN, "DDM": DDM, "Page-Hinkley": PageHinkley}
"""The detectors that see the same errors, with their usual settings."""
LONG = {"balanced error": 10}
"""Times that windows are longer for some metrics, because rare rows count."""


@dataclass(frozen=True, order=True)
class Task:
    """One stream and one model; its fields identify a result, whatever the code."""

    part: str
    kind: str
    family: str
    batch: int
    model: str
    seed: int
    rows: int

    @property
    def key(self) -> str:
        """What identifies the result."""
        return "/".join(str(value) for value in asdict(self).values())


def judged(task: Task, made: Made) -> dict[str, Any]:
    """Return everything that is known after a stream, as plain values."""
    start, watched = time.process_time(), _Watched(task, made)
    while watched.row < made.n_rows:
        watched.step()
    errors = watched.errors()
    window = WINDOW * LONG.get(made.metric, 1)
    first, last = watched.first, made.n_rows
    edge = made.change_row if made.change_row is not None else last - window
    before = slice(max(first + (edge - first) // 2, edge - window), edge)
    record: dict[str, Any] = asdict(task) | {
        "metric": made.metric,
        "change_rows": list(made.change_rows),
        "true_rise": made.true_rise,
        "true_needed": _finite(made.rows_needed),
        "columns": list(made.columns),
        "changed_class": made.changed_class,
        "error": float(errors[first:].mean()),
        "before": float(errors[before].mean()),
        "peak": watched.curve(errors, edge)["curve_peak"],
        "last": float(errors[-window:].mean()),
        "drifts": watched.reports,
        "inputs": [one.row for one in watched.model.changes_],
        "signals": {name: _signals(detector(), errors, first, task.batch) for name, detector in DETECTORS.items()},
        "seconds": time.process_time() - start,
    }
    if watched.frozen is not None and made.change_row is not None:
        old = made.y[before], watched.predicted[before]
        own_before, own_after, needed = compare_errors(made.metric, old, (watched.frozen_labels, watched.frozen))
        record |= {"own_before": own_before, "own_after": own_after, "own_needed": _finite(needed)}
    return record


class _Watched:
    """A model in service: predicts each batch, learns it, and is asked for its drifts."""

    def __init__(self, task: Task, made: Made) -> None:
        self.made, self.batch = made, task.batch
        known = made.kind != "class-comes"
        dense = not isinstance(made.X, dict)
        self.model = build(task.model, len(made.classes), task.batch, dense=dense)
        self.first = self.row = max(FIRST, task.batch)
        X, y = made.rows(0, self.first)
        self.model.partial_fit(X, y, **({"classes": list(made.classes)} if made.classes and known else {}))
        self.predicted = np.array(made.y)
        self.frozen: Any = None
        self.frozen_labels: Any = None
        self.reports = list[dict[str, Any]]()
        self.seen = list[int]()

    def step(self) -> None:
        """Predict and learn a batch."""
        made, stop = self.made, min(self.row + self.batch, self.made.n_rows)
        change = made.change_row
        if change is not None and self.row <= change < stop:
            window = WINDOW * LONG.get(made.metric, 1)
            settled = change + (GRADUAL if made.kind == "gradual" else 0)
            X, self.frozen_labels = made.rows(settled, min(settled + window, made.n_rows, *made.change_rows[1:2]))
            self.frozen = self.model.predict(X)
        X, y = made.rows(self.row, stop)
        self.predicted[self.row : stop] = self.model.test_then_train(X, y)
        self.row = stop
        drifts = self.model.drifts_
        self.seen += [stop] * (len(drifts) - len(self.seen))
        if stop == made.n_rows:
            errors, pairs = self.errors(), zip(drifts, self.seen, strict=True)
            for one, seen in pairs:
                names = [self._name(column) for column in one.columns]
                known = {"seen": seen, "columns": list(dict.fromkeys(names))}
                self.reports.append(one.to_dict() | known | self.curve(errors, one.row))

    def _name(self, column: str) -> str:
        """Return the name of a column of the stream. Columns of an array are counted, in whatever words."""
        if isinstance(self.made.X, dict):
            return column.split("=")[0]
        place = re.search(r"\d+$", column)
        return column if place is None else self.made.names[int(place[0])]

    def curve(self, errors: FloatArray, row: int) -> dict[str, float]:
        """Return the error before a row and its peak after it, as a person sees them in the curve."""
        before = errors[max(self.first, row - CURVE) : row]
        after = errors[row : row + 2 * CURVE]
        width = max(1, min(SMOOTH, len(after)))
        return {
            "curve_before": float(before.mean()) if len(before) else math.nan,
            "curve_peak": float(np.convolve(after, np.full(width, 1.0 / width), "valid").max()) if len(after) else 0.0,
        }

    def errors(self) -> FloatArray:
        """Return the error of each row: 0 or 1, or the absolute error divided by that of the median."""
        y, predicted = self.made.y, self.predicted
        if self.made.classes:
            return np.asarray(y != predicted, float)
        return np.asarray(np.abs(y - predicted) / np.abs(y - np.median(y)).mean())


def _signals(detector: Any, errors: FloatArray, first: int, batch: int) -> list[int]:
    """Return the rows after which a detector has signalled, each at the end of its batch."""
    values, place, found = np.minimum(errors / (1.0 if errors.max() <= 1.0 else STEEP), 1.0), first, list[int]()
    while place < len(values):
        result = detector.update(values[place:])
        place += result.consumed
        if result:
            found.append(min(len(values), first + math.ceil((place - first) / batch) * batch))
    return found


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
