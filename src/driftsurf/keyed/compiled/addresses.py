"""The kernels that the loops of a fleet call, by address where that works.

numba does not notice changes to this file: remove the ``__pycache__`` folders (``make clean``) after changing it.
"""

from __future__ import annotations

import functools
import sys
import warnings
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import types

from driftsurf.errors import CompilationWarning
from driftsurf.kernels.cache import compile_cached
from driftsurf.kernels.compile import F8, FRAME, I8, _dense, _in, _out
from driftsurf.kernels.compile import MODEL as MODEL_ARRAYS
from driftsurf.kernels.draws import alternate, fill_uniform
from driftsurf.kernels.linear import discharge_dense, saga_both_dense, saga_dense
from driftsurf.kernels.losses import logistic_losses, squared_length, weighted_sum
from driftsurf.kernels.scores import margins_dense
from driftsurf.keyed.compiled.native import ADDRESS, DIRECT, Remote, borrowed

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
    margins=Remote(margins_dense, types.none(_in(F4, 2), _in(F8), _out(F8)), np.float32),
    losses=Remote(logistic_losses, types.none(_in(F8), _in(F8), _out(F8)), np.float64),
    weighted_sum=Remote(weighted_sum, types.UniTuple(F8, 2)(_in(F8), _in(F8)), np.float64),
    squared_length=Remote(squared_length, F8(_in(F8), _in(F8)), np.float64),
    draw=Remote(alternate, types.UniTuple(I8, 2)(_out(I8), I8, I8, types.uint64, I8), np.int64),
    saga=Remote(saga_dense, I8(_dense(F4), _in(I8), MODEL_ARRAYS, I8, F8, F8, FRAME, types.none), np.float32),
    saga_both=Remote(
        saga_both_dense,
        types.UniTuple(I8, 2)(*2 * (_dense(F4), _in(I8), MODEL_ARRAYS, I8, F8, FRAME), F8),
        np.float32,
    ),
    discharge=Remote(discharge_dense, I8(_in(F4, 2), _in(F8), _out(F8), FRAME), np.float32),
    fill=Remote(fill_uniform, I8(_out(F8), types.uint64, I8), np.float64),
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
        return Kernels(*(remote.address() for remote in REMOTES))
    return Kernels(*(np.uint8(0) for _ in REMOTES))


def kernels_type() -> Any:
    """Return the numba type of ``kernel_addresses()``."""
    return types.NamedUniTuple(ADDRESS if calls_by_address() else DIRECT, len(REMOTES), Kernels)


# ---------------------------------------------------------------------------- the self-test


@functools.cache
def calls_by_address() -> bool:
    """Return whether this version of numba can call kernels by address; tested at the first call.

    If it cannot, a warning says so once: loops then call kernels in the ordinary way.
    """
    try:
        problem = self_test()
    except Exception as error:  # whatever another version of numba raises
        problem = f"{type(error).__name__}: {error}"
    if problem:
        warnings.warn(
            f"with numba {numba.__version__} the compiled loops of a fleet cannot call kernels by their addresses "
            f"({problem}). They call them in the ordinary way: a fleet is slower, and the last bits of a key's weights "
            "may differ from those of a separate model. Use a version of numba that driftsurf was tested with to avoid "
            "this.",
            CompilationWarning,
            stacklevel=2,
        )
    return not problem


def probe(arrays: Any, kernels: Any) -> Any:
    """Call a kernel by address on views of borrowed arrays, twice, as the loops do."""
    values, weights, out = borrowed(arrays, kernels)
    margins_at(kernels[0])(values[1:], weights, out[1:])
    margins_at(kernels[0])(values[:1], weights, out[:1])
    return weighted_sum_at(kernels[1])(out, out)


PROBED: Any = types.UniTuple(ADDRESS, 2)
PROBE_ARRAYS: Any = types.Tuple((_in(F4, 2), _in(F8), _out(F8)))


def self_test() -> str:
    """Return what is wrong with calls by address and borrowed arrays in this version of numba; empty if nothing."""
    addresses = REMOTES.margins.address(), REMOTES.weighted_sum.address()
    values = np.linspace(-1.0, 1.0, 12, dtype=np.float32).reshape(4, 3)
    weights, out, expected = np.linspace(0.1, 0.7, 4), np.zeros(4), np.zeros(4)
    counts = [sys.getrefcount(array) for array in (values, weights, out)]
    run = compile_cached(probe, (PROBE_ARRAYS, PROBED), nogil=True, error_model="numpy")
    total = run((values, weights, out), addresses)
    margins_dense(values, weights, expected)
    if not np.array_equal(out, expected) or total != weighted_sum(expected, expected):
        return "results differ from those of an ordinary call"
    if counts != [sys.getrefcount(array) for array in (values, weights, out)]:
        return "reference counts of arrays are wrong"
    return ""
