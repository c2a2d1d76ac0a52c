import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray, IntArray, Rows

Words = npt.NDArray[np.int32]

class TreeSum:
    """Decision trees whose values are added up."""

    def __init__(
        self,
        nodes: Words,
        thresholds: FloatArray,
        leaves: FloatArray,
        bits: Words,
        roots: Words,
        outputs: int,
        columns: int,
    ) -> None: ...
    @property
    def columns(self) -> int: ...
    @property
    def outputs(self) -> int: ...
    def __call__(self, X: Rows) -> FloatArray: ...

def log_shares(sums: FloatArray, present: IntArray, n_classes: int, least: float) -> FloatArray: ...
