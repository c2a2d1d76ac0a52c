"""Drift detectors: compiled loops over arrays that stop at the first signal.

One polarity for all: what a detector is fed are *errors*, 1 for a wrong prediction and 0 for a right one.
MDDM and FHDDM, which are defined on correct predictions, turn the values around themselves.

==============  ==============================================  ===================================
detector        watches                                         takes
==============  ==============================================  ===================================
`MDDM`          weighted mean of the last n predictions         values clipped to [0, 1]
`FHDDM`         plain mean of the last n predictions            values clipped to [0, 1]
`DDM`           error rate since the start                      values clipped to [0, 1]
`EDDM`          distance between errors                         above 0.5 is an error, else right
`ADWIN`         mean over a window that fits its own length     any numbers, clipped in proportion
`PageHinkley`   sum of deviations above the mean                any numbers
==============  ==============================================  ===================================

NaN, infinity and what is beyond +-1e15 are no evidence: they are consumed and change nothing. Whatever comes in,
memory is bounded and all that is kept stays finite.

>>> import numpy as np
>>> errors = np.random.default_rng(0).random(2000) < np.repeat([0.1, 0.5], 1000)
>>> detector = MDDM()
>>> detector.update(errors), detector.drift
(1037, True)
"""

from driftsurf.detectors.adwin import ADWIN
from driftsurf.detectors.ddm import DDM
from driftsurf.detectors.eddm import EDDM
from driftsurf.detectors.fhddm import FHDDM
from driftsurf.detectors.mddm import MDDM
from driftsurf.detectors.page_hinkley import PageHinkley

__all__ = ["ADWIN", "DDM", "EDDM", "FHDDM", "MDDM", "PageHinkley"]
