"""The paper's settings for each stream."""

from __future__ import annotations

from driftsurf.data.datasets.known import DATASETS
from driftsurf.reproduction.published import STREAMS, PublishedStream

__all__ = ["OPTIONS", "REACTIVE_LENGTH", "settings_of"]

REACTIVE_LENGTH = 4
"""r: the number of steps of a reactive state."""
OPTIONS = {"class_share": 0.0}
"""Options of DriftSurf that differ from the defaults: the paper does not ask which classes a model has seen."""


def settings_of(dataset: str) -> PublishedStream:
    """Return the paper's settings for a stream; a stand-in has those of the stream that it stands in for.

    >>> settings_of("airline-2007").l2
    0.001
    """
    real = DATASETS.get(dataset)
    return STREAMS[dataset if real is None or real.stands_for is None else real.stands_for]
