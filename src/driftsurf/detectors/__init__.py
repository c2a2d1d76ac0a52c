"""Drift detectors: compiled loops over arrays that stop at the first signal.

Each detector is one public class in a file of its own; :mod:`driftsurf.detectors.river` adapts those of river. A
detector watches numbers and nothing else: it knows no model, no rows and no labels, and what follows from a signal is
up to a strategy (:class:`driftsurf.strategies.ResetOnDrift`). All detectors have the same polarity: the values are
*errors*, 1 for a wrong prediction and 0 for a right one. MDDM and FHDDM, which are defined on correct predictions,
invert them.

==============  ==============================================  ===================================
detector        watches                                         accepts
==============  ==============================================  ===================================
`MDDM`          weighted mean of the last n predictions         values clipped to [0, 1]
`FHDDM`         plain mean of the last n predictions            values clipped to [0, 1]
`DDM`           error rate since the start                      values clipped to [0, 1]
`EDDM`          distance between errors                         above 0.5 is an error, else right
`ADWIN`         mean over a window that fits its own length     any numbers, clipped in proportion
`PageHinkley`   sum of deviations above the mean                any numbers
==============  ==============================================  ===================================

NaN, infinity and values beyond +-1e15 are no evidence: they are consumed and change nothing. Whatever the values are,
memory is bounded and all numbers that are kept stay finite.

>>> import numpy as np
>>> from driftsurf.detectors import MDDM
>>> errors = np.random.default_rng(0).random(2000) < np.repeat([0.1, 0.5], 1000)
>>> detector = MDDM()
>>> detector.update(errors)
Detection(consumed=1037, drift=True)
"""

# The rest of this file is made by `make generate`: do not edit.
from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from driftsurf.detectors.adwin import ADWIN
    from driftsurf.detectors.ddm import DDM
    from driftsurf.detectors.eddm import EDDM
    from driftsurf.detectors.fhddm import FHDDM
    from driftsurf.detectors.mddm import MDDM
    from driftsurf.detectors.page_hinkley import PageHinkley
else:
    from typing import Any

__all__ = ["ADWIN", "DDM", "EDDM", "FHDDM", "MDDM", "PageHinkley"]

_HOMES = {
    "ADWIN": "driftsurf.detectors.adwin",
    "DDM": "driftsurf.detectors.ddm",
    "EDDM": "driftsurf.detectors.eddm",
    "FHDDM": "driftsurf.detectors.fhddm",
    "MDDM": "driftsurf.detectors.mddm",
    "PageHinkley": "driftsurf.detectors.page_hinkley",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first used."""
        if name in _HOMES:
            return getattr(import_module(_HOMES[name]), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted(__all__)
