"""Streams that drift: the paper's generators, arrays as streams, and functions that inject drift.

Streams are registered beside their classes with :func:`~driftsurf.streams.base.register_stream`. Real data sets are in
:mod:`driftsurf.data.datasets`.
"""

# The rest of this file is made by `make generate`: do not edit.
from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from driftsurf.streams.arrays import ArrayStream
    from driftsurf.streams.base import Drift, Stream
    from driftsurf.streams.circles import Circles
    from driftsurf.streams.friedman import Friedman
    from driftsurf.streams.hyperplane import Hyperplane
    from driftsurf.streams.inject import change_prior, mix, rotate, shift_features, swap_labels
    from driftsurf.streams.mixed import Mixed
    from driftsurf.streams.recurring import Recurring
    from driftsurf.streams.sea import SEA
    from driftsurf.streams.sine1 import SINE1
else:
    from typing import Any

__all__ = [
    "SEA",
    "SINE1",
    "ArrayStream",
    "Circles",
    "Drift",
    "Friedman",
    "Hyperplane",
    "Mixed",
    "Recurring",
    "Stream",
    "change_prior",
    "mix",
    "rotate",
    "shift_features",
    "swap_labels",
]

_HOMES = {
    "ArrayStream": "driftsurf.streams.arrays",
    "Circles": "driftsurf.streams.circles",
    "Drift": "driftsurf.streams.base",
    "Friedman": "driftsurf.streams.friedman",
    "Hyperplane": "driftsurf.streams.hyperplane",
    "Mixed": "driftsurf.streams.mixed",
    "Recurring": "driftsurf.streams.recurring",
    "SEA": "driftsurf.streams.sea",
    "SINE1": "driftsurf.streams.sine1",
    "Stream": "driftsurf.streams.base",
    "change_prior": "driftsurf.streams.inject",
    "mix": "driftsurf.streams.inject",
    "rotate": "driftsurf.streams.inject",
    "shift_features": "driftsurf.streams.inject",
    "swap_labels": "driftsurf.streams.inject",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first used."""
        if name in _HOMES:
            return getattr(import_module(_HOMES[name]), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted(__all__)
