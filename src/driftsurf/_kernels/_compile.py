"""How the loops are compiled: one signature each, lazily, kept on disk.

numba keeps compiled code for as long as the file that the loop is in stays the same. So what a loop calls
belongs into its own file; and who changes this one, or ``_prefetch.py``, removes the ``__pycache__`` folders
(``make clean``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba import types
from numba.extending import register_jitable

from driftsurf._cache import compile_cached

Function = TypeVar("Function", bound=Callable[..., Any])

# Not full fastmath: isnan and comparisons with infinity must keep telling the truth. (isfinite does not: numba makes
# it x - x == 0, which may be reordered to 0 == 0.)
FASTMATH = {"reassoc", "contract", "arcp", "nsz"}


def inline(function: Function) -> Function:
    """A helper that is compiled into the kernels that call it."""
    return cast("Function", register_jitable(function))


def merged(function: Function) -> Function:
    """A helper that becomes a part of the kernels that call it, however large it is.

    Left to itself the optimiser calls a large one, with every array that it takes copied onto the stack and counted:
    with tuples of arrays a quarter of the time of a fleet.
    """
    return cast("Function", register_jitable(forceinline=True)(function))


def written_out(function: Function) -> Function:
    """A helper whose lines stand in the kernels that call it, as if they were written there.

    Unlike ``inline``, which leaves it to the optimiser: that does not get rid of the counts of references to arrays
    that a call of a call makes, a quarter of a step.
    """
    return cast("Function", register_jitable(inline="always")(function))


def kernel(signature: Callable[[Any], tuple[Any, ...]], *, exact: bool = False) -> Callable[[Function], Function]:
    """Compile for exactly one signature per type of row, on first use, cached on disk.

    Input arrays are declared read-only, which accepts writable ones too; left to itself numba would
    compile each kernel again for every mixture of the two. The last argument may be None, which compiles a
    kernel of its own without what it is for. ``exact`` keeps the order of arithmetic, for what has to agree
    with others to the bit. ``compiled_for`` of a kernel gives the compiled function, for who calls it by address.
    """

    def decorate(function: Function) -> Function:
        if numba.config.DISABLE_JIT:
            return function
        # By type of row; not in one dictionary by both, whose keys would have to be made for every call.
        whole: dict[Any, Callable[..., Any]] = {}
        lacking: dict[Any, Callable[..., Any]] = {}

        def compiled_for(row_type: Any, without_last: bool) -> Callable[..., Any]:
            compiled = lacking if without_last else whole
            run = compiled.get(row_type)
            if run is None:
                declared = signature(types.float32 if row_type == np.float32 else types.float64)
                if without_last:
                    declared = (*declared[:-1], types.none)
                run = compile_cached(
                    function, declared, nogil=True, fastmath=not exact and FASTMATH, error_model="numpy"
                )
                compiled[row_type] = run
            return run

        def call(*arguments: Any) -> Any:
            first = arguments[0]
            row_type = (first[0] if isinstance(first, tuple) else first).dtype
            without_last = arguments[-1] is None
            run = (lacking if without_last else whole).get(row_type)
            return (run or compiled_for(row_type, without_last))(*arguments)

        call.__doc__ = function.__doc__
        call.__name__ = function.__name__
        call.__wrapped__ = function  # type: ignore[attr-defined]
        call.compiled_for = compiled_for  # type: ignore[attr-defined]
        return cast("Function", call)

    return decorate


def _in(element: Any, dimensions: int = 1) -> Any:
    return types.Array(element, dimensions, "C", readonly=True)


def _out(element: Any, dimensions: int = 1) -> Any:
    return types.Array(element, dimensions, "C")


F8, I8 = types.float64, types.int64


def _dense(f: Any) -> Any:
    return types.Tuple((_in(f, 2), _in(F8), _in(F8)))


def _csr(f: Any) -> Any:
    return types.Tuple((_in(f), _in(types.int32), _in(I8), _in(F8), _in(F8)))


MODEL = types.UniTuple(_out(F8), 3)
FRAME = types.Tuple((_in(F8), _in(F8), _in(I8)))
