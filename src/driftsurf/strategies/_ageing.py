"""Base class of strategies whose rows lose weight, and are forgotten, with their age."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from driftsurf.core.changes import UndoStack
from driftsurf.core.contracts import FloatArray, Segment
from driftsurf.core.values import replace
from driftsurf.strategies._pool import Member
from driftsurf.strategies._reweighted import Reweighted
from driftsurf.strategies._single import SingleModel


class AgeingModel(SingleModel):
    """One model over the last rows. The age of a row is the number of rows that came after it.

    The weight of a row applies to a gradient at the moment it is computed. A learner that keeps gradients (STRSAGA,
    SAGA) has them from the last visit to each row, with the weight of that time, until the row is drawn again; a row
    that is forgotten takes exactly its kept gradient with it.
    """

    @abstractmethod
    def _span(self) -> int:
        """Return how many rows are kept; older ones are forgotten before a batch is learned."""

    @abstractmethod
    def _fading(self, age: FloatArray) -> FloatArray:
        """Return the factor of the weight of rows of this age."""

    def _fit(self, model: Member, segment: Segment, undo: UndoStack) -> int:
        def fading(part: Segment) -> FloatArray:
            return self._fading(np.arange(segment.hi - 1 - part.lo, segment.hi - 1 - part.hi, -1, dtype=np.float64))

        oldest = segment.hi - self._span()
        undo.callback(model.learner.forget(self._pool.samples, oldest))
        young = replace(model, first_row=max(model.first_row, oldest))  # a first batch may be longer than the span
        budget = self._pool.template.budget(segment)
        return self._pool.train(young, segment, budget, undo, seen_as=Reweighted(self._pool.samples, fading))
