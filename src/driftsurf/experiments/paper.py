"""One run with the paper's settings: its hyperparameters and its model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from driftsurf import __version__
from driftsurf.experiments.published import STREAMS, PublishedStream
from driftsurf.learners import LogisticRegression
from driftsurf.runtime.session import Session
from driftsurf.strategies import Aware, DriftSurf
from driftsurf.streams.base import Stream
from driftsurf.streams.datasets import DATASETS

__all__ = ["BATCHES", "REACTIVE_LENGTH", "aware_session", "driftsurf_session", "record", "settings_of", "warm_up"]

REACTIVE_LENGTH = 4
"""r: steps in a reactive state."""
BATCHES = 100
"""b: the number of time steps that a stream is divided into."""


def settings_of(dataset: str) -> PublishedStream:
    """The paper's settings for a stream; a stand-in has those of the stream whose place it takes.

    >>> settings_of("airline-2007").l2
    0.001
    """
    real = DATASETS.get(dataset)
    return STREAMS[dataset if real is None or real.stands_for is None else real.stands_for]


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
