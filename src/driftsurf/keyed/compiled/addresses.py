"""The kernels that the loops of a fleet call, by address where that works.

numba does not notice changes to this file: remove the ``__pycache__`` folders (``make clean``) after changing it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numba import types

from driftsurf.kernels.compile import F8, FRAME, I8, _dense, _in, _out
from driftsurf.kernels.compile import MODEL as MODEL_ARRAYS
from driftsurf.kernels.draws import alternate, fill_uniform
from driftsurf.kernels.linear import discharge_dense, saga_both_dense, saga_dense
from driftsurf.kernels.losses import logistic_losses, squared_length, weighted_sum
from driftsurf.kernels.remote import ADDRESS, DIRECT, Remote
from driftsurf.kernels.scores import margins_dense
from driftsurf.strategies.compiled.addresses import calls_by_address

__all__ = ["Kernels", "kernel_addresses", "kernels_type"]

F4: Any = types.float32


class Kernels(NamedTuple):
    """An address, or its placeholder, for each kernel."""

    margins: Any
    losses: Any
    weighted_sum: Any
    squared_length: Any
    draw: Any
    saga: Any
    saga_both: Any
    discharge: Any
    fill: Any


REMOTES = Kernels(
    margins=Remote(margins_dense, lambda f: types.none(_in(f, 2), _in(F8), _out(F8))),
    losses=Remote(logistic_losses, lambda f: types.none(_in(F8), _in(F8), _out(F8))),
    weighted_sum=Remote(weighted_sum, lambda f: types.UniTuple(F8, 2)(_in(F8), _in(F8))),
    squared_length=Remote(squared_length, lambda f: F8(_in(F8), _in(F8))),
    draw=Remote(alternate, lambda f: types.UniTuple(I8, 2)(_out(I8), I8, I8, types.uint64, I8)),
    saga=Remote(saga_dense, lambda f: I8(_dense(f), _in(I8), MODEL_ARRAYS, I8, F8, F8, FRAME, types.none)),
    saga_both=Remote(
        saga_both_dense,
        lambda f: types.UniTuple(I8, 2)(*2 * (_dense(f), _in(I8), MODEL_ARRAYS, I8, F8, FRAME), F8),
    ),
    discharge=Remote(discharge_dense, lambda f: I8(_in(f, 2), _in(F8), _out(F8), FRAME)),
    fill=Remote(fill_uniform, lambda f: I8(_out(F8), types.uint64, I8), F8),
)

# Global functions, since compiled code cannot look up an attribute of an object.
margins_at: Any
losses_at: Any
weighted_sum_at: Any
squared_length_at: Any
draw_at: Any
saga_at: Any
saga_both_at: Any
discharge_at: Any
fill_at: Any
margins_at, losses_at, weighted_sum_at, squared_length_at, draw_at, saga_at, saga_both_at, discharge_at, fill_at = (
    remote.at for remote in REMOTES
)


def kernel_addresses() -> Kernels:
    """Return the kernels as the loops take them: by address if that works here, else placeholders."""
    if numba.config.DISABLE_JIT or calls_by_address():
        return Kernels(*(remote.address(F4) for remote in REMOTES))
    return Kernels(*(np.uint8(0) for _ in REMOTES))


def kernels_type() -> Any:
    """Return the numba type of ``kernel_addresses()``."""
    return types.NamedUniTuple(ADDRESS if calls_by_address() else DIRECT, len(REMOTES), Kernels)
