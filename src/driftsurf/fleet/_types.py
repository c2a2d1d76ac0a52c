"""The types of what the loops of a fleet are given.

Who changes this file removes the ``__pycache__`` folders (``make clean``): numba does not notice.
"""

from __future__ import annotations

from numba import from_dtype, types

from driftsurf._kernels import F8, FRAME, I8, _in, _out
from driftsurf.fleet import _layout
from driftsurf.fleet._parts import REMOTES

F4, U1 = types.float32, types.uint8
KEYS, MODELS = _out(from_dtype(_layout.KEY)), _out(from_dtype(_layout.MODEL))
STORE = types.Tuple((_out(F4), _out(U1), _out(F8), MODELS, KEYS, types.UniTuple(I8, 8)))
BATCH = types.Tuple((_in(F4, 2), _in(U1), _in(U1), _out(U1)))
GROUPS = types.Tuple((_in(I8), _in(I8), _in(types.int32), _out(types.boolean)))
RULE = types.Tuple((F8, F8, I8, types.boolean))
HOW = types.Tuple((I8, I8, F8, F8, F8, types.boolean))
LOG = types.Tuple((_out(from_dtype(_layout.TRANSITION)), _out(I8)))
SCRATCH = types.Tuple((_out(F8), _out(F8), _in(F8), _in(F8), _out(I8, 2), FRAME, _out(U1), _out(F8)))
PARTS = types.UniTuple(I8, len(REMOTES))
