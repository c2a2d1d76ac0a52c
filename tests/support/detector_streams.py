"""Streams of errors and helpers shared by the tests of detectors."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
import reference
from hypothesis import settings
from hypothesis import strategies as st

from driftsurf.core.contracts import Detector, FloatArray
from driftsurf.core.state import to_bytes

Weighting = Literal["geometric", "arithmetic", "euler"]

check = settings(max_examples=60)


def stream(*pieces: tuple[float, int], seed: int = 1) -> FloatArray:
    """Return errors for pieces given as (rate, rows)."""
    rates = np.repeat([rate for rate, _ in pieces], [rows for _, rows in pieces])
    return np.array([float(reference.uniform(seed, k) < rate) for k, rate in enumerate(rates)])


def signals(detector: Detector, values: npt.ArrayLike, most: int | None = None) -> list[int]:
    """Return after how many values each signal came, with at most this many values per update."""
    array = np.asarray(values)
    found, position = [], 0
    while position < len(array):
        detection = detector.update(array[position:][:most])
        position += detection.consumed
        if detection:
            found.append(position)
    return found


def same_state(left: Detector, right: Detector) -> bool:
    return to_bytes(left.state()) == to_bytes(right.state())


@st.composite
def streams(draw: st.DrawFn, most_rows: int = 150) -> FloatArray:
    """Errors whose rate jumps, some of them between 0 and 1."""
    rates = st.sampled_from([0.0, 0.05, 0.2, 0.5, 0.9])
    pieces = draw(st.lists(st.tuples(rates, st.integers(1, most_rows)), max_size=5))
    values = stream(*pieces, seed=draw(st.integers(0, 2**32)))
    if draw(st.booleans()):
        values[::3] = np.clip(values[::3], 0.2, 0.7)
    return values
