"""What a refitted model is saved by: the rows of its last fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from driftsurf._options import whole
from driftsurf.base import CSR, Batch, FloatArray, Rows, SampleStore, Segment, State, take_rows
from driftsurf.errors import StateError
from driftsurf.samples import Samples
from driftsurf.state import nest, pick

PROBED = 32
"""Rows whose scores tell whether a model that was fitted again is the one that was saved."""


@dataclass(frozen=True)
class Fit:
    """A model can be fitted again on these rows. As long as they are in the store, their numbers are enough."""

    lo: int
    hi: int
    n_classes: int
    """As many as there were then: a model may depend on it."""
    weight: FloatArray | None
    """As it was then: a strategy may let rows fade. None if it is 1 for all."""
    rows: Samples | None = None
    """A copy of them, once the model learns no more and the store may let them go."""
    probe: Rows | None = None
    """A copy of the first of them."""

    @classmethod
    def on(cls, batch: Batch, n_classes: int) -> Fit:
        """A fit on these rows."""
        stop = batch.first_row + len(batch.y)
        weight = None if (batch.weight == 1.0).all() else batch.weight.copy()
        probe = _copied(take_rows(batch.X, 0, min(PROBED, len(batch.y))))
        return cls(batch.first_row, stop, n_classes, weight, probe=probe)

    def kept(self, samples: SampleStore) -> Fit:
        """With a copy of its rows."""
        if self.rows is not None:
            return self
        X, y, _, _ = samples.view(Segment(self.lo, self.hi))
        sparse = isinstance(X, CSR)
        columns, dtype = (X.n_features, X.data.dtype) if isinstance(X, CSR) else (X.shape[1], X.dtype)
        rows = Samples(columns, sparse=sparse, dtype=dtype)
        rows.append(X, y)
        return replace(self, rows=rows)

    def needs(self, oldest: int) -> int:
        """The oldest row that the store has to keep, if the model itself needs those from ``oldest`` on."""
        return oldest if self.rows is not None else min(oldest, self.lo)

    @property
    def nbytes(self) -> int:
        """Bytes of its own copies."""
        return (0 if self.rows is None else self.rows.nbytes) + (0 if self.weight is None else int(self.weight.nbytes))

    def batch(self, samples: SampleStore) -> Batch:
        """The rows, with the weights of that time."""
        count = self.hi - self.lo
        if self.rows is None:
            batch = samples.view(Segment(self.lo, self.hi))
        else:
            batch = self.rows.view(Segment(0, count))._replace(first_row=self.lo)
        return batch._replace(weight=np.ones(count) if self.weight is None else self.weight)

    def state(self) -> State:
        """All but the probe, which the rows tell."""
        state: State = {"lo": self.lo, "hi": self.hi, "n_classes": self.n_classes}
        if self.weight is not None:
            state["weight"] = self.weight
        return state if self.rows is None else state | nest("rows", self.rows.state())

    @classmethod
    def from_state(cls, state: Mapping[str, Any], n_classes: int) -> Fit:
        """The fit that gave ``state``, of a model that is for so many classes now (0: values)."""
        lo = whole("lo", state["lo"], at_least=0)
        hi = whole("hi", state["hi"], at_least=lo)
        then = whole("n_classes", state.get("n_classes", n_classes), at_least=0)  # the first saved fits do not have it
        if then > n_classes:
            raise StateError(f"a saved fit is for {then} classes; its model is for {n_classes}")
        rows, weight = pick("rows", state), state.get("weight")
        if weight is not None and np.shape(weight) != (hi - lo,):
            raise StateError(f"the saved weights of a fit have shape {np.shape(weight)}; it has {hi - lo} rows")
        return cls(lo, hi, then, weight, Samples.from_state(rows, then) if rows else None)


def _copied(X: Rows) -> Rows:
    if not isinstance(X, CSR):
        return X.copy()
    a, b = int(X.indptr[0]), int(X.indptr[-1])
    return CSR(X.data[a:b].copy(), X.indices[a:b].copy(), X.indptr - a, X.n_features)
