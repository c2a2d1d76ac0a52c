"""What keys learn beside a shared prediction, and the loop over their rows."""

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray, IntArray

class Differences:
    def __init__(
        self, d: int, outputs: int, regression: bool, widths: tuple[float, ...], forget: float, recall: float
    ) -> None: ...
    @property
    def size(self) -> int: ...
    def begin(self, keys: npt.NDArray[np.float32]) -> None: ...
    def observe(
        self,
        keys: npt.NDArray[np.float32],
        slots: IntArray,
        starts: IntArray,
        order: IntArray,
        X: FloatArray,
        targets: FloatArray,
        weights: FloatArray | None,
        predicted: FloatArray,
        alone: FloatArray,
    ) -> None: ...
