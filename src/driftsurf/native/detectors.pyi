"""Loops of the drift detectors."""

from driftsurf.core.contracts import FloatArray, IntArray

STEADY: float
WARNING: float
DRIFT: float
MOST_ROWS: int

Numbers = tuple[float, ...]

def ddm(
    values: FloatArray, numbers: Numbers, min_rows: int, warning_level: float, drift_level: float
) -> tuple[int, Numbers]: ...
def eddm(
    values: FloatArray, numbers: Numbers, min_errors: int, warning_level: float, drift_level: float
) -> tuple[int, Numbers]: ...
def sliding_mean(
    values: FloatArray, numbers: Numbers, buffer: FloatArray, weights: FloatArray, threshold: float
) -> tuple[int, Numbers]: ...
def page_hinkley(
    values: FloatArray, numbers: Numbers, min_rows: int, delta: float, threshold: float, alpha: float
) -> tuple[int, Numbers]: ...
def adwin(
    values: FloatArray,
    numbers: Numbers,
    buckets: tuple[FloatArray, FloatArray, IntArray],
    delta: float,
    clock: int,
    min_length: int,
    increase_only: bool,
) -> tuple[int, Numbers]: ...
