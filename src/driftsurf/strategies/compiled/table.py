"""Which kernels and parts a step calls, and their addresses."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import types

from driftsurf.kernels.compile import Sparse
from driftsurf.kernels.losses import SOFTMAX
from driftsurf.strategies.compiled.addresses import REMOTES, Kernels, calls_by_address
from driftsurf.strategies.compiled.layout import LOGISTIC, Rule, Training
from driftsurf.strategies.compiled.parts import PARTS

LOGISTIC_ONLY = {"margins", "losses", "saga", "saga_both", "discharge"}
OTHERS_ONLY = {
    *("outputs", "output_losses", "output_saga", "output_discharge"),
    *("score_outputs", "lost_by_outputs", "train_outputs", "finish_outputs", "forget_outputs"),
}
REGRESSION_ONLY = {
    *("limited_outputs", "evidence", "pairwise_sum", "median_target", "extend_range", "meet", "trivial_risk")
}
SOFTMAX_ONLY = {"log_softmax", "penalty_of_outputs"}
"""Kernels and parts that only some losses need."""


def _needed(rule: Rule, training: Training, *, anchored: bool = False) -> set[str]:
    """Return the names of the kernels and parts that a step with these options calls."""
    skipped: set[str] = set() if anchored else {"saga_anchored"}
    skipped |= OTHERS_ONLY if training.kind == LOGISTIC else LOGISTIC_ONLY
    if not training.paired:
        skipped = skipped | {"saga_both"}
    if not training.regression:
        skipped = skipped | REGRESSION_ONLY
    if training.kind != SOFTMAX:
        skipped = skipped | SOFTMAX_ONLY
    if not rule.class_share > 0.0:
        skipped = skipped | {"missed_class"}
    if rule.prequential:
        skipped = skipped - {"pairwise_sum"}
    return {*Kernels._fields} - skipped


def parts_are_at_hand(rule: Rule, training: Training, *, sparse: bool = False) -> bool:
    """Return whether all parts that a step with these options calls can be called without being compiled first.

    The other kernels do not count: they compile faster, and generic steps call most of them, too.
    """
    needed = _needed(rule, training)
    return all(part.is_at_hand(sparse=sparse) for name, part in PARTS.items() if name in needed)


def kernel_addresses(
    row_type: Any, rule: Rule, training: Training, *, sparse: bool = False, anchored: bool = False
) -> Kernels:
    """Return the address of each kernel for rows of this type; 0 for those that are not used with these options.

    ``anchored`` says whether there are models whose penalty pulls towards a point other than the origin.
    If kernels cannot be called by address, they are placeholders.
    """
    f: Any = types.float32 if row_type == np.float32 else types.float64
    f = Sparse(f) if sparse else f
    known = REMOTES | PARTS
    if numba.config.DISABLE_JIT:
        return Kernels(**{name: one.address(f) for name, one in known.items()})
    if not calls_by_address():
        return Kernels(*(np.uint8(0) for _ in known))
    needed = _needed(rule, training, anchored=anchored)
    return Kernels(**{name: one.address(f) if name in needed else 0 for name, one in known.items()})
