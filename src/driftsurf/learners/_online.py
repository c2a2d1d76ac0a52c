"""Base class of learners that learn each batch on arrival, store no rows, and are one value that an update replaces."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Generic, Self, TypeVar

import numpy as np

from driftsurf.core.changes import replace
from driftsurf.core.contracts import (
    CSR,
    Batch,
    Capabilities,
    FloatArray,
    Rows,
    SampleStore,
    Segment,
    State,
    Undo,
)
from driftsurf.core.fields import FieldEntry, Fields, Whole
from driftsurf.core.options import Parameterised
from driftsurf.errors import CapabilityError, ShapeError, StateError
from driftsurf.native.experts import log_losses, moments_after

MOST_LOSS = -math.log(0.01)
"""Largest log loss of a row: models are often certain and wrong, and one such row would outweigh all others of a
batch."""


@dataclass(frozen=True)
class Moments:
    """Weighted count, mean and summed squared deviation of each column, by group of rows."""

    count: FloatArray
    """Sum of weights, (groups,)."""
    mean: FloatArray
    """Means, (groups, columns)."""
    squares: FloatArray
    """Sums of squared deviations from the mean, (groups, columns)."""

    @classmethod
    def of_nothing(cls, groups: int, columns: int) -> Moments:
        """Return the moments of no rows."""
        return cls(np.zeros(groups), np.zeros((groups, columns)), np.zeros((groups, columns)))

    def after(self, X: Rows, weight: FloatArray, group: FloatArray | None = None) -> Moments:
        """Return the moments of these rows too; ``group`` are their groups, None if there is a single one."""
        return Moments(*moments_after(X, weight, group, self.arrays))

    @property
    def arrays(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The arrays, as the native core takes them."""
        return self.count, self.mean, self.squares

    def grown(self, groups: int) -> Moments:
        """Return the moments with further groups without rows."""
        more = ((0, groups - len(self.count)), (0, 0))
        return Moments(np.pad(self.count, more[0]), np.pad(self.mean, more), np.pad(self.squares, more))

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return int(self.count.nbytes + self.mean.nbytes + self.squares.nbytes)


@dataclass(frozen=True)
class Online:
    """A model in training; a subclass adds what it has learned."""

    n_features: int
    n_classes: int
    hi: int
    """Number of the row after the last one it has learned; -1 before the first update."""
    gradients: int


COUNTS: dict[str, FieldEntry] = {
    "n_features": Whole(1, 2**31 - 1),
    "n_classes": Whole(0, 2**31 - 1),
    "hi": Whole(-1),
    "gradients": Whole(),
}
"""Saved entries of every model of this kind."""

F = TypeVar("F", bound=Online)


class OnlineLearner(Parameterised, ABC, Generic[F]):
    """A learner of this kind. A subclass makes, trains, queries and loads the value."""

    _fitted: F

    # -------------------------------------------------------------------- defined by a subclass

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """Abilities of the learner."""

    @abstractmethod
    def _check(self) -> None:
        """Raise OptionError if a parameter is invalid."""

    @abstractmethod
    def _first(self, seed: int, n_features: int, n_classes: int) -> F:
        """Return the untrained model."""

    @abstractmethod
    def _learned(self, known: F, batch: Batch, steps: int) -> F:
        """Return a new value, the model after ``steps`` visits of rows of a batch, at least one."""

    @abstractmethod
    def _grown(self, known: F, n_classes: int) -> F:
        """Return the model with room for more classes."""

    @abstractmethod
    def _scored(self, known: F, X: Rows) -> FloatArray:
        """Return log-probabilities (n, K), or predicted numbers (n,)."""

    @abstractmethod
    def _fields(self) -> Fields:
        """Return the declaration of the saved entries."""

    @abstractmethod
    def _loaded(self, known: Mapping[str, Any]) -> F:
        """Return the model with these entries, which have been checked."""

    @abstractmethod
    def _entries(self, known: F) -> State:
        """Return the entries to save, in addition to those of every model."""

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
        return self._made(self._first(seed, n_features, n_classes))

    def _made(self, fitted: F) -> Self:
        model = type(self)(**self.get_params())
        model._fitted = fitted
        return model

    def update(self, samples: SampleStore, new: Segment, steps: int) -> Undo:
        """Learn the new rows with ``steps`` visits of them."""
        return self.learn(samples.view(new), new.hi, steps)

    def learn(self, batch: Batch, hi: int, steps: int) -> Undo:
        """Learn the rows of a batch, which need not be stored; ``hi`` is the number of the row after them."""
        before, count = self._fitted, len(batch.y)
        check_width(batch.X, before.n_features)
        after = self._learned(before, batch, steps) if steps and count else replace(before)
        vars(after).update(hi=hi, gradients=before.gradients + (steps if count else 0))  # nobody else has it yet
        self._fitted = after
        return functools.partial(setattr, self, "_fitted", before)

    def forget(self, samples: SampleStore, before_row: int) -> Undo:
        """Do nothing: no rows are stored, and what was learned from old ones stays."""
        before = self._fitted
        if before.hi >= 0:
            self._fitted = replace(before, hi=max(before.hi, before_row))
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
            self._fitted = replace(self._grown(before, n_classes), n_classes=n_classes)
        return functools.partial(setattr, self, "_fitted", before)

    def scores(self, X: Rows) -> FloatArray:
        """Return log-probabilities (n, K), or predicted numbers (n,)."""
        return self._checked_scores(self._fitted, X)

    def scorer(self) -> Callable[[Rows], FloatArray]:
        """Return ``scores`` of the model as it is now; an update replaces the value and never changes it."""
        return functools.partial(self._checked_scores, self._fitted)

    def _checked_scores(self, known: F, X: Rows) -> FloatArray:
        check_width(X, known.n_features)  # compiled code checks no bounds
        return self._scored(known, X)

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
        return sum(value.nbytes for value in vars(self._fitted).values() if isinstance(value, np.ndarray | Moments))

    # -------------------------------------------------------------------- state

    def state(self) -> State:
        """Return everything that learning changes; StateError for a template."""
        if "_fitted" not in vars(self):
            raise StateError(f"{self!r} is a template, which has no state; call fresh() first")
        return self.frozen_state(self._fitted)

    def freezes(self, fitted: F) -> bool:
        """Return whether ``frozen_state`` can save a value of the model: all of them."""
        return True

    def frozen_state(self, fitted: F) -> State:
        """Return the entries of a value that the model had at some time."""
        return {name: getattr(fitted, name) for name in COUNTS} | self._entries(fitted)

    def frozen_scorer(self, state: Mapping[str, Any]) -> Callable[[Rows], FloatArray]:
        """Return the scores of a model with this template, as ``scorer`` did at the time of the state."""
        return type(self).from_state(self, state).scorer()

    @classmethod
    def from_state(cls, template: Self, state: Mapping[str, Any]) -> Self:
        """Return the model that ``state()`` was called on; ``template`` has its parameters."""
        return template._made(template._loaded(template._fields().read(state)))


def check_width(X: Rows, n_features: int) -> None:
    """Raise ShapeError unless rows have the number of columns that a model was made for."""
    width = X.n_features if isinstance(X, CSR) else X.shape[1]
    if width != n_features:
        raise ShapeError(f"the rows have {width} columns, but the model was made for {n_features}")


def counts_of(known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the saved entries of every model of this kind."""
    return {field.name: known[field.name] for field in fields(Online)}
