"""Streams that drift: the paper's generators, arrays as streams, and functions that inject drift.

Streams are registered beside their classes with :func:`~driftsurf.streams.base.register_stream`. Real data sets are in
:mod:`driftsurf.data.datasets`.
"""

from driftsurf.streams.arrays import ArrayStream
from driftsurf.streams.base import Drift, Stream
from driftsurf.streams.circles import Circles
from driftsurf.streams.friedman import Friedman
from driftsurf.streams.hyperplane import Hyperplane
from driftsurf.streams.inject import change_prior, mix, rotate, shift_features, swap_labels
from driftsurf.streams.mixed import Mixed
from driftsurf.streams.recurring import Recurring
from driftsurf.streams.sea import SEA
from driftsurf.streams.sine1 import SINE1

__all__ = [
    "SEA",
    "SINE1",
    "ArrayStream",
    "Circles",
    "Drift",
    "Friedman",
    "Hyperplane",
    "Mixed",
    "Recurring",
    "Stream",
    "change_prior",
    "mix",
    "rotate",
    "shift_features",
    "swap_labels",
]
