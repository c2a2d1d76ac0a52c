"""Kernels that the compiled step calls by address."""

from __future__ import annotations

import functools
import warnings
from typing import Any, NamedTuple

import numba
from numba import types

from driftsurf.errors import CompilationWarning
from driftsurf.kernels import multi, remote
from driftsurf.kernels.columns import extend_range_csr, extend_range_dense
from driftsurf.kernels.compile import F8, FRAME, I8, MODEL, _in, _labelled, _out, _rows
from driftsurf.kernels.draws import fill_uniform, schedule
from driftsurf.kernels.frames import (
    FLAG,
    RULES,
    frame_csr,
    frame_dense,
    median_target,
    reframe,
    uncentre,
    usual_norm_csr,
    usual_norm_dense,
)
from driftsurf.kernels.linear import discharge_csr, discharge_dense, saga_both_dense, saga_csr, saga_dense
from driftsurf.kernels.losses import (
    evidence_terms,
    largest_of_two,
    logistic_losses,
    output_losses,
    pairwise_sum,
    squared_length,
    weighted_sum,
)
from driftsurf.kernels.remote import ADDRESS, DIRECT, Remote
from driftsurf.kernels.scores import log_softmax, margins_csr, margins_dense, outputs_csr, outputs_dense


class Kernels(NamedTuple):
    """An address for each kernel."""

    margins: Any
    losses: Any
    weighted_sum: Any
    squared_length: Any
    schedule: Any
    saga: Any
    saga_both: Any
    saga_anchored: Any
    discharge: Any
    fill: Any
    frame: Any
    reframe: Any
    usual_norm: Any
    uncentre: Any
    largest: Any
    outputs: Any
    limited_outputs: Any
    output_losses: Any
    output_saga: Any
    output_discharge: Any
    evidence: Any
    pairwise_sum: Any
    median_target: Any
    extend_range: Any
    log_softmax: Any
    # Parts of a step, which call the kernels above (``parts.py``).
    make_model: Any
    rescale: Any
    missed_class: Any
    meet: Any
    trivial_risk: Any
    score_outputs: Any
    lost_by_outputs: Any
    penalty_of_outputs: Any
    train_outputs: Any
    finish_outputs: Any
    forget_outputs: Any


_MATRIX = _out(F8, 2)
REMOTES: dict[str, Remote] = {
    "margins": Remote(margins_dense, lambda f: types.none(_rows(f), _in(F8), _out(F8)), sparse=margins_csr),
    "losses": Remote(logistic_losses, lambda f: types.none(_in(F8), _in(F8), _out(F8))),
    "weighted_sum": Remote(weighted_sum, lambda f: types.UniTuple(F8, 2)(_in(F8), _in(F8))),
    "squared_length": Remote(squared_length, lambda f: F8(_in(F8), _in(F8))),
    "schedule": Remote(schedule, lambda f: I8(_out(I8), _out(F8), _out(F8), I8, I8, types.uint64, I8, types.boolean)),
    "saga": Remote(
        saga_dense, lambda f: I8(_labelled(f), _in(I8), MODEL, I8, F8, F8, FRAME, types.none), sparse=saga_csr
    ),
    "saga_both": Remote(  # for dense rows only: training on sparse rows is not paired
        saga_both_dense, lambda f: types.UniTuple(I8, 2)(*2 * (_labelled(f), _in(I8), MODEL, I8, F8, FRAME), F8)
    ),
    "saga_anchored": Remote(
        saga_dense, lambda f: I8(_labelled(f), _in(I8), MODEL, I8, F8, F8, FRAME, _in(F8)), sparse=saga_csr
    ),
    "discharge": Remote(discharge_dense, lambda f: I8(_rows(f), _in(F8), _out(F8), FRAME), sparse=discharge_csr),
    "fill": Remote(fill_uniform, lambda f: I8(_out(F8), types.uint64, I8), values=F8),
    "frame": Remote(
        frame_dense,
        lambda f: types.none(_rows(f), _in(F8), FLAG, RULES, I8, _out(F8), _out(F8), _MATRIX, _out(F8)),
        sparse=frame_csr,
    ),
    "reframe": Remote(reframe, lambda f: types.none(_MATRIX, _MATRIX, _out(F8), _out(F8), _in(F8), _in(F8), F8)),
    "usual_norm": Remote(
        usual_norm_dense, lambda f: F8(_rows(f), _in(F8), _in(F8), _in(F8), F8, _out(F8)), sparse=usual_norm_csr
    ),
    "uncentre": Remote(uncentre, lambda f: types.none(_in(F8, 2), _in(F8), F8, _MATRIX)),
    "largest": Remote(largest_of_two, lambda f: F8(_in(F8), _in(F8))),
    "outputs": Remote(
        outputs_dense, lambda f: types.none(_rows(f), _in(F8, 2), _MATRIX, types.none), sparse=outputs_csr
    ),
    "limited_outputs": Remote(
        outputs_dense, lambda f: types.none(_rows(f), _in(F8, 2), _MATRIX, _in(F8, 2)), sparse=outputs_csr
    ),
    "output_losses": Remote(output_losses, lambda f: types.none(_in(F8), _in(F8), I8, F8, _out(F8))),
    "output_saga": Remote(
        multi.saga_dense,
        lambda f: I8(_labelled(f), _in(I8), multi.MODEL, I8, F8, F8, FRAME, multi.LOSS, _MATRIX),
        sparse=multi.saga_csr,
    ),
    "output_discharge": Remote(
        multi.discharge_dense, lambda f: I8(_rows(f), _in(F8, 2), _MATRIX, FRAME), sparse=multi.discharge_csr
    ),
    "evidence": Remote(evidence_terms, lambda f: I8(_in(F8), _in(F8), _in(F8), F8, _MATRIX)),
    "pairwise_sum": Remote(pairwise_sum, lambda f: F8(_in(F8), _out(F8))),
    "median_target": Remote(median_target, lambda f: F8(_in(F8), _in(F8), _out(F8))),
    "extend_range": Remote(
        extend_range_dense, lambda f: I8(_rows(f), _in(F8), _out(F8), _out(F8)), sparse=extend_range_csr
    ),
    "log_softmax": Remote(log_softmax, lambda f: types.none(_MATRIX)),
}
"""Kernels that know nothing of cells."""

