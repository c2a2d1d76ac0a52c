"""Nanoseconds per update of the drift detectors, compared with those of river and frouros."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.harness import Contender, Contest

UPDATES, FEW = 1_000_000, 20_000
"""Number of values for our detectors, which take arrays, and for the others, which take one value at a time."""
RIVER = {
    "DDM": ("river.drift.binary", "DDM"),
    "EDDM": ("river.drift.binary", "EDDM"),
    "PageHinkley": ("river.drift", "PageHinkley"),
    "ADWIN": ("river.drift", "ADWIN"),
}


def contests(quick: bool, note: Callable[[str], None]) -> Iterator[Contest]:
    """Yield a contest for each detector; river's is the anchor if it has one."""
    try:
        ours = importlib.import_module("driftsurf.detectors")
    except ImportError:
        note("detectors: skipped, this driftsurf has none.")
        return
    values = (np.random.default_rng(0).random(UPDATES // (20 if quick else 1)) < 0.2).astype(np.float64)
    for name, place in RIVER.items():
        contenders = [_arrays(f"driftsurf {name}", getattr(ours, name), values)]
        try:
            contenders.append(_rivers(f"river {name}", getattr(importlib.import_module(place[0]), place[1]), values))
        except ImportError as error:
            note(f"river {name}: skipped, {error.name} is not installed.")
        try:
            module = importlib.import_module("frouros.detectors.concept_drift")
            contenders.append(_frouros(f"frouros {name}", getattr(module, name), values))
        except ImportError as error:
            note(f"frouros {name}: skipped, {error.name} is not installed (it asks for an older numpy than river).")
        yield Contest(
            f"{name}, error rate 0.2 without drift", "update", contenders[min(1, len(contenders) - 1)].name, contenders
        )


def _arrays(name: str, kind: Any, values: Any) -> Contender:
    def run(detector: Any) -> None:
        start = 0
        while start < len(values):
            start += detector.update(values[start:]).consumed
            if detector.drift:
                detector.reset()

    return Contender(name, len(values), kind, run)


def _rivers(name: str, kind: Any, values: Any) -> Contender:
    few = values[:FEW].tolist()

    def run(detector: Any) -> None:
        for value in few:
            detector.update(value)

    return Contender(f"{name}, {len(few):,} updates", len(few), kind, run)


def _frouros(name: str, kind: Any, values: Any) -> Contender:
    few = values[: FEW // 4].tolist()

    def run(detector: Any) -> None:
        for value in few:
            detector.update(value=value)

    return Contender(f"{name}, {len(few):,} updates", len(few), kind, run)
