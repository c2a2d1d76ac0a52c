"""One run with the paper's settings: its hyperparameters and its model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from driftsurf import __version__
from driftsurf.base import Strategy
from driftsurf.experiments.published import STREAMS, PublishedStream
from driftsurf.learners import LinearRegression, LogisticRegression, paper_learner
from driftsurf.runtime.session import Session
from driftsurf.strategies import Aware, DriftSurf
from driftsurf.streams import catalogue
from driftsurf.streams.base import Stream
from driftsurf.streams.datasets import DATASETS

__all__ = [
    "BATCHES",
    "REACTIVE_LENGTH",
    "aware_session",
    "driftsurf_session",
    "learner_of",
    "record",
    "settings_of",
    "warm_up",
]

REACTIVE_LENGTH = 4
"""r: steps in a reactive state."""
PaperLearner: TypeAlias = LogisticRegression | LinearRegression
BATCHES = 100
"""b: the number of time steps that a stream is divided into."""


def settings_of(dataset: str) -> PublishedStream:
    """The paper's settings for a stream; a stand-in has those of the stream whose place it takes.

    >>> settings_of("airline-2007").l2
    0.001
    """
    real = DATASETS.get(dataset)
    return STREAMS[dataset if real is None or real.stands_for is None else real.stands_for]


def learner_of(stream: str, **options: Any) -> PaperLearner:
    """The paper's learner for a stream, scaled; for values, which the paper has none of, linear regression."""
    if catalogue.get(stream).values:
        return LinearRegression(**options)
    setting = settings_of(stream)
    asked: dict[str, Any] = {"step_size": setting.step_size, "l2": setting.l2, "scale": "auto"} | options
    return paper_learner(**asked)


def driftsurf_session(learner: PaperLearner, *, seed: int = 0, **options: Any) -> Session:
    """DriftSurf as the paper runs it: labels -1 and +1, no cap, no guard."""
    return _session(DriftSurf(learner, max_rows=None, seed=seed, **options))


def aware_session(learner: PaperLearner, drift_steps: tuple[int, ...], *, seed: int = 0) -> Session:
    """The oracle, likewise; of values told after the first batch of a drift, for which a fresh model predicts zero."""
    told: Literal["before", "after"] = "after" if learner.capabilities.values else "before"
    return _session(Aware(learner, drift_steps, told=told, max_rows=None, seed=seed))


def _session(strategy: Strategy) -> Session:
    return Session(strategy, classes=None if strategy.learner.capabilities.values else (-1, 1), guard=None)


def record(stream: Stream, batch_size: int, learner: PaperLearner, seed: int, options: Mapping[str, Any]) -> str:
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


def warm_up(learner: PaperLearner, stream: Stream) -> None:
    """Load the compiled loops for rows like the stream's, so that measured times are those of learning."""
    X, _ = next(stream.batches(2))
    session = driftsurf_session(learner, threshold=0.0, reactive_length=2)
    for y in ([-1, 1], [1, -1], [-1, 1]):
        session.observe(X, y[: X.shape[0]])
