"""Page-Hinkley test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from driftsurf.core.contracts import FloatArray
from driftsurf.core.fields import FieldRule
from driftsurf.core.options import number, whole
from driftsurf.detectors._base import BaseDetector
from driftsurf.errors import OptionError
from driftsurf.native import detectors as _loops
from driftsurf.registry import register


@register("detector", "page-hinkley", title="Page-Hinkley")
class PageHinkley(BaseDetector):
    r"""Page-Hinkley test: signals when values have stayed above their mean for too long.

    With :math:`\bar x` the mean since the start, this value included, a drift is

    .. math:: m \leftarrow \max(0, \alpha m + x - \bar x - \delta) > \lambda.

    Values are errors, 1 = wrong, or any numbers whose rise is bad; to watch for a fall, pass the negative values. If
    the mean is a thousand times as large as the newest values, and as 1, an extreme value at the start would hide every
    rise: the test then starts over without a signal.

    Parameters
    ----------
    min_rows
        Number of rows before the first signal.
    delta
        Tolerated deviation above the mean.
    threshold
        lambda, the largest sum without a signal.
    alpha
        Share of the sum that is left one row later; 1 for all of it.

    Examples
    --------
    >>> import numpy as np
    >>> errors = np.random.default_rng(0).random(2000) < np.repeat([0.1, 0.5], 1000)
    >>> detector = PageHinkley()
    >>> detector.update(errors)
    Detection(consumed=1107, drift=True)

    References
    ----------
    E. S. Page. Continuous inspection schemes. Biometrika 41, 1954.

    J. Gama, I. Zliobaite, A. Bifet, M. Pechenizkiy, A. Bouchachia. A survey on concept drift adaptation.
    ACM Computing Surveys 46, 2014.
    """

    NUMBERS: ClassVar[dict[str, float]] = {"level": 0.0, "rows": 0.0, "mean": 0.0, "sum": 0.0, "size": 0.0}
    RULES: ClassVar[Sequence[FieldRule]] = (
        FieldRule("rows", "must be at least 0", lambda known: known["rows"] >= 0.0),
    )

    def __init__(
        self, *, min_rows: int = 30, delta: float = 0.005, threshold: float = 50.0, alpha: float = 0.9999
    ) -> None:
        self.min_rows = min_rows
        self.delta = delta
        self.threshold = threshold
        self.alpha = alpha

    def check(self) -> None:
        """Raise OptionError if a parameter is invalid."""
        whole("min_rows", self.min_rows, at_least=1)
        number("delta", self.delta, at_least=0.0)
        number("threshold", self.threshold, above=0.0)
        if number("alpha", self.alpha, above=0.0) > 1.0:
            raise OptionError(f"alpha is {self.alpha!r}; it must be above 0 and at most 1")

    def _run(self, values: FloatArray) -> int:
        consumed, self._numbers = _loops.page_hinkley(
            values, self._numbers, self.min_rows, self.delta, self.threshold, self.alpha
        )
        return int(consumed)
