"""Columns, classes and range guard of a session, as one value, which a step replaces."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import Capabilities, FloatArray, Rows, State
from driftsurf.core.fields import Fields, Truth, Whole, misfit
from driftsurf.core.frames import MatrixLike
from driftsurf.core.input import Schema, is_ready, read_rows
from driftsurf.core.journal import Noted, Outcome
from driftsurf.core.samples import Samples
from driftsurf.core.state import nest, pick
from driftsurf.core.targets import ClassTargets, RegressionTargets
from driftsurf.errors import StateError
from driftsurf.native.guard import RangeGuard
from driftsurf.session.drift_monitor import DriftMonitor
from driftsurf.session.guard import guard_from_state, guard_state

FIELDS = Fields(
    {"steps": Whole(), "n_classes_learned": Whole(), "started": Truth()},
    parts=["classes", "guard", "schema", "pending", "strategy", "monitor"],
)
"""Saved entries of a session; its parts declare their own."""


def saved_buffer(
    state: Mapping[str, Any], schema: Schema, n_classes: int, batch_size: int | None, dtype: npt.DTypeLike
) -> Samples | None:
    """Return the saved buffer; StateError if its rows are not those of the schema, or fill a time step."""
    if not state:
        return None
    pending = Samples.from_state(state, n_classes)
    for name, found, wanted in (
        ("n_features", pending.n_features, schema.n_features),
        ("sparse", pending.sparse, schema.sparse),
        ("dtype", pending.dtype, np.dtype(dtype)),
    ):
        if found != wanted:
            raise misfit(state, name, f"is {found}, but that of the model is {wanted}")
    size = math.inf if batch_size is None else batch_size
    if len(pending) >= size:
        raise misfit(state, "y", f"has {len(pending)} rows, which would fill a time step of {size}")
    return pending


class Snapshot(NamedTuple):
    """Columns, classes, guard and counts of a session after a step, with the scores of its models at that moment.

    Nothing in it ever changes, so that any thread can predict with it while another one learns.
    """

    targets: ClassTargets | RegressionTargets
    guard: RangeGuard | None
    schema: Schema | None = None
    """Columns; None before the first batch."""
    steps: int = 0
    """Number of time steps learned."""
    n_classes_learned: int = 0
    """Number of classes known at the last time step; only these can be predicted."""
    scorer: Callable[[Rows], FloatArray] | None = None
    """Scores of the models; None before the first batch, and for a strategy that cannot hand them out."""
    monitor: DriftMonitor | None = None
    """Detects drifts of the whole model; None if nobody asks for them."""

    @property
    def column_limits(self) -> tuple[FloatArray, FloatArray] | None:
        """Smallest and largest value of each column in predictions; None without limits."""
        limits = None if self.guard is None else self.guard.limits
        if limits is None or self.schema is None:
            return None
        most = limits[: self.schema.n_features]
        return -most, most

    def read(self, X: MatrixLike, dtype: npt.DTypeLike) -> Rows:
        """Return checked rows in the form that the strategy accepts."""
        if self.schema is None:
            raise StateError("this model has not seen any rows yet, so it has no columns; learn a batch first.")
        return read_rows(X, self.schema, dtype)

    def is_usual(self, X: MatrixLike, dtype: np.dtype[Any]) -> bool:
        """Return whether X needs neither reading nor limiting: one pass, as values within the limits are finite."""
        most = None if self.guard is None else self.guard.limits
        return most is not None and is_ready(X, self.schema, dtype, most=most)  # type: ignore[arg-type]

    def limited(self, rows: Rows) -> Rows:
        """Return rows to be predicted, with extreme values limited; the same object if there are none."""
        return rows if self.guard is None else self.guard.limited(rows)

    def restricted(self, scores: FloatArray) -> FloatArray:
        """Return scores without the classes that have not been learned yet."""
        return self.targets.restrict(scores, self.n_classes_learned)

    def noticed(self, outcome: Outcome, before: Snapshot) -> Outcome:
        """Return the outcome of the step since ``before``, with what the monitor has noticed in it."""
        old, new = before.monitor, self.monitor
        if old is None or new is None or (not new.updates and new.changes is old.changes):
            return outcome
        moved = () if new.changes is old.changes else tuple(new.changes[-1:])  # it notices one move at most
        return Noted(outcome, self.targets.labels, new.updates, moved)

    # -------------------------------------------------------------------- state

    def state(self) -> State:
        """Return the state as flat entries."""
        state: State = {
            "steps": self.steps,
            "n_classes_learned": self.n_classes_learned,
            "started": self.schema is not None,
        }
        state |= nest("classes", self.targets.state())
        if self.guard is not None:
            state |= nest("guard", guard_state(self.guard))
        if self.schema is not None:
            state |= nest("schema", self.schema.state())
        if self.monitor is not None:
            state |= nest("monitor", self.monitor.state())
        return state

    def from_state(self, state: Mapping[str, Any], can: Capabilities, owner: str) -> Snapshot:
        """Return what ``state()`` was called on, for a session with the options of this one; ``scorer`` is None."""
        known = FIELDS.read(state)
        targets = self.targets.from_state(pick("classes", state))
        if known["n_classes_learned"] > len(targets.labels):
            raise misfit(state, "n_classes_learned", f"must be at most {len(targets.labels)}, the number of labels")
        schema = Schema.from_state(pick("schema", state), owner) if known["started"] else None
        guard = pick("guard", state)
        width = None if schema is None or not known["steps"] else schema.n_features
        return Snapshot(
            targets=targets,
            guard=guard_from_state(guard, width, clips=can.linear) if guard else None,
            schema=schema,
            steps=known["steps"],
            n_classes_learned=known["n_classes_learned"],
            monitor=self.monitor,
        )
