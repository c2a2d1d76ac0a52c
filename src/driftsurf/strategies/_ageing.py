"""Base class of strategies whose rows lose weight, and are forgotten, with their age."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from driftsurf.core.changes import UndoStack, lazy, replace
from driftsurf.core.contracts import Batch, FloatArray, SampleStore, Segment
from driftsurf.strategies._cell_arrays import UNLIMITED, StepRule, never_reacting
from driftsurf.strategies._cell_models import Fading
from driftsurf.strategies._pool import Member
from driftsurf.strategies._single import SingleModel

MOST_KNOWN = 2**16
"""Longest span whose factors are stored."""


class AgeingModel(SingleModel):
    """One model over the last rows. The age of a row is the number of rows that came after it.

    The weight of a row applies to a gradient at the moment it is computed. A learner that stores gradients (STRSAGA,
    SAGA) has them from the last visit to each row, with the weight of that time, until the row is drawn again; a row
    that is forgotten takes exactly its stored gradient with it.
    """

    @abstractmethod
    def _span(self) -> int:
        """Return how many rows are stored; older ones are forgotten before a batch is learned."""

    @abstractmethod
    def _fading(self, age: FloatArray) -> FloatArray:
        """Return the factor of the weight of rows of this age."""

    def _fades(self) -> bool:
        """Return whether the factors differ from 1."""
        return True

    def _factors(self, lo: int, hi: int, after: int) -> FloatArray:
        """Return the factors of rows from number ``lo`` to ``hi``, when ``after`` is the number of the next row."""
        known = self._known_factors
        oldest = after - len(known)
        if oldest <= lo:
            return known[lo - oldest : hi - oldest]
        return self._fading(np.arange(after - 1 - lo, after - 1 - hi, -1, dtype=np.float64))

    @lazy
    def _known_factors(self) -> FloatArray:
        """Factors of the last rows, the newest row last; those of a very long span are computed at each step."""
        span = self._span()
        return self._fading(np.arange(span - 1 if span <= MOST_KNOWN else -1, -1, -1, dtype=np.float64))

    def _cell_rule(self) -> tuple[StepRule, dict[str, Any]] | None:
        if not self._has_parts_of(AgeingModel):
            return None
        span = min(self._span(), UNLIMITED)
        return never_reacting(self._stored_pool.max_rows, span=span, faded=self._fades()), {}

    def _fading_in_cell(self) -> Fading | None:
        return (lambda lo, hi: self._factors(lo, hi, hi)) if self._fades() else None

    def _fit(self, model: Member, segment: Segment, undo: UndoStack) -> int:
        def fading(part: Segment) -> FloatArray:
            return self._factors(part.lo, part.hi, segment.hi)

        oldest = segment.hi - self._span()
        undo.callback(model.learner.forget(self._pool.samples, oldest))
        young = replace(model, first_row=max(model.first_row, oldest))  # a first batch may be longer than the span
        budget = self._pool.template.budget(segment)
        return self._pool.train(young, segment, budget, undo, seen_as=Reweighted(self._pool.samples, fading))


class Reweighted:
    """A view of a store in which the weight of each row is multiplied by a factor. The rows are not changed.

    >>> import numpy as np
    >>> from driftsurf.core.samples import Samples
    >>> samples = Samples(n_features=1)
    >>> rows = samples.append(np.ones((3, 1)), np.ones(3))
    >>> Reweighted(samples, lambda part: np.arange(part.lo, part.hi) / 2).view(rows).weight
    array([0. , 0.5, 1. ])
    """

    def __init__(self, samples: SampleStore, factor: Callable[[Segment], FloatArray]) -> None:
        self._samples = samples
        self._factor = factor

    def view(self, segment: Segment) -> Batch:
        """Return the rows of a segment with their changed weights."""
        batch = self._samples.view(segment)
        return batch._replace(weight=batch.weight * self._factor(segment))
