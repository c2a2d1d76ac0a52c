"""Rows of the last fit of a refitted model, by which it is saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from driftsurf.core.contracts import CSR, Batch, FloatArray, Rows, SampleStore, Segment, State, take_rows
from driftsurf.core.options import whole
from driftsurf.core.samples import Samples
from driftsurf.core.state import nest, pick
from driftsurf.errors import StateError

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
        lo = whole("lo", state["lo"], at_least=0)
        hi = whole("hi", state["hi"], at_least=lo)
        then = whole("n_classes", state["n_classes"], at_least=0)
        if then > n_classes:
            raise StateError(f"a saved fit has {then} classes, but its model has {n_classes}")
        rows, weight = pick("rows", state), state.get("weight")
        if weight is not None and np.shape(weight) != (hi - lo,):
            raise StateError(f"the saved weights of a fit have shape {np.shape(weight)}, but it has {hi - lo} rows")
        return cls(lo, hi, then, weight, Samples.from_state(rows, then) if rows else None)


def _copied(X: Rows) -> Rows:
    """Return a copy of rows, which stays valid when the store drops them."""
    if not isinstance(X, CSR):
        return X.copy()
    a, b = int(X.indptr[0]), int(X.indptr[-1])
    return CSR(X.data[a:b].copy(), X.indices[a:b].copy(), X.indptr - a, X.n_features)
