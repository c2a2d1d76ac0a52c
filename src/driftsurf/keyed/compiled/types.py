"""The numba types of the arguments of a fleet's loops.

numba does not notice changes to this file: remove the ``__pycache__`` folders (``make clean``) after changing it.
"""

from __future__ import annotations

from typing import Any

from numba import from_dtype, types

from driftsurf.kernels.compile import F8, I8, _in, _out
from driftsurf.keyed.compiled import layout

F4: Any = types.float32
U1: Any = types.uint8
FLAG: Any = types.boolean


def _named(kind: Any, **fields: Any) -> Any:
    """Return the type of a NamedTuple; its fields are given by name, in any order."""
    return types.NamedTuple([fields[name] for name in kind._fields], kind)


BLOCKS = _named(
    layout.Blocks,
    float32=_out(F4),
    uint8=_out(U1),
    float64=_out(F8),
    models=_out(from_dtype(layout.MODEL)),
    keys=_out(from_dtype(layout.KEY)),
    places=types.NamedUniTuple(I8, len(layout.Places._fields), layout.Places),
)
# Unlike plain tuples, named ones are not converted: an array must be declared as read-only exactly if it is.
BATCH = _named(layout.Batch, rows=_in(F4, 2), codes=_out(U1), bad=_out(U1), predicted=_out(U1))
GROUPS = _named(layout.Groups, slots=_out(I8), starts=_out(I8), order=_out(types.int32), diverged=_out(FLAG))
RULE = _named(layout.Rule, threshold=F8, stable_threshold=F8, reactive_length=I8, greedy=FLAG)
TRAINING = _named(
    layout.Training, batch_size=I8, max_rows=I8, steps_per_row=F8, step_size=F8, l2=F8, uniform_start=FLAG
)
LOG = _named(layout.TransitionLog, entries=_out(from_dtype(layout.TRANSITION)), length=_out(I8))
SCRATCH = _named(
    layout.Scratch,
    labels=_out(F8),
    margins=_out(F8),
    ones=_out(F8),
    factor=_out(F8),
    orders=_out(I8, 2),
    frame=types.Tuple((_out(F8), _out(F8), _out(I8))),
    saved=_out(U1),
    losses=_out(F8),
)
