"""FHDDM: fast Hoeffding drift detection method."""

from __future__ import annotations

import numpy as np

from driftsurf.core.contracts import FloatArray
from driftsurf.detectors._base import WindowDetector
from driftsurf.registry import register


@register("detector", "fhddm")
class FHDDM(WindowDetector):
    r"""FHDDM: signals when the share of right predictions in a sliding window falls far below its best.

    With p the share over a full window of n predictions and :math:`p_{max}` its largest value so far, Hoeffding's
    inequality gives a drift if

    .. math:: p_{max} - p > \epsilon, \qquad \epsilon = \sqrt{\ln(1 / \delta) / (2 n)}.

    It is :class:`MDDM` with equal weights. Values are errors, 1 = wrong, clipped to [0, 1].

    Parameters
    ----------
    window
        n, the number of predictions in the window.
    delta
        Probability of a false alarm that the bound allows.

    Examples
    --------
    >>> detector = FHDDM()
    >>> round(detector.threshold, 4)
    0.2839
    >>> detector.update([0] * 100 + [1] * 100)
    Detection(consumed=129, drift=True)

    References
    ----------
    A. Pesaranghader, H. L. Viktor. Fast Hoeffding drift detection method for evolving data streams.
    ECML PKDD 2016.
    """

    def __init__(self, *, window: int = 100, delta: float = 1e-7) -> None:
        self.window = window
        self.delta = delta

    def _weights(self) -> FloatArray:
        return np.full(self.window, 1.0 / self.window)
