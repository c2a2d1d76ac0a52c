from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray, IntArray, Rows

Arrays: TypeAlias = tuple[FloatArray, FloatArray, FloatArray]
Frame: TypeAlias = tuple[FloatArray, FloatArray]
Singles: TypeAlias = npt.NDArray[np.float32]

def moments_after(X: Rows, weight: FloatArray, group: FloatArray | None, known: Arrays) -> Arrays: ...
def standardise(known: Arrays, centred: bool) -> Frame: ...
def bayes(known: Arrays, smoothing: float) -> Arrays: ...
def log_posteriors(X: Rows, mean: FloatArray, factor: FloatArray, start: FloatArray) -> FloatArray: ...
def train_network(
    X: Rows,
    y: FloatArray,
    weight: FloatArray,
    order: IntArray,
    size: int,
    rate: float,
    time: float,
    H: int,
    n_classes: int,
    columns: Arrays,
    centred: bool,
    theta: Singles,
    m: Singles,
    v: Singles,
) -> tuple[Arrays, Frame, Singles, Singles, Singles, float] | None: ...
def network_outputs(X: Rows, H: int, n_classes: int, frame: Frame, theta: Singles) -> FloatArray: ...
def stacked_shares(scores: Sequence[npt.NDArray[Any]], n_classes: int) -> FloatArray: ...
def mixed(G: FloatArray, weights: FloatArray) -> FloatArray: ...
def after_classes(
    G: FloatArray, y: FloatArray, weight: FloatArray, v: FloatArray, A: FloatArray, keep: float, ridge: float
) -> tuple[FloatArray, FloatArray] | None: ...
def after_values(
    m: FloatArray, y: FloatArray, weight: FloatArray, s: float, v: FloatArray, A: FloatArray, keep: float, ridge: float
) -> tuple[FloatArray, FloatArray] | None: ...
def true_class_shares(margins: FloatArray, y: FloatArray) -> FloatArray: ...
def rate_voters(margins: FloatArray, y: FloatArray, weight: FloatArray) -> tuple[float, FloatArray]: ...
def balance_of_votes(margins: FloatArray, weights: FloatArray) -> FloatArray: ...
def follow_losses(
    margins: FloatArray, losses: FloatArray, weight: FloatArray, decay: float
) -> tuple[FloatArray, FloatArray]: ...
