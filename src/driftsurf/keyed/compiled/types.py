"""The numba types of the arguments of a fleet's loops.

numba does not notice changes to this file: remove the ``__pycache__`` folders (``make clean``) after changing it.
"""

from __future__ import annotations

from typing import Any

from numba import from_dtype, types

from driftsurf.kernels.compile import F8, I8, _in, _out
from driftsurf.keyed.compiled import layout
from driftsurf.keyed.compiled.guard_memory import Guarding
from driftsurf.keyed.compiled.guarding import guard_scratch_type
from driftsurf.strategies.compiled.layout import COUNTS, MODEL, SCRATCH, named_type

U1: Any = types.uint8
FLAG: Any = types.boolean


def blocks_type(f: Any, labels: Any = U1, form: Any = layout.Blocks) -> Any:
    """Return the type of blocks with rows and labels of these types."""
    return named_type(
        form,
        values=_out(f),
        labels=_out(labels),
        uint8=_out(U1),
        int64=_out(I8),
        float64=_out(F8),
        keys=_out(from_dtype(layout.KEY)),
        counts=_out(from_dtype(COUNTS)),
        models=_out(from_dtype(MODEL)),
        classes=_out(U1, 2),
        norms=_out(F8),
        norm_starts=_out(I8),
        norm_counts=_out(I8),
        guarding=named_type(Guarding, squared=F8, quadratic=FLAG),
        places=named_type(
            layout.Places,
            **(
                dict.fromkeys(layout.Places._fields, I8)
                | dict.fromkeys(("weighted", "filled", "guarded", "growing"), FLAG)
            ),
        ),
    )


def batch_type(f: Any, labels: Any = U1, form: Any = layout.Batch) -> Any:
    """Return the type of a batch with rows and labels of these types; rows with gaps are float64.

    Unlike plain tuples, named ones are not converted: an array must be declared as read-only exactly if it is.
    """
    rows = _in(F8 if form is layout.GappyBatch else f, 2)
    return named_type(form, rows=rows, codes=_out(labels), weight=_out(F8), bad=_out(U1), predicted=_out(labels))


GROUPS = named_type(layout.Groups, slots=_out(I8), starts=_out(I8), order=_out(types.int32), diverged=_out(FLAG))
STEPS = named_type(layout.Steps, batch_size=I8, per_row=F8, per_batch=I8)
LOG = named_type(layout.TransitionLog, entries=_out(from_dtype(layout.TRANSITION)), length=_out(I8))


def working_type(f: Any) -> Any:
    """Return the type of the working memory for rows of this type."""
    vectors = dict.fromkeys(("y", "ones", "margins", "judged"), _out(F8))
    return named_type(layout.Scratch, saved=_out(I8), guard=guard_scratch_type(f), step=SCRATCH, **vectors)
