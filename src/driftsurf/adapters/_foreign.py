"""What models from elsewhere need to be learners: rows by number, scores of one shape, a risk, an undo."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from driftsurf._options import choice, whole
from driftsurf._values import replace
from driftsurf.adapters._fit import Fit
from driftsurf.base import (
    Batch,
    Capabilities,
    FloatArray,
    IntArray,
    Pickled,
    Rows,
    SampleStore,
    Segment,
    State,
    Undo,
    n_rows,
)
from driftsurf.errors import CapabilityError, MissingExtraError, OptionError, ShapeError, StateError

Risk: TypeAlias = Literal["auto", "log", "zero-one", "squared", "absolute"] | Callable[[Any, Any], Any]
CLASS_RISKS = "auto", "log", "zero-one"
VALUE_RISKS = "auto", "squared", "absolute"
COUNTED = 0.5
"""A row of less weight is left out by a model that knows no weights."""
LEAST_PROBABILITY = 1e-15
COUNTS = "n_features", "n_classes", "seed", "lo", "hi", "saved", "words", "gradients"
"""The numbers of ``Fitted``, as they are saved."""
WORST_SHARE = 0.01
"""In log loss as a risk a class has at least this probability: trees and boosting are often certain and wrong, and one
such row in a batch would outweigh what the others say."""


def extra(module: str, name: str) -> Any:
    """A module of an optional package, or an error that says how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        message = f"this learner needs {module.split('.')[0]}: pip install 'driftsurf[{name}]'"
        raise MissingExtraError(message) from error


@dataclass(frozen=True)
class Fitted:
    """A foreign model in training. An update makes a new one and leaves the old one as it was, for its undo."""

    capabilities: Capabilities
    n_features: int
    n_classes: int
    seed: int
    model: Any = None
    """None before there is one, and while all its rows are of one class."""
    present: IntArray | None = None
    """The codes of the classes that the model's columns stand for; None before the first update."""
    lo: int = -1
    """Its rows are lo to hi; -1 before the first."""
    hi: int = -1
    saved: int = 0
    """Visits of rows that were not spent yet."""
    words: int = 0
    gradients: int = 0
    fit: Fit | None = None
    """What the model was last fitted on, if it is saved by its rows."""


