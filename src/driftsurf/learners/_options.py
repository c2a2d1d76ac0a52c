"""Options of the linear learners: their checks, and what follows from them alone."""

from __future__ import annotations

import math
from typing import Literal, Self

from driftsurf.core.contracts import Segment
from driftsurf.core.options import Parameterised, choice, number, truth, whole
from driftsurf.errors import OptionError

MOST_STEPS_PER_ROW, MOST_STEPS = 1e4, 10**8
"""Steps for a row and for a batch stay below these, so that a saved option cannot exhaust the memory."""
OPTIMIZERS = "strsaga", "saga", "sgd", "one-pass"

Optimizer = Literal["strsaga", "saga", "sgd", "one-pass"]


class LinearOptions(Parameterised):
    """Options of a linear learner."""

    def __init__(
        self,
        *,
        optimizer: Optimizer = "strsaga",
        step_size: float | Literal["auto"] = "auto",
        scale: bool | Literal["auto"] = "auto",
        l2: float = 1e-4,
        steps_per_row: float = 2.0,
        steps_per_batch: int | None = None,
        fit_intercept: bool = True,
        start: Literal["zeros", "uniform"] = "zeros",
    ) -> None:
        self.optimizer = optimizer
        self.step_size = step_size
        self.scale = scale
        self.l2 = l2
        self.steps_per_row = steps_per_row
        self.steps_per_batch = steps_per_batch
        self.fit_intercept = fit_intercept
        self.start = start

    def one_pass(self) -> Self:
        """Return a template with the same parameters that learns each row once and stores none."""
        return type(self)(**(self.get_params() | {"optimizer": "one-pass"}))

    def budget(self, new: Segment) -> int:
        """Return rho for these rows; fractions of a step are carried over by counting from row 0."""
        return self._budget(new.lo, new.hi)

    def _budget(self, lo: int, hi: int) -> int:
        """Return rho for the rows ``lo`` to ``hi - 1``."""
        if self.optimizer == "one-pass":
            return hi - lo
        if self.steps_per_batch is not None:
            return int(self.steps_per_batch)
        per_row = float(self.steps_per_row)
        return math.floor(per_row * hi) - math.floor(per_row * lo)

    @property
    def _tabled(self) -> bool:
        """Whether gradients are stored, one for each row of the sample set."""
        return self.optimizer in ("strsaga", "saga")

    @property
    def _scaled(self) -> bool:
        """Whether columns are scaled."""
        return self.step_size == "auto" if self.scale == "auto" else self.scale

    def _check_params(self) -> None:
        choice("optimizer", self.optimizer, OPTIMIZERS)
        choice("start", self.start, ("zeros", "uniform"))
        truth("fit_intercept", self.fit_intercept)
        number("l2", self.l2, at_least=0.0)
        number("steps_per_row", self.steps_per_row, above=0.0, below=MOST_STEPS_PER_ROW)
        if self.steps_per_batch is not None:
            whole("steps_per_batch", self.steps_per_batch, at_least=1, at_most=MOST_STEPS, otherwise=", or None")
        if self.scale != "auto":
            truth("scale", self.scale)
        if self.step_size != "auto":
            product = number("step_size", self.step_size, above=0.0, otherwise=", or 'auto'") * self.l2
            if product >= 1.0:
                raise OptionError(
                    f"step_size * l2 is {product:g}; it must be below 1, so that the factor 1 - step_size * l2 of the "
                    "weights stays positive. Lower step_size."
                )
