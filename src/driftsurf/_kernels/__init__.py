"""Every compiled loop of learners and streams: pure functions over arrays, no random state, no allocation."""

from driftsurf._kernels._compile import F8, FASTMATH, FRAME, I8, MODEL, _csr, _dense, _in, _out, inline, kernel
from driftsurf._kernels.columns import (
    add_magnitudes_csr,
    add_magnitudes_dense,
    measure_csr,
    measure_dense,
    squared_norms_csr,
    squared_norms_dense,
)
from driftsurf._kernels.draws import alternate, draw_uniformly, fill_uniform, grow_and_draw
from driftsurf._kernels.linear import (
    discharge_csr,
    discharge_dense,
    logistic_losses,
    margins_csr,
    margins_dense,
    saga_csr,
    saga_dense,
    sgd_csr,
    sgd_dense,
    weighted_sum,
)
from driftsurf._kernels.streams import CIRCLES, MIXED, SINE1, balanced, hyperplane, java_doubles, java_state, sea
from driftsurf._kernels.votes import follow_losses

__all__ = [
    "CIRCLES",
    "F8",
    "FASTMATH",
    "FRAME",
    "I8",
    "MIXED",
    "MODEL",
    "SINE1",
    "_csr",
    "_dense",
    "_in",
    "_out",
    "add_magnitudes_csr",
    "add_magnitudes_dense",
    "alternate",
    "balanced",
    "discharge_csr",
    "discharge_dense",
    "draw_uniformly",
    "fill_uniform",
    "follow_losses",
    "grow_and_draw",
    "hyperplane",
    "inline",
    "java_doubles",
    "java_state",
    "kernel",
    "logistic_losses",
    "margins_csr",
    "margins_dense",
    "measure_csr",
    "measure_dense",
    "saga_csr",
    "saga_dense",
    "sea",
    "sgd_csr",
    "sgd_dense",
    "squared_norms_csr",
    "squared_norms_dense",
    "weighted_sum",
]
