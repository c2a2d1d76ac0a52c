"""Decorators that compile the kernels: one signature each, on first use, cached on disk.

numba reuses compiled code as long as the file of the kernel itself is unchanged. It does not notice changes in other
files. So a helper belongs into the file of the kernel that calls it, and after a change to this file or to
``prefetch.py`` the ``__pycache__`` folders have to be removed (``make clean``).
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np
from numba import types
from numba.extending import register_jitable

from driftsurf.kernels.cache import compile_cached, is_cached

Function = TypeVar("Function", bound=Callable[..., Any])

# Sums may be reordered, which lets the compiler vectorise them. Not full fastmath, which would assume that there are no
# NaN and no infinities: isnan and comparisons with infinity must work. (isfinite does not work with these flags: numba
# compiles it to x - x == 0, which may be simplified to 0 == 0.)
FASTMATH = {"reassoc", "contract", "arcp", "nsz"}
UNWRAPPED: dict[str, Any] = {"no_cfunc_wrapper": True}
"""Saves a twentieth of the compilation: nothing calls the wrapper that numba would add for C callbacks."""
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", **UNWRAPPED}
PART: dict[str, Any] = {"no_cpython_wrapper": True, "_nrt": False}
"""Further options of a kernel that only other kernels call: nothing for Python, and no counts of references."""


def inline(function: Function) -> Function:
    """Mark a helper function that kernels may call; the optimiser decides whether to inline it."""
    return cast("Function", register_jitable(**UNWRAPPED)(function))


def merged(function: Function) -> Function:
    """Mark a helper function that the optimiser must inline, however large it is.

    The optimiser would call a large helper, copy every array argument onto the stack and count references to it. With
    tuples of arrays that takes a quarter of the time of a fleet.
    """
    return cast("Function", register_jitable(forceinline=True, **UNWRAPPED)(function))


def written_out(function: Function) -> Function:
    """Mark a helper function whose source is copied into the kernels that call it, before anything is optimised.

    With ``inline``, a helper that calls another helper still counts references to its arrays, even when the optimiser
    inlines both; that takes a quarter of a step.
    """
    return cast("Function", register_jitable(inline="always", **UNWRAPPED)(function))


UNCOUNTED: dict[str, Any] = {"forceinline": True, "_nrt": False, **UNWRAPPED}
"""Options of ``uncounted``."""


def uncounted(function: Function) -> Function:
    """Mark a helper function that the optimiser must inline, and that counts no references to its arrays.

    The function that calls it, or one further up, must hold the arrays. Without counting, a large kernel with many
    helpers compiles in half of the time.
    """
    return cast("Function", register_jitable(**UNCOUNTED)(function))


def renamed(function: Function, name: str) -> Function:
    """Return the same function under another name, for a kernel with its own place in the cache."""
    copied: Any = FunctionType(function.__code__, function.__globals__, name)
    copied.__qualname__, copied.__module__, copied.__doc__ = name, function.__module__, function.__doc__
    return cast("Function", copied)


def kernel(
    signature: Callable[[Any], tuple[Any, ...]], *, exact: bool = False, part: bool = False
) -> Callable[[Function], Function]:
    """Compile a function for exactly one signature per type of row, on first use, cached on disk.

    Input arrays are declared read-only, which accepts writable arrays too; numba's own signatures would compile a
    kernel again for every mixture of the two. If the last argument is None, a separate kernel without it is compiled.

    Parameters
    ----------
    signature
        Returns the types of the arguments, given the type of the row values (float32 or float64).
    exact
        Keep the order of arithmetic, for kernels whose result has to agree with other code to the bit.
    part
        The kernel is part of others, which hold its arrays: it cannot be called from Python, and compiles faster.

    Returns
    -------
    A decorator. The decorated function has an attribute ``compiled_for(row_type, without_last)``, which returns the
    compiled function, for callers that need its address; and ``is_at_hand()``, which says whether it can be called
    without being compiled first.
    """

    def decorate(function: Function) -> Function:
        options = {**OPTIONS, **PART} if part else OPTIONS
        if numba.config.DISABLE_JIT:
            function.is_at_hand = lambda: True  # type: ignore[attr-defined]
            function.compiled_for = lambda *_: function  # type: ignore[attr-defined]
            return function
        # Two dictionaries by type of row: one with pairs as keys would have to build a pair at every call.
        whole: dict[Any, Callable[..., Any]] = {}
        lacking: dict[Any, Callable[..., Any]] = {}
        # Most kernels take no rows and have one signature for all types. They need no dictionary, which takes as long
        # as numba's own call.
        only: Callable[..., Any] | None = None

        def compiled_for(row_type: Any, without_last: bool) -> Callable[..., Any]:
            nonlocal only
            compiled = lacking if without_last else whole
            run = compiled.get(row_type)
            if run is None:
                declared = signature(types.float32 if row_type == np.float32 else types.float64)
                if without_last:
                    declared = (*declared[:-1], types.none)
                run = compile_cached(function, declared, fastmath=not exact and FASTMATH, **options)
                compiled[row_type] = run
                if signature(types.float32) == signature(types.float64):
                    only = run
            return run

        def call(*arguments: Any) -> Any:
            if only is not None:
                return only(*arguments)
            first = arguments[0]
            while isinstance(first, tuple):
                first = first[0]
            row_type = first.dtype
            without_last = arguments[-1] is None
            run = (lacking if without_last else whole).get(row_type)
            return (run or compiled_for(row_type, without_last))(*arguments)

        call.__doc__ = function.__doc__
        call.__name__ = function.__name__
        call.__wrapped__ = function  # type: ignore[attr-defined]
        call.compiled_for = compiled_for  # type: ignore[attr-defined]
        call.is_at_hand = lambda: bool(whole or lacking) or is_cached(function)  # type: ignore[attr-defined]
        return cast("Function", call)

    return decorate


def _in(element: Any, dimensions: int = 1) -> Any:
    """Type of a read-only C-contiguous array."""
    return types.Array(element, dimensions, "C", readonly=True)


def _out(element: Any, dimensions: int = 1) -> Any:
    """Type of a writable C-contiguous array."""
    return types.Array(element, dimensions, "C")


F8: Any = types.float64
I8: Any = types.int64


def _dense(f: Any) -> Any:
    """Type of dense rows: (X, y, weight)."""
    return types.Tuple((_in(f, 2), _in(F8), _in(F8)))


def _sparse(f: Any) -> Any:
    """Type of sparse rows without targets: (data, indices, indptr)."""
    return types.Tuple((_in(f), _in(types.int32), _in(I8)))


def _csr(f: Any) -> Any:
    """Type of sparse rows: (data, indices, indptr, y, weight)."""
    return types.Tuple((*_sparse(f).types, _in(F8), _in(F8)))


class Sparse(NamedTuple):
    """The type of the values of CSR rows, where kernels for dense and for sparse rows are told apart by this type."""

    values: Any


def _rows(f: Any) -> Any:
    """Type of rows without targets, dense or sparse."""
    return _sparse(f.values) if isinstance(f, Sparse) else _in(f, 2)


def _labelled(f: Any) -> Any:
    """Type of rows with targets and weights, dense or sparse."""
    return _csr(f.values) if isinstance(f, Sparse) else _dense(f)


MODEL: Any = types.UniTuple(_out(F8), 3)
"""Type of a linear model: (w, G, table)."""
FRAME: Any = types.Tuple((_in(F8), _in(F8), _in(I8)))
"""Type of a frame: (gain, centre, centred)."""