# Global functions, since compiled code cannot look up an attribute of an object.
margins_at: Any = REMOTES["margins"].at
losses_at: Any = REMOTES["losses"].at
weighted_sum_at: Any = REMOTES["weighted_sum"].at
squared_length_at: Any = REMOTES["squared_length"].at
schedule_at: Any = REMOTES["schedule"].at
saga_at: Any = REMOTES["saga"].at
saga_both_at: Any = REMOTES["saga_both"].at
saga_anchored_at: Any = REMOTES["saga_anchored"].at
discharge_at: Any = REMOTES["discharge"].at
fill_at: Any = REMOTES["fill"].at
frame_at: Any = REMOTES["frame"].at
reframe_at: Any = REMOTES["reframe"].at
usual_norm_at: Any = REMOTES["usual_norm"].at
uncentre_at: Any = REMOTES["uncentre"].at
largest_at: Any = REMOTES["largest"].at
outputs_at: Any = REMOTES["outputs"].at
limited_outputs_at: Any = REMOTES["limited_outputs"].at
output_losses_at: Any = REMOTES["output_losses"].at
output_saga_at: Any = REMOTES["output_saga"].at
output_discharge_at: Any = REMOTES["output_discharge"].at
evidence_at: Any = REMOTES["evidence"].at
pairwise_sum_at: Any = REMOTES["pairwise_sum"].at
median_target_at: Any = REMOTES["median_target"].at
extend_range_at: Any = REMOTES["extend_range"].at
log_softmax_at: Any = REMOTES["log_softmax"].at


def kernels_type() -> Any:
    """Return the numba type of ``Kernels``."""
    return types.NamedUniTuple(ADDRESS if calls_by_address() else DIRECT, len(Kernels._fields), Kernels)


@functools.cache
def calls_by_address() -> bool:
    """Return whether this version of numba can call kernels by address; tested at the first call.

    If it cannot, a warning says so once: loops then call kernels in the ordinary way.
    """
    if numba.config.DISABLE_JIT:  # a kernel as plain Python is its own address
        return True
    try:
        problem = remote.self_test()
    except Exception as error:  # whatever another version of numba raises
        problem = f"{type(error).__name__}: {error}"
    if problem:
        warnings.warn(
            f"with numba {numba.__version__} compiled time steps cannot call kernels by their addresses ({problem}). A "
            "single model takes the steps that are not compiled. A fleet calls kernels in the ordinary way: it is "
            "slower, and the last bits of a key's weights may differ from those of a separate model. Use a version of "
            "numba that driftsurf was tested with to avoid this.",
            CompilationWarning,
            stacklevel=2,
        )
    return not problem
