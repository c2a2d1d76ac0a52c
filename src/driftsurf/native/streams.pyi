"""Generators of synthetic streams."""

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray, IntArray

def java_state(seed: int) -> int: ...
def java_doubles(out: FloatArray, state: IntArray) -> None: ...
def sea(
    X: FloatArray,
    y: IntArray,
    state: tuple[IntArray, IntArray, IntArray, IntArray],
    theta: FloatArray,
    p: float,
    w: float,
    noise: int,
) -> None: ...
def hyperplane(
    X: FloatArray,
    y: IntArray,
    state: IntArray,
    w: FloatArray,
    signs: FloatArray,
    magnitude: float,
    noise: int,
    reversal: int,
) -> None: ...
def balanced(
    X: FloatArray,
    positive: npt.NDArray[np.bool_],
    plan: tuple[IntArray, IntArray, FloatArray],
    words: IntArray,
    start: int,
    kind: int,
) -> tuple[int, int]: ...
