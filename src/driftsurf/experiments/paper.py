"""The paper's hyperparameters, stream by stream, and its model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from driftsurf import __version__
from driftsurf.learners import LogisticRegression
from driftsurf.runtime.session import Session
from driftsurf.strategies import Aware, DriftSurf
from driftsurf.streams.base import Stream
from driftsurf.streams.datasets import DATASETS

__all__ = ["BATCHES", "SETTINGS", "Setting", "aware_session", "driftsurf_session", "record", "warm_up"]

BATCHES = 100
"""b: the number of time steps that a stream is divided into."""


@dataclass(frozen=True)
class Setting:
    """One row of the paper's table of hyperparameters."""

    step_size: float
    """eta"""
    l2: float
    """mu"""


_SEA = Setting(step_size=1e-3, l2=1e-2)
SETTINGS: dict[str, Setting] = {
    "sea0": _SEA,
    "sea10": _SEA,
    "sea20": _SEA,
    "sea30": _SEA,
    "sea-gradual": _SEA,
    "hyper-slow": Setting(step_size=1e-1, l2=1e-3),
    "hyper-fast": Setting(step_size=1e-2, l2=1e-3),
    "sine1": Setting(step_size=2e-1, l2=1e-3),
    "mixed": Setting(step_size=1e-1, l2=1e-3),
    "circles": Setting(step_size=1e-1, l2=1e-3),
    "rcv1": Setting(step_size=5e-1, l2=1e-5),
    "covertype": Setting(step_size=5e-3, l2=1e-4),
    "airline": Setting(step_size=2e-2, l2=1e-3),
    "electricity": Setting(step_size=1e-1, l2=1e-4),
    "powersupply": Setting(step_size=2e-2, l2=1e-3),  # the paper prints 1e-1, which does not give its numbers
}
SETTINGS |= {name: SETTINGS[data.stands_for] for name, data in DATASETS.items() if data.stands_for}

_AS_IN_THE_PAPER: dict[str, Any] = {"classes": (-1, 1), "guard": None}


def driftsurf_session(learner: LogisticRegression, *, seed: int = 0, **options: Any) -> Session:
    """DriftSurf as the paper runs it: labels -1 and +1, no cap, no guard."""
    return Session(DriftSurf(learner, max_rows=None, seed=seed, **options), **_AS_IN_THE_PAPER)


def aware_session(learner: LogisticRegression, drift_steps: tuple[int, ...], *, seed: int = 0) -> Session:
    """The oracle, likewise."""
    return Session(Aware(learner, drift_steps, max_rows=None, seed=seed), **_AS_IN_THE_PAPER)


def record(stream: Stream, batch_size: int, learner: LogisticRegression, seed: int, options: Mapping[str, Any]) -> str:
    """What a run needs to be done again, as JSON."""
    what = {
        "driftsurf": __version__,
        "stream": repr(stream),
        "batch_size": batch_size,
        "seed": seed,
        "learner": learner.get_params(),
        "strategy": dict(options),
    }
    return json.dumps(what, indent=2, default=str) + "\n"


def warm_up(learner: LogisticRegression, stream: Stream) -> None:
    """Load the compiled loops for rows like the stream's, so that measured times are those of learning."""
    X, _ = next(stream.batches(2))
    session = driftsurf_session(learner, threshold=0.0, reactive_length=2)
    for y in ([-1, 1], [1, -1], [-1, 1]):
        session.observe(X, y[: X.shape[0]])
