"""ADWIN: adaptive windowing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from driftsurf._options import number, truth, whole
from driftsurf.base import FloatArray, IntArray, State
from driftsurf.detectors import _loops
from driftsurf.detectors._base import BaseDetector

__all__ = ["ADWIN"]

MOST_SAVED_ROWS = _loops.MOST_ROWS - 10
"""Of a histogram in a saved state; what arrives after it has room."""
MOST_BUCKETS = 1_000
"""Of each size: memory is bounded, whatever a saved state asks for."""


class ADWIN(BaseDetector):
    r"""Keeps as many of the last values as have one mean; signals when it drops the older ones.

    The window of n values is kept as an exponential histogram: up to ``max_buckets`` buckets of each size
    1, 2, 4, ..., so that memory grows as log n. It is checked at each boundary between buckets: with n0
    and n1 values before and after it, and v the variance of the window, their means differ when

    .. math:: |\mu_0 - \mu_1| > \sqrt{2 m v \ln(2 \ln(n) / \delta)} + \tfrac23 m \ln(2 \ln(n) / \delta).

    The oldest bucket is then dropped, until no two parts differ. m is 1 / n0 + 1 / n1 in the paper. As in
    the authors' implementation a part has L = ``min_length`` values at least, and m is
    1 / (n0 - L + 1) + 1 / (n1 - L + 1).

    Fed with errors, 1 = wrong, or any numbers; the bound is meant for a range of about 1. As published, the window
    that is left after a signal is the start of what follows: there is no reset. A value out of all proportion would
    hide every change: once there are 32 of them, values are clipped to ten times the root mean square of the window,
    and to 1 at least. When that of the window is a thousand times that of its newest 32 values, and as large as a
    thousand, there was such a value among the first: all but those 32 are dropped without a signal.

    Parameters
    ----------
    delta
        The probability of a false alarm in one check.
    clock
        The window is checked once in so many values.
    max_buckets
        M, of each size: more make the boundaries finer.
    min_length
        The fewest values of a part.
    increase_only
        Whether to signal only when the mean has risen. The window shrinks at any change.

    Examples
    --------
    >>> import numpy as np
    >>> errors = np.random.default_rng(0).random(2000) < np.repeat([0.1, 0.5], 1000)
    >>> detector = ADWIN()
    >>> detector.update(errors), detector.drift
    (1056, True)
    >>> detector.width, round(detector.estimate, 2)
    (160, 0.26)

    References
    ----------
    A. Bifet, R. Gavalda. Learning from time-changing data with adaptive windowing. SDM 2007.
    """

    NUMBERS: ClassVar[dict[str, float]] = {"level": 0.0, "since_check": 0.0}

    def __init__(
        self,
        *,
        delta: float = 0.002,
        clock: int = 32,
        max_buckets: int = 5,
        min_length: int = 5,
        increase_only: bool = False,
    ) -> None:
        self.delta = delta
        self.clock = clock
        self.max_buckets = max_buckets
        self.min_length = min_length
        self.increase_only = increase_only

    def check(self) -> None:
        """Raise OptionError if an option cannot be used."""
        number("delta", self.delta, above=0.0, below=1.0)
        whole("clock", self.clock, at_least=1)
        whole("max_buckets", self.max_buckets, at_least=2, at_most=MOST_BUCKETS)
        whole("min_length", self.min_length, at_least=1)
        truth("increase_only", self.increase_only)

    @property
    def width(self) -> int:
        """Values in the window."""
        self._make_ready()
        return int((self._buckets[2] << np.arange(_loops.MOST_ROWS)).sum())

    @property
    def estimate(self) -> float:
        """Their mean; 0 without any."""
        self._make_ready()
        return float(self._buckets[0][self._live()].sum()) / max(1, self.width)

    def _live(self) -> npt.NDArray[np.bool_]:
        """Which places hold a bucket."""
        return np.less.outer(np.arange(self.max_buckets + 1), self._buckets[2]).T

    def _begin(self) -> None:
        super()._begin()
        shape = _loops.MOST_ROWS, self.max_buckets + 1
        self._buckets = np.zeros(shape), np.zeros(shape), np.zeros(_loops.MOST_ROWS, np.int64)

    def _go_on(self) -> None:
        self._numbers = (_loops.STEADY, *self._numbers[1:])

    def _run(self, values: FloatArray) -> int:
        consumed, self._numbers = _loops.adwin(
            values, self._numbers, self._buckets, self.delta, self.clock, self.min_length, self.increase_only
        )
        return int(consumed)

    def state(self) -> State:
        """Everything that values change: how many buckets of each size, smallest first, and what they hold."""
        state = super().state()
        sums, squares, counts = self._buckets
        live = self._live()
        return state | {"counts": counts[counts > 0], "sums": sums[live], "squared_deviations": squares[live]}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state()`` of a detector with the same parameters gave."""
        self.check()
        numbers = self._read_numbers(state)
        counts = self._array(state, "counts", np.int64)
        kept = [self._array(state, name, np.float64) for name in ("sums", "squared_deviations")]
        # Bytes can be made up; whatever they say must not lead compiled code outside its arrays.
        if not (
            len(counts) <= MOST_SAVED_ROWS
            and np.all((counts >= 1) & (counts <= self.max_buckets))
            and all(len(array) == counts.sum() and np.isfinite(array).all() for array in kept)
        ):
            raise self._misfit()
        self._begin()
        self._buckets[2][: len(counts)] = counts
        live = self._live()
        self._buckets[0][live], self._buckets[1][live] = kept
        self._numbers = numbers

    _buckets: tuple[FloatArray, FloatArray, IntArray]
    """Sums, sums of squared deviations, and how many buckets there are of each size."""
