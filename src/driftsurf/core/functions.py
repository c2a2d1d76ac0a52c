"""Elementary functions of arrays with the same bits on every machine.

Those of numpy and of ``math`` are the C library's, or have vector instructions, and their last bits differ. Whatever
reaches a decision or a saved state uses these, or those of ``driftsurf.native.maths`` for single numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray
from driftsurf.native.maths import evaluate, usual_mode

Function = TypeVar("Function", bound=Callable[..., Any])


def exp(x: npt.ArrayLike) -> FloatArray:
    """Return the exponential of each number.

    >>> exp([0.0, 1.0]).round(3)
    array([1.   , 2.718])
    """
    return _each("exp", x)


def log(x: npt.ArrayLike) -> FloatArray:
    """Return the natural logarithm of each number.

    >>> log([1.0, 2.0]).round(3)
    array([0.   , 0.693])
    """
    return _each("log", x)


def log1p(x: npt.ArrayLike) -> FloatArray:
    """Return log(1 + x) of each number, also exact near 0.

    >>> log1p([0.0, 1e-20])
    array([0.e+00, 1.e-20])
    """
    return _each("log1p", x)


def _each(name: str, x: npt.ArrayLike) -> FloatArray:
    values = np.asarray(x, np.float64, order="C")
    out = np.empty(values.shape)
    evaluate(name, values.reshape(-1), out.reshape(-1))
    return out


def in_usual_mode(call: Function) -> Function:
    """Let a function compute in the usual floating-point mode, whatever a library has set in this thread.

    Compiled code does so itself; this is for arithmetic of Python and NumPy.
    """

    @functools.wraps(call)
    def called(*arguments: Any, **options: Any) -> Any:
        with usual_mode():
            return call(*arguments, **options)

    return cast("Function", called)
