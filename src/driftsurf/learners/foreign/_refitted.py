"""Rows of the last fit of a refitted model, by which it is saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from driftsurf.core.contracts import CSR, Batch, FloatArray, Rows, SampleStore, Segment, State, take_rows
from driftsurf.core.fields import Array, FieldRule, Fields, Whole, misfit
from driftsurf.core.samples import Samples
from driftsurf.core.state import nest, pick

PROBED = 32
"""Number of rows whose scores show whether a refitted model equals the saved one."""


@dataclass(frozen=True)
class Fit:
    """Rows on which a model was fitted. While the store has them, their numbers are enough to fit it again."""

    lo: int
    hi: int
    n_classes: int
    """Number of classes at the time of the fit, on which a model may depend."""
    weight: FloatArray | None
    """Row weights at the time of the fit, since a strategy may change them later; None if all are 1."""
    rows: Samples | None = None
    """Copy of the rows, once the model is retired and the store may drop them."""
    probe: Rows | None = None
    """Copy of the first rows, to compare scores after refitting."""

    @classmethod
    def on(cls, batch: Batch, n_classes: int) -> Fit:
        """Return the fit on a batch."""
        stop = batch.first_row + len(batch.y)
        weight = None if (batch.weight == 1.0).all() else batch.weight.copy()
        probe = _copied(take_rows(batch.X, 0, min(PROBED, len(batch.y))))
        return cls(batch.first_row, stop, n_classes, weight, probe=probe)

    def kept(self, samples: SampleStore) -> Fit:
        """Return the fit with a copy of its rows."""
        if self.rows is not None:
            return self
        X, y, _, _ = samples.view(Segment(self.lo, self.hi))
        sparse = isinstance(X, CSR)
        columns, dtype = (X.n_features, X.data.dtype) if isinstance(X, CSR) else (X.shape[1], X.dtype)
        rows = Samples(columns, sparse=sparse, dtype=dtype)
        rows.append(X, y)
        return replace(self, rows=rows)

    def needs(self, oldest: int) -> int:
        """Return the oldest row that the store must keep, given that the model needs the rows from ``oldest`` on."""
        return oldest if self.rows is not None else min(oldest, self.lo)

    @property
    def nbytes(self) -> int:
        """Bytes of the copies."""
        return (0 if self.rows is None else self.rows.nbytes) + (0 if self.weight is None else int(self.weight.nbytes))

    def batch(self, samples: SampleStore) -> Batch:
        """Return the rows with their weights at the time of the fit."""
        count = self.hi - self.lo
        if self.rows is None:
            batch = samples.view(Segment(self.lo, self.hi))
        else:
            batch = self.rows.view(Segment(0, count))._replace(first_row=self.lo)
        return batch._replace(weight=np.ones(count) if self.weight is None else self.weight)

    def state(self) -> State:
        """Return the state; the probe follows from the rows and is not saved."""
        state: State = {"lo": self.lo, "hi": self.hi, "n_classes": self.n_classes}
        if self.weight is not None:
            state["weight"] = self.weight
        return state if self.rows is None else state | nest("rows", self.rows.state())

    @classmethod
    def from_state(cls, state: Mapping[str, Any], n_classes: int) -> Fit:
        """Return the fit that ``state()`` was called on; the model has ``n_classes`` now (0: regression)."""
        known = FIELDS.read(state, known_classes=n_classes)
        lo, hi, then, saved = known["lo"], known["hi"], known["n_classes"], pick("rows", state)
        rows = Samples.from_state(saved, then) if saved else None
        if rows is not None and (rows.first_row, len(rows)) != (0, hi - lo):
            raise misfit(saved, "first_row", f"must be that of {hi - lo} rows from 0 on")
        return cls(lo, hi, then, known.get("weight"), rows)


FIELDS = Fields(
    {
        "lo": Whole(),
        "hi": Whole(),
        "n_classes": Whole(0, "known_classes"),
        "weight": Array(np.float64, ("rows",), least=0.0),
    },
    optional=["weight"],
    parts=["rows"],
    rules=[
        FieldRule("hi", "must be at least lo", lambda known: known["lo"] <= known["hi"]),
        FieldRule(
            "weight",
            "must have one value per row",
            lambda known: known.get("rows", known["hi"] - known["lo"]) == known["hi"] - known["lo"],
        ),
    ],
)
"""Saved entries of a fit."""


def _copied(X: Rows) -> Rows:
    """Return a copy of rows, which stays valid when the store drops them."""
    if not isinstance(X, CSR):
        return X.copy()
    a, b = int(X.indptr[0]), int(X.indptr[-1])
    return CSR(X.data[a:b].copy(), X.indices[a:b].copy(), X.indptr - a, X.n_features)
