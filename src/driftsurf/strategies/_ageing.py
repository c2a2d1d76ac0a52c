"""One model whose rows grow old: they lose weight, and are forgotten, as others come after them."""

from __future__ import annotations

import contextlib
from abc import abstractmethod

import numpy as np

from driftsurf._values import replace
from driftsurf.base import FloatArray, Segment
from driftsurf.strategies._pool import Member
from driftsurf.strategies._reweighted import Reweighted
from driftsurf.strategies._single import SingleModel


class AgeingModel(SingleModel):
    """One model over the last rows. Age is counted in rows: 0 for the newest one of the batch being learnt."""

    @abstractmethod
    def _span(self) -> int:
        """How many rows count at all; older ones leave the sample set before a batch is learnt."""

    @abstractmethod
    def _faded(self, age: FloatArray) -> FloatArray:
        """By what the weights of rows of this age are multiplied."""

    def _fit(self, model: Member, segment: Segment, undo: contextlib.ExitStack) -> int:
        def faded(part: Segment) -> FloatArray:
            return self._faded(np.arange(segment.hi - 1 - part.lo, segment.hi - 1 - part.hi, -1, dtype=np.float64))

        oldest = segment.hi - self._span()
        undo.callback(model.learner.forget(self._pool.samples, oldest))
        young = replace(model, first_row=max(model.first_row, oldest))  # a first batch may be longer than the span
        budget = self._pool.template.budget(segment)
        return self._pool.train(young, segment, budget, undo, seen_as=Reweighted(self._pool.samples, faded))