class ForeignLearner(BaseEstimator, ABC):  # type: ignore[misc]
    """All that adapters share. A subclass makes, trains and asks the model."""

    risk: Risk
    _fitted: Fitted

    # -------------------------------------------------------------------- what a subclass says

    @abstractmethod
    def _capabilities(self) -> Capabilities:
        """What it can do."""

    @abstractmethod
    def budget(self, new: Segment) -> int:
        """Visits of rows for these new rows."""

    @property
    @abstractmethod
    def _keeps_rows(self) -> bool:
        """Whether it learns from its rows again."""

    @abstractmethod
    def _learnt(self, known: Fitted, samples: SampleStore, new: Segment, steps: int) -> Fitted:
        """After learning; the rows from ``known.lo`` to ``known.hi`` are its own, those of ``new`` are new."""

    @abstractmethod
    def _outputs(self, fitted: Fitted, X: Rows) -> npt.NDArray[Any]:
        """Probabilities (n, columns) of the classes of ``fitted.present``, or values (n,)."""

    @abstractmethod
    def _check(self) -> None:
        """Raise OptionError if an option cannot be used."""

    # -------------------------------------------------------------------- the contract of a learner

    @property
    def capabilities(self) -> Capabilities:
        """What it can do, as the model inside says; of a model in training, as it was when it was made."""
        return self._fitted.capabilities if hasattr(self, "_fitted") else self._capabilities()

    def fresh(self, seed: int, n_features: int, n_classes: int) -> Self:
        """A new model; ``seed`` fixes its draws as far as the model lets itself be told."""
        self._check()
        can = self.capabilities
        if not callable(self.risk):
            choice("risk", self.risk, VALUE_RISKS if can.values else CLASS_RISKS)
        if self.risk == "log" and not can.probabilities:
            raise CapabilityError(f"{self!r} has not the capability 'probabilities', which risk='log' needs")
        if bool(n_classes) == can.values or (n_classes > 2 and "multiclass" not in can.tasks):
            wanted = {0: "regression", 2: "binary"}.get(n_classes, "multiclass")
            raise CapabilityError(f"the tasks of {self!r} are {', '.join(sorted(can.tasks))}, not {wanted!r}")
        model = type(self)(**self.get_params(deep=False))
        model._fitted = Fitted(can, n_features, n_classes, seed)
        return model

    def update(self, samples: SampleStore, new: Segment, steps: int) -> Undo:
        """Learn, visiting at most ``steps`` rows; all rows from the first one given to ``new.hi`` are its own."""
        before = self._fitted
        lo, start = (new.lo, new.lo) if before.lo < 0 else (before.lo, before.hi)
        self._fitted = self._learnt(replace(before, lo=lo, hi=new.hi), samples, Segment(start, new.hi), steps)
        return functools.partial(setattr, self, "_fitted", before)

    def forget(self, samples: SampleStore, before_row: int) -> Undo:
        """Let go of old rows; what was learnt from them stays until the model is fitted anew."""
        before = self._fitted
        if before.lo >= 0:
            fit = before.fit
            if fit is not None and before_row >= before.hi:  # it learns no more, and nobody keeps its rows for it
                fit = fit.kept(samples)
            self._fitted = replace(before, lo=max(before.lo, before_row), hi=max(before.hi, before_row), fit=fit)
        return functools.partial(setattr, self, "_fitted", before)

    def grow(self, *, n_classes: int | None = None, n_features: int | None = None) -> Undo:
        """Make room for more classes if it can; before the first update all can."""
        before = self._fitted
        grows = before.present is None or self.capabilities.grows_classes
        if n_features is not None or n_classes is None or not grows:
            name = "grows_features" if n_classes is None else "grows_classes"
            raise CapabilityError(
                f"{self!r} cannot grow to n_classes={n_classes}, n_features={n_features} (it has not the capability "
                f"{name!r}): name all classes at the start (classes=[...])"
            )
        self._fitted = replace(before, n_classes=n_classes)
        return functools.partial(setattr, self, "_fitted", before)

    def scores(self, X: Rows) -> FloatArray:
        """Logarithms of clipped probabilities (n, K), or values (n,)."""
        return self._scored(self._fitted, X)

    def scorer(self) -> Callable[[Rows], FloatArray]:
        """``scores`` as it is now, whatever is learnt later."""
        return functools.partial(self._scored, self._fitted)

    def _scored(self, fitted: Fitted, X: Rows) -> FloatArray:
        count, classes = n_rows(X), fitted.n_classes
        if classes == 0:
            return np.zeros(count) if fitted.model is None else np.asarray(self._outputs(fitted, X), np.float64)
        if fitted.present is None:
            return np.full((count, classes), -np.log(classes))
        shares = np.ones((count, 1)) if fitted.model is None else self._outputs(fitted, X)
        if len(fitted.present) < classes:
            spread = np.zeros((count, classes))
            spread[:, fitted.present] = shares
            shares = spread
        # A comparison with NaN is false, so it becomes the least probability, too.
        return np.log(np.where(shares > LEAST_PROBABILITY, shares, LEAST_PROBABILITY), dtype=np.float64)

    def losses(self, batch: Batch) -> FloatArray:
        """The risk of each row."""
        return self.row_losses(self.scores(batch.X), batch.y)

    def row_losses(self, scores: FloatArray, y: FloatArray) -> FloatArray:
        """Log loss, zero-one, squared or absolute error, or the user's own measure."""
        can = self.capabilities
        risk = self.risk
        if risk == "auto":
            risk = "squared" if can.values else "log" if can.probabilities else "zero-one"
        if callable(risk):
            losses = np.asarray(risk(y, scores if can.values else np.exp(scores)), np.float64)
            if losses.shape != y.shape:
                raise ShapeError(f"risk gave shape {losses.shape} for {len(y)} rows: give one number for each row")
            return losses
        if can.values:
            wrong = np.abs(scores - y)
            return wrong if risk == "absolute" else np.square(wrong)
        if risk == "zero-one":
            return np.asarray(scores.argmax(axis=1) != y, np.float64)
        return np.asarray(-np.maximum(scores[np.arange(len(y)), y.astype(np.int64)], np.log(WORST_SHARE)))

    def penalty(self) -> float:
        """None: what it regularises is its own affair."""
        return 0.0

    def fits(self, n_features: int, n_classes: int) -> bool:
        """Whether it is made for rows of so many columns and classes."""
        return (self._fitted.n_features, self._fitted.n_classes) == (n_features, n_classes)

    def needs(self) -> int | None:
        """The first of its rows, those of its last fit included, or the next one if it learns each but once."""
        fitted = self._fitted
        if fitted.lo < 0:
            return None
        oldest = fitted.lo if self._keeps_rows else fitted.hi
        return oldest if fitted.fit is None else fitted.fit.needs(oldest)

    @property
    def gradients(self) -> int:
        """Visits of rows so far."""
        return self._fitted.gradients

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays of the model, as far as they can be found."""
        fit = self._fitted.fit
        return array_bytes(self._fitted.model) + (0 if fit is None else fit.nbytes)

    # -------------------------------------------------------------------- state

    def state(self) -> State:
        """What the strategy's rows do not tell; the model itself by its numbers, its rows, or as a pickle."""
        fitted = self._fitted
        state: State = {name: getattr(fitted, name) for name in COUNTS}
        if fitted.present is not None:
            state["present"] = np.asarray(fitted.present, np.int64)
        return state | self._model_state(fitted)

    @classmethod
    def from_state(cls, template: Self, state: Mapping[str, Any]) -> Self:
        """The model that gave ``state``; one that is saved by its rows is ready after ``refit``."""
        model = cls(**template.get_params(deep=False))
        counts: dict[str, Any] = {name: whole(name, state[name], at_least=-1) for name in COUNTS}
        fitted = Fitted(template.capabilities, **counts)
        if "present" in state:
            present = np.asarray(state["present"])
            if present.ndim != 1 or present.dtype != np.int64 or not set(present) <= set(range(fitted.n_classes)):
                raise StateError(f"the saved classes of {template!r} are not among its {fitted.n_classes}")
            fitted = replace(fitted, present=present)
        model._fitted = model._model_from(fitted, state)
        return model

    def _model_state(self, fitted: Fitted) -> State:
        """The entries of the model alone: an object that only pickle can save, unless a subclass knows better."""
        state: dict[str, Any] = {} if fitted.model is None else {"model": Pickled(repr(self), fitted.model)}
        return state

    def _model_from(self, fitted: Fitted, state: Mapping[str, Any]) -> Fitted:
        """``fitted`` with the model that gave these entries."""
        model = state.get("model")
        if model is not None and not isinstance(model, Pickled):
            raise StateError(f"the saved model of {self!r} is a {type(model).__name__}, no pickle that was trusted")
        return fitted if model is None else replace(fitted, model=model.value)


def array_bytes(thing: Any, depth: int = 4) -> int:
    """Bytes of the arrays that ``thing`` holds, directly or through a few others."""
    if isinstance(thing, np.ndarray):
        return int(thing.nbytes)
    if depth == 0 or thing is None or isinstance(thing, str | bytes | int | float):
        return 0
    if isinstance(thing, list | tuple | set):
        return sum(array_bytes(item, depth - 1) for item in thing)
    held = thing if isinstance(thing, dict) else getattr(thing, "__dict__", {})
    return sum(array_bytes(item, depth - 1) for item in held.values())


def visits(passes: float, new: Segment) -> int:
    """``passes`` times the new rows; fractions are carried over by counting from row 0."""
    return int(passes * new.hi) - int(passes * new.lo)


def of_task(values: bool, multiclass: bool = True) -> frozenset[str]:
    """The tasks of a regressor or a classifier."""
    if values:
        return frozenset({"regression"})
    return frozenset({"binary", "multiclass"} if multiclass else {"binary"})


def refuse(model: Any, what: str) -> OptionError:
    """An error for a model that does not do what an adapter needs."""
    return OptionError(f"{model!r} is {what}")
