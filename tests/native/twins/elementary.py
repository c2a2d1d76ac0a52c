"""Elementary functions of one number as the native core computes them, so that twins can have equal bits."""

from __future__ import annotations

import numpy as np

from driftsurf.native.maths import evaluate


def exp(x: float) -> float:
    """Return the exponential of a number."""
    return _evaluated("exp", x)


def log(x: float) -> float:
    """Return the logarithm of a number."""
    return _evaluated("log", x)


def _evaluated(name: str, x: float) -> float:
    out = np.empty(1)
    evaluate(name, np.array([x], dtype=np.float64), out)
    return float(out[0])
