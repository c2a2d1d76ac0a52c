"""ADWIN: adaptive windowing."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray, IntArray, State
from driftsurf.core.fields import Array, FieldRule, Fields, Real
from driftsurf.core.options import number, truth, whole
from driftsurf.detectors._base import LEVEL, BaseDetector, in_turn
from driftsurf.native import detectors as _loops
from driftsurf.registry import register

MOST_SAVED_ROWS = _loops.MOST_ROWS - 10
"""Most sizes of buckets in a saved state, which leaves room for the values after it."""
MOST_BUCKETS = 1_000
"""Most buckets of each size, which bounds the memory, whatever a saved state asks for."""


@register("detector", "adwin", options={"increase_only": True})
class ADWIN(BaseDetector):
    r"""ADWIN: a window of adaptive length that drops its older part when the means of its parts differ.

    The window of n values is stored as an exponential histogram, with up to ``max_buckets`` buckets of each size 1, 2,
    4, ..., so that memory grows as log n. It is checked at each boundary between buckets: with n0 and n1 values before
    and after it, and v the variance of the window, the means of the two parts differ if

    .. math:: |\mu_0 - \mu_1| > \sqrt{2 m v \ln(2 \ln(n) / \delta)} + \tfrac23 m \ln(2 \ln(n) / \delta).

    Then the oldest bucket is dropped, until no two parts differ, and a drift is signalled. m is 1 / n0 + 1 / n1 in the
    paper. As in the authors' implementation, a part has at least L = ``min_length`` values, and m is
    1 / (n0 - L + 1) + 1 / (n1 - L + 1).

    Values are errors, 1 = wrong, or any numbers; the bound is meant for a range of about 1. As published, the window
    that is left after a signal is kept: there is no reset. An extreme value would hide every change, so once there are
    32 values, new ones are clipped to ten times the root mean square of the window, and to 1 at least. If the root mean
    square of the window is at least a thousand, and a thousand times that of its newest 32 values, there was an extreme
    value among the first: all but those 32 are dropped without a signal.

    Parameters
    ----------
    delta
        Probability of a false alarm in one check.
    clock
        Number of values between two checks of the window.
    max_buckets
        M, the largest number of buckets of each size; more make the boundaries finer.
    min_length
        Smallest number of values of a part.
    increase_only
        Whether to signal only when the mean has risen. The window shrinks at any change.

    Examples
    --------
    >>> import numpy as np
    >>> errors = np.random.default_rng(0).random(2000) < np.repeat([0.1, 0.5], 1000)
    >>> detector = ADWIN()
    >>> detector.update(errors)
    Detection(consumed=1056, drift=True)
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
        """Raise OptionError if a parameter is invalid."""
        number("delta", self.delta, above=0.0, below=1.0)
        whole("clock", self.clock, at_least=1)
        whole("max_buckets", self.max_buckets, at_least=2, at_most=MOST_BUCKETS)
        whole("min_length", self.min_length, at_least=1)
        truth("increase_only", self.increase_only)

    @property
    @in_turn
    def width(self) -> int:
        """Number of values in the window."""
        self._make_ready()
        return int((self._buckets[2] << np.arange(_loops.MOST_ROWS)).sum())

    @property
    @in_turn
    def estimate(self) -> float:
        """Mean of the values in the window; 0 without any."""
        self._make_ready()
        return float(self._buckets[0][self._live()].sum()) / max(1, self.width)

    def _live(self) -> npt.NDArray[np.bool_]:
        """Return which places hold a bucket."""
        return np.less.outer(np.arange(self.max_buckets + 1), self._buckets[2]).T

    def _begin(self) -> None:
        super()._begin()
        shape = _loops.MOST_ROWS, self.max_buckets + 1
        self._buckets = np.zeros(shape), np.zeros(shape), np.zeros(_loops.MOST_ROWS, np.int64)

    def _after_signal(self) -> None:
        self._numbers = (_loops.STEADY, *self._numbers[1:])

    def _run(self, values: FloatArray) -> int:
        consumed, self._numbers = _loops.adwin(
            values, self._numbers, self._buckets, self.delta, self.clock, self.min_length, self.increase_only
        )
        return int(consumed)

    @in_turn
    def state(self) -> State:
        """Return everything that values change: the number of buckets of each size, smallest first, and their sums."""
        state = super().state()
        sums, squares, counts = self._buckets
        live = self._live()
        return state | {"counts": counts[counts > 0], "sums": sums[live], "squared_deviations": squares[live]}

    @in_turn
    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a state that ``state()`` of a detector with the same parameters returned."""
        self.check()
        known = self._fields().read(state)
        counts = known["counts"]
        self._begin()
        self._buckets[2][: len(counts)] = counts
        live = self._live()
        self._buckets[0][live], self._buckets[1][live] = known["sums"], known["squared_deviations"]
        self._numbers = known["level"], known["since_check"]

    def _fields(self) -> Fields:
        return adwin_fields(int(self.max_buckets))

    _buckets: tuple[FloatArray, FloatArray, IntArray]
    """Sums, sums of squared deviations, and the number of buckets of each size."""


@functools.lru_cache(maxsize=64)
def adwin_fields(max_buckets: int) -> Fields:
    """Return the declaration of the saved entries, with at most this many buckets of each size."""
    return Fields(
        {
            "level": LEVEL,
            "since_check": Real(least=0.0),
            "counts": Array(np.int64, ("sizes",), least=1, most=max_buckets),
            "sums": Array(np.float64, ("buckets",)),
            "squared_deviations": Array(np.float64, ("buckets",), least=0.0),
        },
        rules=[
            FieldRule(
                "counts",
                f"must have at most {MOST_SAVED_ROWS} values, whose sum is the number of buckets",
                lambda known: known["sizes"] <= MOST_SAVED_ROWS and known["counts"].sum() == known["buckets"],
            )
        ],
    )
