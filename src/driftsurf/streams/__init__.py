"""Streams that drift: the paper's generators, files, arrays, and drift injected on purpose.

Importing this package does not load numba; the generators that need it load it when they are read.
"""

from driftsurf.streams.arrays import ArrayStream
from driftsurf.streams.authors import AuthorsFile
from driftsurf.streams.base import Drift, Stream
from driftsurf.streams.circles import Circles
from driftsurf.streams.friedman import Friedman
from driftsurf.streams.hyperplane import Hyperplane
from driftsurf.streams.inject import change_prior, mix, rotate, shift_features, swap_labels
from driftsurf.streams.mixed import Mixed
from driftsurf.streams.real import RealStream
from driftsurf.streams.sea import SEA
from driftsurf.streams.sine1 import SINE1

__all__ = [
    "SEA",
    "SINE1",
    "ArrayStream",
    "AuthorsFile",
    "Circles",
    "Drift",
    "Friedman",
    "Hyperplane",
    "Mixed",
    "RealStream",
    "Stream",
    "change_prior",
    "mix",
    "rotate",
    "shift_features",
    "swap_labels",
]
