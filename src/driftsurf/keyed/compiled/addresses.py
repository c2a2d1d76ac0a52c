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
from driftsurf.keyed.compiled.guarding import GuardKernels, guard_kernels, guard_kernels_type
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
    guard: GuardKernels
    step: addresses.Kernels


def kernel_addresses(row_type: Any, rule: Rule, training: Training, *, guarded: bool = False) -> FleetKernels:
    """Return the step and the kernels as the loops take them: by address if that works here, else placeholders.

    The kernels of the range guard are compiled only if it is used (``guarded``).
    """
    f = types.float32 if row_type == np.float32 else types.float64
    step, guard = table.kernel_addresses(row_type, rule, training), guard_kernels(f, guarded=guarded)
    by_address = numba.config.DISABLE_JIT or calls_by_address()
    return FleetKernels(LEARN.address(f) if by_address else np.uint8(0), guard, step)


def fleet_kernels_type() -> Any:
    """Return the numba type of ``kernel_addresses()``."""
    learn = ADDRESS if calls_by_address() else DIRECT
    return types.NamedTuple([learn, guard_kernels_type(), addresses.kernels_type()], FleetKernels)
