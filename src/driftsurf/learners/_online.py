"""Base class of learners that learn each batch on arrival, store no rows, and are one value that an update replaces."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np

from driftsurf.core.contracts import Batch, Capabilities, FloatArray, Rows, SampleStore, Segment, State, Undo
from driftsurf.core.fields import FieldEntry, Fields, Whole
from driftsurf.core.options import Parameterised
from driftsurf.errors import CapabilityError, StateError
from driftsurf.native.experts import log_losses
from driftsurf.native.online import OnlineModel

MOST_LOSS = -math.log(0.01)
"""Largest log loss of a row: models are often certain and wrong, and one such row would outweigh all others of a
batch."""


COUNTS: dict[str, FieldEntry] = {
    "n_features": Whole(1, 2**31 - 1),
    "n_classes": Whole(0, 2**31 - 1),
    "hi": Whole(-1),
    "gradients": Whole(),
}
"""Saved entries of every model of this kind."""


class OnlineLearner(Parameterised, ABC):
    """A learner of this kind. A subclass makes and loads the value, which learns and predicts in the native core."""

    _fitted: OnlineModel

    # -------------------------------------------------------------------- defined by a subclass

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """Abilities of the learner."""

    @abstractmethod
    def _check(self) -> None:
        """Raise OptionError if a parameter is invalid."""

    @abstractmethod
    def _first(self, counts: dict[str, int], seed: int) -> OnlineModel:
        """Return the untrained model with these entries of every model."""

    @abstractmethod
    def _fields(self) -> Fields:
        """Return the declaration of the saved entries."""

    @abstractmethod
    def _loaded(self, known: Mapping[str, Any]) -> OnlineModel:
        """Return the model with these entries, which have been checked."""

    @abstractmethod
    def budget(self, new: Segment) -> int:
        """Return the budget for these new rows, in visits of rows."""

    # -------------------------------------------------------------------- the contract of a learner

    def fresh(self, seed: int, n_features: int, n_classes: int) -> Self:
        """Return a new model; ``seed`` fixes all its draws."""
        self._check()
        tasks = self.capabilities.tasks
        wanted = {0: "regression", 2: "binary"}.get(n_classes, "multiclass")
        if n_classes == 1 or wanted not in tasks:
            raise CapabilityError(f"the task is {wanted!r}; {self!r} supports {', '.join(sorted(tasks))}")
        counts = {"n_features": n_features, "n_classes": n_classes, "hi": -1, "gradients": 0}
        return self._made(self._first(counts, seed))

    def _made(self, fitted: OnlineModel) -> Self:
        model = type(self)(**self.get_params())
        model._fitted = fitted
        return model

    def update(self, samples: SampleStore, new: Segment, steps: int) -> Undo:
        """Learn the new rows with ``steps`` visits of them."""
        return self.learn(samples.view(new), new.hi, steps)

    def learn(self, batch: Batch, hi: int, steps: int) -> Undo:
        """Learn the rows of a batch, which need not be stored; ``hi`` is the number of the row after them."""
        before = self._fitted
        self._fitted = before.after(*batch[:3], hi, steps)
        return functools.partial(setattr, self, "_fitted", before)

    def forget(self, samples: SampleStore, before_row: int) -> Undo:
        """Do nothing: no rows are stored, and what was learned from old ones stays."""
        before = self._fitted
        if before.hi >= 0:
            self._fitted = before.moved(max(before.hi, before_row))
        return functools.partial(setattr, self, "_fitted", before)

    def mark(self) -> Any:
        """Return a mark of the model, for ``put_back``."""
        return self._fitted

    def put_back(self, mark: Any) -> None:
        """Return to the marked model."""
        self._fitted = mark

    def grow(self, n_classes: int) -> Undo:
        """Make room for more classes."""
        before = self._fitted
        if not before.n_classes:
            raise CapabilityError(f"{self!r} predicts numbers; it lacks the capability 'grows_classes'")
        if n_classes > before.n_classes:
            self._fitted = before.grown(n_classes)
        return functools.partial(setattr, self, "_fitted", before)

    def scores(self, X: Rows) -> FloatArray:
        """Return log-probabilities (n, K), or predicted numbers (n,)."""
        return self._fitted.scores(X)

    def scorer(self) -> Callable[[Rows], FloatArray]:
        """Return ``scores`` of the model as it is now; an update replaces the value and never changes it."""
        return self._fitted.scores

    def row_losses(self, scores: FloatArray, y: FloatArray) -> FloatArray:
        """Return the log loss of each row, with probabilities of at least 0.01; for regression, the squared error."""
        if scores.ndim == 1:
            return np.asarray(np.square(scores - y))
        return log_losses(scores, y, MOST_LOSS)

    def penalty(self) -> float:
        """Return 0: there is no penalty."""
        return 0.0

    def needs(self) -> int | None:
        """Return the number of the next row, since no rows are stored; None before the first update."""
        return None if self._fitted.hi < 0 else self._fitted.hi

    def fits(self, n_features: int, n_classes: int) -> bool:
        """Return whether the model was made for this many columns and classes."""
        return (self._fitted.n_features, self._fitted.n_classes) == (n_features, n_classes)

    def outside(self, stored: Segment) -> str:
        """Return the name of a saved row number that is not in the store; "" if all are."""
        return "hi" if self._fitted.hi > stored.hi else ""

    @property
    def gradients(self) -> int:
        """Number of visits of rows so far."""
        return self._fitted.gradients

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays of the model."""
        return int(self._fitted.nbytes)

    # -------------------------------------------------------------------- state

    def state(self) -> State:
        """Return everything that learning changes; StateError for a template."""
        if "_fitted" not in vars(self):
            raise StateError(f"{self!r} is a template, which has no state; call fresh() first")
        return self.frozen_state(self._fitted)

    def freezes(self, fitted: OnlineModel) -> bool:
        """Return whether ``frozen_state`` can save a value of the model: all of them."""
        return True

    def frozen_state(self, fitted: OnlineModel) -> State:
        """Return the entries of a value that the model had at some time."""
        return fitted.entries()

    def frozen_scorer(self, state: Mapping[str, Any]) -> Callable[[Rows], FloatArray]:
        """Return the scores of a model with this template, as ``scorer`` did at the time of the state."""
        return type(self).from_state(self, state).scorer()

    @classmethod
    def from_state(cls, template: Self, state: Mapping[str, Any]) -> Self:
        """Return the model that ``state()`` was called on; ``template`` has its parameters."""
        return template._made(template._loaded(template._fields().read(state)))
