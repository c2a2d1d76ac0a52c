"""The former place of :mod:`driftsurf.data.messages` and of :mod:`driftsurf.connectors`."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module

warnings.warn(
    "driftsurf.data.connectors.contract is now driftsurf.data.messages.contract, and this name will be removed",
    FutureWarning,
    stacklevel=2,
)
sys.modules[f"{__name__}.contract"] = import_module("driftsurf.data.messages.contract")
