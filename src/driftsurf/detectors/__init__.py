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
memory is bounded and all stored numbers stay finite.

>>> import numpy as np
>>> from driftsurf.detectors import MDDM
>>> errors = np.random.default_rng(0).random(2000) < np.repeat([0.1, 0.5], 1000)
>>> detector = MDDM()
>>> detector.update(errors)
Detection(consumed=1037, drift=True)
"""

from __future__ import annotations

from driftsurf.core.exports import exports

__getattr__, __dir__, __all__ = exports(__name__)
