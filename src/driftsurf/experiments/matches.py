"""One match: a model on a source with a seed. The unit of work of ``driftsurf compare``."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self, cast

import numpy as np

from driftsurf.base import FloatArray
from driftsurf.errors import DivergenceError, LabelError
from driftsurf.evaluation.prequential import prequential
from driftsurf.evaluation.trace import Trace
from driftsurf.experiments.inputs import Input, Rows, load
from driftsurf.experiments.models import Model, Situation, model
from driftsurf.experiments.peers import Diverged, Mean
from driftsurf.runtime.target import Task
from driftsurf.streams.base import Stream

__all__ = ["FIRST_STEP", "InUnits", "Match", "Score"]

WARM_UP_ROWS = 60
FIRST_STEP = 1
"""The batch before it is predicted by models that have learnt nothing."""
FLOOR = "(mean)"
"""The model that errors of values are relative to: the mean of all values before a batch."""
WORST = 1e6
"""What a model that diverges is charged for values, relative to the mean: a number that can be averaged and printed."""


@dataclass(frozen=True, order=True)
class Match:
    """What is run: each batch is predicted by the model as it is, all rows alike, and then learnt."""

    what: Input
    model: str
    gradients_per_row: float | None = None
    built_on: str = ""
    """The package that the model stands on, with its version."""
    seed: int = 0

    kind: ClassVar[str] = "match"

    @property
    def dataset(self) -> str:
        """The source."""
        return self.what.source

    def perform(self) -> Score:
        """Run it."""
        rows, contender = load(self.what), model(self.model)
        asked = None if self.what.task == "auto" else cast("Task", self.what.task)
        at = Situation(len(rows.labels), rows.batch_size, self.seed, rows.drift_steps, self.gradients_per_row, asked)
        if rows.sparse and not contender.sparse(at):
            rows = rows.dense()
        with np.errstate(over="ignore", invalid="ignore"):  # of models that diverge
            try:
                _warm_up(contender, at, rows)
                trace, diverged = self._played(rows, contender.make(at)), False
            except DivergenceError:
                trace, diverged = self._played(rows, Diverged()), True
        run = trace.of(self.model)
        error, in_units = (run["error"], None) if rows.labels else _relative(trace, self.model)
        seconds = round(trace.seconds[self.model], 4)
        diverged = diverged or bool(error.max() == WORST)
        return Score(error, rows.n_rows, int(run["gradients"].sum()), seconds, in_units, diverged)

    def _played(self, rows: Rows, learning: Any) -> Trace:
        models = {self.model: learning} | ({} if rows.labels else {FLOOR: Mean()})
        return prequential(cast("Stream", rows), models, batch_size=rows.batch_size, clock=time.process_time)

    @staticmethod
    def decode(values: Mapping[str, Any]) -> Score:
        """The score that gave ``values``."""
        return Score.from_dict(values)


def _warm_up(contender: Model, at: Situation, rows: Rows) -> None:
    """Load what has to be loaded once (compiled loops, Java), so that measured times are those of learning."""
    few = rows.first(WARM_UP_ROWS)
    prequential(cast("Stream", few), contender.make(at), batch_size=max(1, few.n_rows // 3))


def _relative(trace: Trace, model: str) -> tuple[FloatArray, InUnits]:
    """The absolute error of each step over the mean one of the floor, and means over the steps but the first."""
    mine, floor = trace.of(model), trace.of(FLOOR)
    mae, mse = (float(floor[name][FIRST_STEP:].mean()) for name in ("absolute_error", "squared_error"))
    if mae == 0.0:
        raise LabelError(f"each value of {trace.stream} is the mean of those before it: there is nothing to predict")
    absolute, squared = (
        np.minimum(np.nan_to_num(mine[name] / unit, nan=worst, posinf=worst), worst)
        for name, unit, worst in (("absolute_error", mae, WORST), ("squared_error", mse, WORST**2))
    )
    ratio = float(np.sqrt(squared[FIRST_STEP:].mean()))
    return absolute, InUnits(float(absolute[FIRST_STEP:].mean() * mae), ratio * float(np.sqrt(mse)), ratio)


@dataclass(frozen=True)
class InUnits:
    """The errors of predicted values in the unit of the label."""

    mae: float
    rmse: float
    relative_rmse: float
    """The second over that of the mean of all values before a batch, without unit."""


@dataclass(frozen=True, eq=False)
class Score:
    """What came of a match."""

    error: FloatArray
    """Of each step: the share of wrong rows; of values the absolute error over that of the mean of all before."""
    n_rows: int
    gradients: int
    """Gradients, or visits of rows; 0 where they are not counted."""
    seconds: float
    """Of the CPU, for predicting and learning, all threads together."""
    in_units: InUnits | None = None
    """None for classes."""
    diverged: bool = False
    """Then each value was charged ``WORST``, each row of a class counted as wrong."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "error": self.error.tolist(),
            "n_rows": self.n_rows,
            "gradients": self.gradients,
            "seconds": self.seconds,
            "in_units": None if self.in_units is None else asdict(self.in_units),
            "diverged": self.diverged,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The score that gave ``values``."""
        error = np.array(values["error"], np.float64)
        in_units = None if values["in_units"] is None else InUnits(**values["in_units"])
        counts = int(values["n_rows"]), int(values["gradients"])
        return cls(error, *counts, float(values["seconds"]), in_units, bool(values["diverged"]))
