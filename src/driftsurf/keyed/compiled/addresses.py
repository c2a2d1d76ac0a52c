"""The compiled step and the kernels that the loops of a fleet call, by address where that works.

numba does not notice changes to this file: remove the ``__pycache__`` folders (``make clean``) after changing it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numba import types

from driftsurf.kernels.compile import I8
from driftsurf.kernels.remote import ADDRESS, DIRECT, Remote
from driftsurf.strategies.compiled import addresses, table
from driftsurf.strategies.compiled.addresses import calls_by_address
from driftsurf.strategies.compiled.layout import Rule, Training
from driftsurf.strategies.compiled.step import learn, learn_arguments

__all__ = ["FleetKernels", "fleet_kernels_type", "kernel_addresses", "learn_at"]

LEARN = Remote(learn, lambda f: I8(*learn_arguments(f)))
learn_at: Any = LEARN.at


class FleetKernels(NamedTuple):
    """The address of the step of a single model, and of the kernels that it calls, or placeholders."""

    learn: Any
    step: addresses.Kernels


def kernel_addresses(row_type: Any, rule: Rule, training: Training) -> FleetKernels:
    """Return the step and the kernels as the loops take them: by address if that works here, else placeholders."""
    step = table.kernel_addresses(row_type, rule, training)
    if numba.config.DISABLE_JIT or calls_by_address():
        return FleetKernels(LEARN.address(types.float32 if row_type == np.float32 else types.float64), step)
    return FleetKernels(np.uint8(0), step)


def fleet_kernels_type() -> Any:
    """Return the numba type of ``kernel_addresses()``."""
    learn = ADDRESS if calls_by_address() else DIRECT
    return types.NamedTuple([learn, addresses.kernels_type()], FleetKernels)
