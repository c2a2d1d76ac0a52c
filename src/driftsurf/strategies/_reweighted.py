"""View of a sample store with other row weights."""

from __future__ import annotations

from collections.abc import Callable

from driftsurf.core.contracts import Batch, FloatArray, SampleStore, Segment


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
