"""One trial: an algorithm on a stream with a seed. The unit of work, of caching and of continuing."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from driftsurf.evaluation.prequential import prequential
from driftsurf.experiments.algorithms import ALGORITHMS, Setting
from driftsurf.experiments.paper import settings_of
from driftsurf.experiments.published import Update
from driftsurf.learners import LogisticRegression, paper_learner
from driftsurf.runtime.session import Session
from driftsurf.strategies import BudgetRule, Variant
from driftsurf.streams import catalogue
from driftsurf.streams.arrays import ArrayStream

__all__ = ["Outcome", "Trial", "prepared"]


@dataclass(frozen=True, order=True)
class Trial:
    """What is run. Equal trials are run once, whichever experiments ask for them."""

    dataset: str
    algorithm: str
    variant: Variant = "algorithm-1"
    budget: BudgetRule = "each"
    steps_per_row: float = 2.0
    """rho / m"""
    update: Update = "strsaga"
    options: tuple[tuple[str, float | bool | str], ...] = ()
    """Options of DriftSurf that differ from the paper's."""
    seed: int = 0

    kind: ClassVar[str] = "trial"

    def perform(self) -> Outcome:
        """Run it."""
        stream, size, aware_steps = prepared(self.dataset)
        at = Setting(aware_steps, size, self.budget, self.variant, self.seed, dict(self.options))
        strategy = ALGORITHMS[self.algorithm].make(self.learner(), at)
        session = Session(strategy, classes=(-1, 1), guard=None)
        trace = prequential(stream, {self.algorithm: session}, batch_size=size)
        run = trace.of(self.algorithm)
        return Outcome(
            run["error"],
            run["trained_from"],
            tuple(run["transition"].tolist()),
            run["state"] == "reactive",
            int(run["gradients"].sum()),
            round(trace.seconds[self.algorithm], 6),
        )

    @staticmethod
    def decode(values: Mapping[str, Any]) -> Outcome:
        """The outcome that gave ``values``."""
        return Outcome.from_dict(values)

    def learner(self) -> LogisticRegression:
        """The paper's learner for this stream and this update process."""
        settings = settings_of(self.dataset)
        per_row = float(self.steps_per_row)
        return paper_learner(settings.step_size, settings.l2, optimizer=self.update, steps_per_row=per_row)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of a trial, one entry a step."""

    error: npt.NDArray[np.float64]
    trained_from: npt.NDArray[np.int64]
    """The first row that the predicting model was trained on."""
    transition: tuple[str, ...]
    """Kinds of the transitions of each step, joined by '+'."""
    reactive: npt.NDArray[np.bool_]
    gradients: int
    seconds: float

    @property
    def mean_error(self) -> float:
        """The number in the paper's tables: the mean over the steps."""
        return float(np.mean(self.error))

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "error": self.error.tolist(),
            "trained_from": self.trained_from.tolist(),
            "transition": {str(step): kinds for step, kinds in enumerate(self.transition) if kinds},
            "reactive": np.flatnonzero(self.reactive).tolist(),
            "gradients": self.gradients,
            "seconds": self.seconds,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The outcome that gave ``values``."""
        error = np.array(values["error"], np.float64)
        reactive = np.zeros(len(error), bool)
        reactive[values["reactive"]] = True
        return cls(
            error,
            np.array(values["trained_from"], np.int64),
            tuple(values["transition"].get(str(step), "") for step in range(len(error))),
            reactive,
            int(values["gradients"]),
            float(values["seconds"]),
        )


@functools.lru_cache(maxsize=2)
def prepared(dataset: str) -> tuple[ArrayStream, int, tuple[int, ...]]:
    """A stream in memory, cut to whole batches; its batch size; the steps at which Aware is told of a drift."""
    entry = catalogue.get(dataset)
    stream = entry.make()
    size = entry.batch_size
    n_rows = stream.n_rows // size * size
    X, y = stream.arrays()
    drifts = tuple(drift for drift in stream.drifts if drift.start < n_rows)
    return ArrayStream(X[:n_rows], y[:n_rows], drifts=drifts, name=dataset), size, stream.drift_steps(size)
