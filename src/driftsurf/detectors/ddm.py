"""DDM: drift detection method."""

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


@register("detector", "ddm")
class DDM(BaseDetector):
    r"""DDM: signals when the error rate since the start is far above its lowest value.

    After i rows the error rate p has the standard deviation :math:`s = \sqrt{p (1 - p) / i}`. With
    :math:`p_{min}, s_{min}` the values where p + s was lowest, there is

    .. math:: \text{a warning if } p + s > p_{min} + 2 s_{min}, \quad
              \text{a drift if } p + s > p_{min} + 3 s_{min}.

    Values are errors, 1 = wrong, clipped to [0, 1]. As published, a start without any error gives
    :math:`p_{min} = s_{min} = 0`, and then the first error is a drift.

    Parameters
    ----------
    min_rows
        Number of rows before anything is compared or a minimum is taken.
    warning_level, drift_level
        Number of standard deviations above the lowest rate.

    Examples
    --------
    >>> import numpy as np
    >>> errors = np.random.default_rng(0).random(2000) < np.repeat([0.1, 0.5], 1000)
    >>> detector = DDM()
    >>> detector.update(errors)
    Detection(consumed=1035, drift=True)

    References
    ----------
    J. Gama, P. Medas, G. Castillo, P. Rodrigues. Learning with drift detection. SBIA 2004.
    """

    NUMBERS: ClassVar[dict[str, float]] = {"level": 0.0, "rows": 0.0, "errors": 0.0, "p_min": 1.0, "s_min": 1.0}
    RULES: ClassVar[Sequence[FieldRule]] = (
        FieldRule(
            "errors", "must be from 0 to the number of rows", lambda known: 0.0 <= known["errors"] <= known["rows"]
        ),
    )

    def __init__(self, *, min_rows: int = 30, warning_level: float = 2.0, drift_level: float = 3.0) -> None:
        self.min_rows = min_rows
        self.warning_level = warning_level
        self.drift_level = drift_level

    def check(self) -> None:
        """Raise OptionError if a parameter is invalid."""
        whole("min_rows", self.min_rows, at_least=1)
        number("warning_level", self.warning_level, at_least=1.0)
        number("drift_level", self.drift_level, at_least=1.0)
        if self.warning_level > self.drift_level:
            raise OptionError(
                f"warning_level is {self.warning_level!r}; it must not exceed drift_level, {self.drift_level!r}"
            )

    def _run(self, values: FloatArray) -> int:
        consumed, self._numbers = _loops.ddm(values, self._numbers, self.min_rows, self.warning_level, self.drift_level)
        return int(consumed)
