"""MDDM: McDiarmid drift detection method."""

from __future__ import annotations

from typing import Literal

import numpy as np

from driftsurf.core import numeric
from driftsurf.core.contracts import FloatArray
from driftsurf.core.options import choice, number
from driftsurf.detectors._base import WindowDetector
from driftsurf.native import maths
from driftsurf.registry import register


@register("detector", "mddm")
@register("detector", "mddm-g", title="MDDM-G", options={"weighting": "geometric"})
@register("detector", "mddm-a", title="MDDM-A", options={"weighting": "arithmetic"})
@register("detector", "mddm-e", title="MDDM-E", options={"weighting": "euler"})
class MDDM(WindowDetector):
    r"""MDDM: signals when the weighted share of right predictions in a sliding window falls far below its best.

    Over a full window of n predictions, :math:`v_i = 1` for a right one and i = 1 for the oldest, the mean
    :math:`\mu = \sum w_i v_i` has weights that rise towards the newest and sum to 1. With :math:`\mu_{max}` the largest
    mean so far (0 at first), McDiarmid's inequality gives a drift if

    .. math:: \mu_{max} - \mu > \epsilon, \qquad \epsilon = \sqrt{\tfrac12 \sum w_i^2 \ln(1 / \delta)}.

    Values are errors, 1 = wrong, clipped to [0, 1]. Each mean is summed over the whole window whenever it can matter,
    so rounding errors do not accumulate.

    Parameters
    ----------
    weighting
        "geometric" (MDDM-G): w_i proportional to (1 + growth)^i; "arithmetic" (MDDM-A): to 1 + growth (i - 1); "euler"
        (MDDM-E): to exp(growth i).
    window
        n, the number of predictions in the window.
    delta
        Probability of a false alarm that the bound allows.
    growth
        How fast the weights rise. The default gives the published ratio 1.01, difference 0.01 and lambda 0.01.

    Examples
    --------
    >>> detector = MDDM()
    >>> round(detector.threshold, 4)
    0.2733
    >>> detector.update([0] * 100 + [1] * 100)
    Detection(consumed=119, drift=True)

    References
    ----------
    A. Pesaranghader, H. L. Viktor, E. Paquet. McDiarmid drift detection methods for evolving data
    streams. IJCNN 2018.
    """

    def __init__(
        self,
        *,
        weighting: Literal["geometric", "arithmetic", "euler"] = "geometric",
        window: int = 100,
        delta: float = 1e-6,
        growth: float = 0.01,
    ) -> None:
        self.weighting = weighting
        self.window = window
        self.delta = delta
        self.growth = growth

    def check(self) -> None:
        """Raise OptionError if a parameter is invalid."""
        choice("weighting", self.weighting, ("geometric", "arithmetic", "euler"))
        number("growth", self.growth, at_least=0.0, below=1.0)
        super().check()

    def _weights(self) -> FloatArray:
        age = np.arange(self.window - 1, -1, -1, dtype=np.float64)
        match self.weighting:
            case "geometric":  # relative to the newest, so that it cannot overflow
                weights = np.array([maths.power(1.0 + self.growth, -one) for one in age.tolist()])
            case "euler":
                weights = numeric.exp(-self.growth * age)
            case _:
                weights = 1.0 + self.growth * age[::-1]
        return np.asarray(weights / weights.sum())
