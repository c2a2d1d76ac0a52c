"""The estimator classes of registered strategies, made when they are first asked for; the stub has their types."""

from __future__ import annotations

from typing import Any

from driftsurf.estimators.classes import find_estimator


def __getattr__(name: str) -> Any:
    found = None if name.startswith("_") else find_estimator(name)
    if found is None:
        raise AttributeError(f"module 'driftsurf.estimators' has no attribute {name!r}")
    return found
