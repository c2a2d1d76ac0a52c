"""Rows shown to a learner with other weights than they have."""

from __future__ import annotations

from collections.abc import Callable

from driftsurf.base import Batch, FloatArray, Learner, SampleStore, Segment
from driftsurf.errors import CapabilityError


class Reweighted:
    """A view of a store in which the weight of each row is multiplied by a factor; the rows stay as they are.

    >>> import numpy as np
    >>> from driftsurf.samples import Samples
    >>> samples = Samples(n_features=1)
    >>> rows = samples.append(np.ones((3, 1)), np.ones(3))
    >>> Reweighted(samples, lambda part: np.arange(part.lo, part.hi) / 2).view(rows).weight
    array([0. , 0.5, 1. ])
    """

    def __init__(self, samples: SampleStore, factor: Callable[[Segment], FloatArray]) -> None:
        self._samples = samples
        self._factor = factor

    def view(self, segment: Segment) -> Batch:
        """The rows of ``segment``, with weights for this learner."""
        batch = self._samples.view(segment)
        return batch._replace(weight=batch.weight * self._factor(segment))


def check_weights(learner: Learner, strategy: object) -> None:
    """CapabilityError unless the learner heeds the weights of rows."""
    if not learner.capabilities.weights:
        raise CapabilityError(
            f"{type(learner).__name__} takes no notice of the weights of rows (it has not the capability 'weights'), "
            f"which {type(strategy).__name__} needs; use a learner that does, such as LogisticRegression"
        )
