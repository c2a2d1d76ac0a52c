"""Validation of the weights of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from driftsurf.core.contracts import FloatArray
from driftsurf.core.frames import unmasked
from driftsurf.core.typing import TargetLike
from driftsurf.errors import InputError, NonFiniteError, ShapeError, ValueTypeError

__all__ = ["read_weights"]

ONES = np.ones(4096)
ONES.setflags(write=False)
"""Weights of unweighted rows; allocated once, because every batch needs them."""
LARGEST_WEIGHT = 1e15
"""Largest weight of a row: beside a heavier one, a row of weight 1 is lost in rounding, and steps diverge."""


def read_weights(weight: TargetLike | None, count: int) -> FloatArray:
    """Return the weights of ``count`` rows as an array; ones for None."""
    if weight is None:
        return ONES[:count] if count <= len(ONES) else np.ones(count)
    given: Any = unmasked(weight, "sample_weight")
    try:
        given = np.asarray(given)
        array = given if given.dtype.kind == "c" else np.asarray(given, np.float64)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueTypeError(f"sample_weight must be numeric: {error}") from error
    if array.dtype.kind == "c":
        raise ValueTypeError("sample_weight is complex; weights must be finite and not negative.")
    if array.ndim == 0:
        array = np.full(count, float(array))
    if array.ndim != 1:
        raise ShapeError(f"Sample weights must be 1D array or scalar, not {array.ndim}D.")
    if len(array) != count:
        raise ShapeError(f"sample_weight has {len(array)} values for {count} rows: sample_weight.shape must match.")
    if not (np.isfinite(array).all() and (array >= 0).all()):
        bad = int(np.argmax(~(np.isfinite(array) & (array >= 0))))
        raise NonFiniteError(f"sample_weight[{bad}] is {array[bad]}; weights must be finite and not negative.")
    if (array > LARGEST_WEIGHT).any():
        bad = int(np.argmax(array))
        raise InputError(
            f"sample_weight[{bad}] is {array[bad]}; the largest weight is {LARGEST_WEIGHT:g}. Divide all by a constant."
        )
    return array
