"""One trial: an algorithm on a stream with a seed. Trials are run, cached and resumed one by one."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from driftsurf.comparison.algorithms import ALGORITHMS, Setting
from driftsurf.data import catalogue
from driftsurf.evaluation.prequential import prequential
from driftsurf.learners import LogisticRegression, paper_learner
from driftsurf.reproduction.paper_settings import OPTIONS, settings_of
from driftsurf.reproduction.published import Update
from driftsurf.session.session import Session
from driftsurf.strategies import BudgetRule, Variant
from driftsurf.streams.arrays import ArrayStream

__all__ = ["Outcome", "Trial", "prepared"]


@dataclass(frozen=True, order=True)
class Trial:
    """The parameters of a trial. Equal trials run once, however many experiments need them."""

    dataset: str
    algorithm: str
    variant: Variant = "algorithm-1"
    budget: BudgetRule = "each"
    steps_per_row: float = 2.0
    """rho / m: gradient steps for each row."""
    update: Update = "strsaga"
    options: tuple[tuple[str, float | bool | str], ...] = ()
    """Options of DriftSurf that differ from the paper's."""
    seed: int = 0

    kind: ClassVar[str] = "trial"

    def perform(self) -> Outcome:
        """Run the trial."""
        stream, size, aware_steps = prepared(self.dataset)
        setting = Setting(aware_steps, size, self.budget, self.variant, self.seed, OPTIONS | dict(self.options))
        strategy = ALGORITHMS[self.algorithm].make(self.learner(), setting)
        session = Session(strategy, classes=(-1, 1), guard=None)
        trace = prequential(stream, {self.algorithm: session}, batch_size=size)
        run = trace.of(self.algorithm)
        return Outcome(
            run["error"],
            run["trained_from"],
            trace.transitions(self.algorithm),
            run["state"] == "reactive",
            int(run["gradients"].sum()),
            round(trace.seconds[self.algorithm], 6),
        )

    @staticmethod
    def decode(values: Mapping[str, Any]) -> Outcome:
        """Return the outcome whose ``to_dict`` gave ``values``."""
        return Outcome.from_dict(values)

    def learner(self) -> LogisticRegression:
        """Make the paper's learner for this stream and this update process."""
        settings = settings_of(self.dataset)
        per_row = float(self.steps_per_row)
        return paper_learner(settings.step_size, settings.l2, optimizer=self.update, steps_per_row=per_row)


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of a trial; arrays and tuples have one entry for each step."""

    error: npt.NDArray[np.float64]
    trained_from: npt.NDArray[np.int64]
    """The first row that the predicting model was trained on."""
    transitions: tuple[tuple[str, ...], ...]
    """The kinds of the transitions of each step."""
    reactive: npt.NDArray[np.bool_]
    """Whether the step was in the reactive state."""
    gradients: int
    seconds: float

    @property
    def mean_error(self) -> float:
        """Mean error over the steps: the number in the paper's tables."""
        return float(np.mean(self.error))

    def steps_with(self, kind: str) -> list[int]:
        """Return the steps with a transition of this kind."""
        return [step for step, kinds in enumerate(self.transitions) if kind in kinds]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {
            "error": self.error.tolist(),
            "trained_from": self.trained_from.tolist(),
            "transitions": {str(step): list(kinds) for step, kinds in enumerate(self.transitions) if kinds},
            "reactive": np.flatnonzero(self.reactive).tolist(),
            "gradients": self.gradients,
            "seconds": self.seconds,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the outcome whose ``to_dict`` gave ``values``."""
        error = np.array(values["error"], np.float64)
        reactive = np.zeros(len(error), bool)
        reactive[values["reactive"]] = True
        return cls(
            error,
            np.array(values["trained_from"], np.int64),
            tuple(tuple(values["transitions"].get(str(step), ())) for step in range(len(error))),
            reactive,
            int(values["gradients"]),
            float(values["seconds"]),
        )


@functools.lru_cache(maxsize=2)
def prepared(dataset: str) -> tuple[ArrayStream, int, tuple[int, ...]]:
    """Return a stream in memory, cut to whole batches; its batch size; and the steps at which Aware resets."""
    entry = catalogue.get(dataset)
    stream = entry.make()
    size = entry.batch_size
    n_rows = stream.n_rows // size * size
    X, y = stream.arrays()
    drifts = tuple(drift for drift in stream.drifts if drift.start < n_rows)
    return ArrayStream(X[:n_rows], y[:n_rows], drifts=drifts, name=dataset), size, stream.drift_steps(size)
