"""EDDM: early drift detection method."""

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


@register("detector", "eddm")
class EDDM(BaseDetector):
    r"""EDDM: signals when the distances between errors are clearly smaller than at their largest.

    At each error, p' is the mean number of rows from one error to the next and s' its standard deviation, since the
    start (which counts as an error before the first). With :math:`p'_{max}, s'_{max}` the values where p' + 2 s' was
    largest, there is

    .. math:: \text{a warning if } \frac{p' + 2 s'}{p'_{max} + 2 s'_{max}} < 0.95, \quad
              \text{a drift if it is} < 0.90.

    Values above 0.5 are errors, all others are right predictions. The paper waits for 30 errors to estimate the
    distances; the maximum is therefore taken from the 30th error on, not over the noisy estimates before it.

    Parameters
    ----------
    min_errors
        Number of errors before anything is compared or a maximum is taken.
    warning_level, drift_level
        Shares of the maximum, alpha and beta in the paper.

    Examples
    --------
    >>> import numpy as np
    >>> errors = np.random.default_rng(0).random(2000) < np.repeat([0.1, 0.5], 1000)
    >>> detector = EDDM()
    >>> detector.update(errors)
    Detection(consumed=1018, drift=True)

    References
    ----------
    M. Baena-Garcia, J. del Campo-Avila, R. Fidalgo, A. Bifet, R. Gavalda, R. Morales-Bueno. Early drift
    detection method. ECML PKDD workshop on knowledge discovery from data streams, 2006.
    """

    NUMBERS: ClassVar[dict[str, float]] = {
        "level": 0.0,
        "rows_since_error": 0.0,
        "errors": 0.0,
        "mean": 0.0,
        "squared_deviations": 0.0,
        "largest": 0.0,
    }
    RULES: ClassVar[Sequence[FieldRule]] = (
        FieldRule("errors", "must be at least 0", lambda known: known["errors"] >= 0.0),
        FieldRule("squared_deviations", "must be at least 0", lambda known: known["squared_deviations"] >= 0.0),
    )

    def __init__(self, *, min_errors: int = 30, warning_level: float = 0.95, drift_level: float = 0.90) -> None:
        self.min_errors = min_errors
        self.warning_level = warning_level
        self.drift_level = drift_level

    def check(self) -> None:
        """Raise OptionError if a parameter is invalid."""
        whole("min_errors", self.min_errors, at_least=1)
        number("warning_level", self.warning_level, above=0.0, below=1.0)
        number("drift_level", self.drift_level, above=0.0, below=1.0)
        if self.warning_level < self.drift_level:
            raise OptionError(
                f"warning_level is {self.warning_level!r}; it must not be below drift_level, {self.drift_level!r}"
            )

    def _run(self, values: FloatArray) -> int:
        consumed, self._numbers = _loops.eddm(
            values, self._numbers, self.min_errors, self.warning_level, self.drift_level
        )
        return int(consumed)
