"""The kernels that the loops of a fleet call by address.

Who changes this file removes the ``__pycache__`` folders (``make clean``): numba does not notice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from driftsurf import _kernels
from driftsurf._kernels import F8, FRAME, I8, _dense, _in, _out
from driftsurf._kernels import MODEL as MODEL_ARRAYS
from driftsurf.fleet._native import Remote

F4 = types.float32
MARGINS = Remote(_kernels.margins_dense, types.none(_in(F4, 2), _in(F8), _out(F8)), np.float32)
LOSSES = Remote(_kernels.logistic_losses, types.none(_in(F8), _in(F8), _out(F8)), np.float64)
SUM = Remote(_kernels.weighted_sum, types.UniTuple(F8, 2)(_in(F8), _in(F8)), np.float64)
LENGTH = Remote(_kernels.squared_length, F8(_in(F8), _in(F8)), np.float64)
DRAW = Remote(_kernels.alternate, types.UniTuple(I8, 2)(_out(I8), I8, I8, types.uint64, I8), np.int64)
SAGA = Remote(_kernels.saga_dense, I8(_dense(F4), _in(I8), MODEL_ARRAYS, I8, F8, F8, FRAME, types.none), np.float32)
BOTH = Remote(
    _kernels.saga_both_dense,
    types.UniTuple(I8, 2)(*2 * (_dense(F4), _in(I8), MODEL_ARRAYS, I8, F8, FRAME), F8),
    np.float32,
)
DISCHARGE = Remote(_kernels.discharge_dense, I8(_in(F4, 2), _in(F8), _out(F8), FRAME), np.float32)
FILL = Remote(_kernels.fill_uniform, I8(_out(F8), types.uint64, I8), np.float64)

REMOTES = MARGINS, LOSSES, SUM, LENGTH, DRAW, SAGA, DISCHARGE, FILL, BOTH
margins_at, losses_at, sum_at, length_at, draw_at, saga_at, discharge_at, fill_at, both_at = (one.at for one in REMOTES)


def parts() -> tuple[Any, ...]:
    """The kernels, as ``serve`` and ``score`` take them."""
    return tuple(one.address() for one in REMOTES)
