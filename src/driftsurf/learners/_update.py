"""One update of a linear model in progress, and its undo."""

from __future__ import annotations

from typing import Any

import numpy as np

from driftsurf.core.contracts import Batch, FloatArray, IntArray
from driftsurf.learners._linear import Linear
from driftsurf.native.linear import schedule


class Update:
    """An update in progress. The model changes only in ``end``, apart from its gradient table."""

    __slots__ = ("_length", "before", "drawn", "fitted", "model", "order", "rows", "touched")

    rows: Batch
    """Sample set and waiting rows."""
    order: IntArray
    """Row that each step visits."""
    fitted: Linear
    """Model after the update; the steps change its weights and its gradient sum."""
    drawn: int
    """Number of rows with an entry in the gradient table after the steps."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.before: Linear = model._fitted
        self.touched: FloatArray | None = None
        """Entries of the table at ``order`` before the update, for the undo."""
        self._length = len(model._table)

    @property
    def table(self) -> FloatArray:
        """Gradient table of the model."""
        live: FloatArray = self.model._table.live
        return live

    def schedule(self, admitted: int, waiting: int, *, alternating: bool) -> int:
        """Fill ``order``, make room in the table for newly admitted rows, and return the next random word."""
        table, order, before = self.model._table, self.order, self.before
        table.lengthen(min(waiting, (len(order) + 1) // 2))
        live = table.live
        touched = np.empty((len(order), *live.shape[1:]))
        words = schedule(order, live, touched, admitted, waiting, before.seed, before.words, alternating)
        self.touched = touched
        if self.model._overwritten is not None:
            self.model._overwritten.append((table, order, table.first, touched))  # before the steps write
        self.model._touched.add(order, table.first, limit=len(live))
        return words

    def run(self) -> None:
        """Take the steps."""
        self.drawn = self.model._run(self.rows, self.order, self.fitted, self.table)

    def end(self) -> None:
        """Publish the updated model; DivergenceError if training diverged."""
        fitted = self.fitted
        fitted.check_finite()
        vars(fitted)["drawn"] = self.drawn  # frozen, but not published yet
        self.model._fitted = fitted

    def undo(self) -> None:
        """Restore the model, however far the update got."""
        if self.touched is not None:
            # A row that was visited twice has the same old entry in both places, so the order does not matter.
            self.table[self.order] = self.touched
        self.model._table.truncate(self._length)
        self.model._fitted = self.before
