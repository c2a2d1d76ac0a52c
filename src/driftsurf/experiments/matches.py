"""One match: a model on a source with a seed. The unit of work of ``driftsurf compare``."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, cast

import numpy as np

from driftsurf.base import FloatArray
from driftsurf.evaluation.prequential import prequential
from driftsurf.experiments.inputs import Input, Rows, load
from driftsurf.experiments.models import Model, Situation, model
from driftsurf.streams.base import Stream

__all__ = ["Match", "Score"]

WARM_UP_ROWS = 60


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
        at = Situation(len(rows.labels), rows.batch_size, self.seed, rows.drift_steps, self.gradients_per_row)
        if rows.sparse and not contender.sparse(at):
            rows = rows.dense()
        _warm_up(contender, at, rows)
        trace = prequential(
            cast("Stream", rows),
            {self.model: contender.make(at)},
            batch_size=rows.batch_size,
            clock=time.process_time,
        )
        run = trace.of(self.model)
        return Score(run["error"], rows.n_rows, int(run["gradients"].sum()), round(trace.seconds[self.model], 4))

    @staticmethod
    def decode(values: Mapping[str, Any]) -> Score:
        """The score that gave ``values``."""
        return Score.from_dict(values)


def _warm_up(contender: Model, at: Situation, rows: Rows) -> None:
    """Load what has to be loaded once (compiled loops, Java), so that measured times are those of learning."""
    few = rows.first(WARM_UP_ROWS)
    prequential(cast("Stream", few), contender.make(at), batch_size=max(1, few.n_rows // 3))


@dataclass(frozen=True, eq=False)
class Score:
    """What came of a match."""

    error: FloatArray
    """Of each step."""
    n_rows: int
    gradients: int
    """Gradients, or visits of rows; 0 where they are not counted."""
    seconds: float
    """Of the CPU, for predicting and learning, all threads together."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "error": self.error.tolist(),
            "n_rows": self.n_rows,
            "gradients": self.gradients,
            "seconds": self.seconds,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The score that gave ``values``."""
        error = np.array(values["error"], np.float64)
        return cls(error, int(values["n_rows"]), int(values["gradients"]), float(values["seconds"]))
