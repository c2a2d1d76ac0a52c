"""Adaptive learning from data streams under concept drift.

>>> from driftsurf import DriftSurfClassifier
>>> model = DriftSurfClassifier(random_state=0)
"""

from __future__ import annotations

from driftsurf.exports import exports

__version__ = "0.2.0"

__getattr__, __dir__, __all__ = exports(__name__, "__version__")
