"""Elementary functions of arrays, and random numbers, with the same bits on every machine.

The functions of numpy and of ``math`` are the C library's, or have vector instructions, and their last bits differ.
Whatever reaches a decision or a saved state uses these, or those of ``driftsurf.native.maths`` for single numbers.

Random numbers are counter-based: word k of a generator is a hash of its seed and k. A generator is one integer, the
seed, and its position is another. No other state exists, so a saved model resumes its draws exactly, any word can be
computed without those before it, and models with different seeds never share a sequence. The hash is the finaliser of
SplitMix64, applied to ``seed + (k + 1) * GAMMA`` (Steele, Lea and Flood, 2014).
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


MASK = 0xFFFFFFFFFFFFFFFF
GAMMA = 0x9E3779B97F4A7C15
MIX_1 = 0xBF58476D1CE4E5B9
MIX_2 = 0x94D049BB133111EB


def word(seed: int, k: int) -> int:
    """Return word ``k`` of the generator ``seed``, an integer below 2**64.

    >>> word(0, 0) == 0xE220A8397B1DCDAF
    True
    """
    z = (seed + (k + 1) * GAMMA) & MASK
    z = ((z ^ (z >> 30)) * MIX_1) & MASK
    z = ((z ^ (z >> 27)) * MIX_2) & MASK
    return z ^ (z >> 31)


def mixed(counters: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The hash of each entry of an array: of ``seed + (k + 1) * GAMMA`` it is word ``k`` of the generator ``seed``.

    >>> import numpy as np
    >>> int(mixed(np.array([GAMMA], np.uint64))[0]) == word(0, 0)
    True
    """
    z = (counters ^ (counters >> np.uint64(30))) * np.uint64(MIX_1)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(MIX_2)
    return z ^ (z >> np.uint64(31))


def derive(seed: int, index: int) -> int:
    """Return the seed of the ``index``-th child of ``seed``, hashed twice so that it is no word of its parent.

    >>> derive(1, 0) != derive(0, 1)
    True
    """
    return word(word(seed, index), 0)
