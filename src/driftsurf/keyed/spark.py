"""The former place of :mod:`driftsurf.spark`."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module

warnings.warn(
    "driftsurf.keyed.spark is now driftsurf.spark, and this name will be removed", FutureWarning, stacklevel=2
)
sys.modules[__name__] = import_module("driftsurf.spark")
