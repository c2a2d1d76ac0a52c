"""One update of a linear model under way: what it works on, and the way back."""

from __future__ import annotations

from typing import Any

import numpy as np

from driftsurf import _kernels
from driftsurf.base import Batch, FloatArray, IntArray
from driftsurf.learners._linear import Linear


class Update:
    """What an update does to a model; nothing shows before the model takes ``fitted`` over."""

    __slots__ = ("_length", "before", "drawn", "fitted", "model", "order", "rows", "touched")

    rows: Batch
    """The sample set and the waiting rows."""
    order: IntArray
    """The row that each step visits."""
    fitted: Linear
    """The model to be; the steps change its weights and its gradient sum."""
    drawn: int
    """Rows with an entry in the gradient table, after the steps."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.before: Linear = model._fitted
        self.touched: FloatArray | None = None
        """What the table held at ``order``."""
        self._length = len(model._table)

    @property
    def table(self) -> FloatArray:
        """The gradient table."""
        live: FloatArray = self.model._table.live
        return live

    def schedule(self, admitted: int, waiting: int, *, alternating: bool) -> int:
        """Fill ``order`` and make room in the table for the rows that are admitted on the way; the next random word."""
        table, order, before = self.model._table, self.order, self.before
        table.lengthen(min(waiting, (len(order) + 1) // 2))
        live = table.live
        touched = np.empty((len(order), *live.shape[1:]))
        words: int = _kernels.schedule(
            order, live.reshape(-1), touched.reshape(-1), admitted, waiting, before.seed, before.words, alternating
        )
        self.touched = touched
        self.model._touched.add(order, table.first, limit=len(live))
        return words

    def run(self) -> None:
        """Take the steps."""
        self.drawn = self.model._run(self.rows, self.order, self.fitted, self.table)

    def end(self) -> None:
        """Let the model take over what it has become. DivergenceError if training went astray."""
        fitted = self.fitted
        fitted.check_finite()
        vars(fitted)["drawn"] = self.drawn  # it is frozen, but nobody has seen it yet
        self.model._fitted = fitted

    def undo(self) -> None:
        """Make the model what it was, however far the update got."""
        if self.touched is not None:
            self.table[self.order] = self.touched
        self.model._table.truncate(self._length)
        self.model._fitted = self.before
