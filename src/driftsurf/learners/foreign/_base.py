"""Base class of the adapters of foreign models: rows by number, scores of one shape, a risk, an undo."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from driftsurf.core.changes import replace
from driftsurf.core.contracts import (
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
from driftsurf.core.fields import Array, FieldEntry, FieldRule, Fields, Foreign, Whole
from driftsurf.core.options import choice
from driftsurf.errors import CapabilityError, MissingExtraError, OptionError, ShapeError
from driftsurf.learners._online import MOST_LOSS
from driftsurf.learners.foreign._refitted import Fit
from driftsurf.native.experts import log_losses, log_shares

if TYPE_CHECKING:  # scikit-learn has no type annotations
    from driftsurf.core.frames import ScikitLearnBase as BaseEstimator
else:
    from sklearn.base import BaseEstimator

Risk: TypeAlias = Literal["auto", "log", "zero-one", "squared", "absolute"] | Callable[[Any, Any], Any]
CLASSIFICATION_RISKS = "auto", "log", "zero-one"
REGRESSION_RISKS = "auto", "squared", "absolute"
COUNTED = 0.5
"""A model without row weights learns the rows of at least this weight and leaves out the others."""
LEAST_PROBABILITY = 1e-15
COUNTS: dict[str, FieldEntry] = {
    "n_features": Whole(1),
    "n_classes": Whole(),
    "seed": Whole(0, 2**64 - 1),
    "lo": Whole(-1),
    "hi": Whole(-1),
    "saved": Whole(),
    "words": Whole(),
    "gradients": Whole(),
}
"""Fields of ``FittedModel`` that are saved as numbers."""
FOREIGN: dict[str, FieldEntry] = {"model": Foreign()}
PRESENT = Array(np.int64, ("present",), least=0, most="n_classes-1")
ROWS = FieldRule(
    "hi",
    "must be at least lo, or -1 as lo is",
    lambda known: (known["lo"] < 0) == (known["hi"] < 0) and known["lo"] <= known["hi"],
)
LEARNED = FieldRule(
    "present",
    "must be rising codes",
    lambda known: "present" not in known or (known["present"][1:] > known["present"][:-1]).all(),
)


def extra(module: str, name: str) -> Any:
    """Import a module of an optional package; MissingExtraError says how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        message = f"this learner needs {module.split('.')[0]}: pip install 'driftsurf[{name}]'"
        raise MissingExtraError(message) from error


@dataclass(frozen=True)
class FittedModel:
    """A foreign model in training. An update makes a new value and leaves the old one unchanged, for its undo."""

    capabilities: Capabilities
    n_features: int
    n_classes: int
    seed: int
    model: Any = None
    """Foreign model; None before the first update, and while all its rows are of one class."""
    present: IntArray | None = None
    """Class codes of the columns of the model's outputs; None before the first update."""
    lo: int = -1
    """First of its rows, which are lo to hi; -1 before the first update."""
    hi: int = -1
    saved: int = 0
    """Saved budget: visits of rows that were not spent yet."""
    words: int = 0
    """Number of random words used."""
    gradients: int = 0
    fit: Fit | None = None
    """Rows of the last fit, if the model is saved by them."""
    memory: Any = None
    """Further state of an adapter, never changed in place."""


class ForeignLearner(BaseEstimator, ABC):
    """Base class of the adapters. A subclass creates, trains and queries the foreign model."""

    risk: Risk
    _fitted: FittedModel

    # -------------------------------------------------------------------- defined by a subclass

    @abstractmethod
    def _capabilities(self) -> Capabilities:
        """Return the capabilities of the template."""

    @abstractmethod
    def budget(self, new: Segment) -> int:
        """Return the budget for these new rows, in visits of rows."""

    @property
    @abstractmethod
    def _keeps_rows(self) -> bool:
        """Whether an update uses earlier rows again, so that they must be kept."""

    @abstractmethod
    def _learn(self, known: FittedModel, samples: SampleStore, new: Segment, steps: int) -> FittedModel:
        """Return the model after learning; its rows are ``known.lo`` to ``known.hi``, of which ``new`` are new."""

    @abstractmethod
    def _outputs(self, fitted: FittedModel, X: Rows) -> npt.NDArray[Any]:
        """Return probabilities (n, columns) of the classes ``fitted.present``, or predicted numbers (n,).

        Of two classes, the probabilities of the second one (n,) are enough.
        """

    @abstractmethod
    def _check(self) -> None:
        """Raise OptionError if a parameter is invalid."""

    # -------------------------------------------------------------------- the contract of a learner

    @property
    def capabilities(self) -> Capabilities:
        """Capabilities of the foreign model; those of a model in training are the ones it was made with."""
        fitted: FittedModel | None = vars(self).get("_fitted")
        return self._capabilities() if fitted is None else fitted.capabilities

    def fresh(self, seed: int, n_features: int, n_classes: int) -> Self:
        """Return a new model; ``seed`` fixes its draws as far as the foreign model allows."""
        self._check()
        can = self.capabilities
        if not callable(self.risk):
            choice("risk", self.risk, REGRESSION_RISKS if can.regression else CLASSIFICATION_RISKS)
        if self.risk == "log" and not can.probabilities:
            raise CapabilityError(
                f"risk='log' needs the capability 'probabilities', which {self!r} lacks; use 'zero-one'"
            )
        if bool(n_classes) == can.regression or (n_classes > 2 and "multiclass" not in can.tasks):
            wanted = {0: "regression", 2: "binary"}.get(n_classes, "multiclass")
            raise CapabilityError(f"the task is {wanted!r}; {self!r} supports {', '.join(sorted(can.tasks))}")
        model = type(self)(**self.get_params(deep=False))
        model._fitted = FittedModel(can, n_features, n_classes, seed)
        return model

    def update(self, samples: SampleStore, new: Segment, steps: int) -> Undo:
        """Learn with at most ``steps`` visits of rows; the training set reaches to ``new.hi`` from now on."""
        before = self._fitted
        lo, start = (new.lo, new.lo) if before.lo < 0 else (before.lo, before.hi)
        self._fitted = self._learn(replace(before, lo=lo, hi=new.hi), samples, Segment(start, new.hi), steps)
        return functools.partial(setattr, self, "_fitted", before)

    def forget(self, samples: SampleStore, before_row: int) -> Undo:
        """Drop old rows; what was learned from them stays until the model is refitted."""
        before = self._fitted
        if before.lo >= 0:
            fit = before.fit
            if fit is not None and before_row >= before.hi:  # retired: the store will not keep its rows any more
                fit = fit.kept(samples)
            self._fitted = replace(before, lo=max(before.lo, before_row), hi=max(before.hi, before_row), fit=fit)
        return functools.partial(setattr, self, "_fitted", before)

    def mark(self) -> Any:
        """Return a mark of the model, for ``put_back``: an update makes another value and leaves this one unchanged."""
        return self._fitted

    def put_back(self, mark: Any) -> None:
        """Return to the marked model."""
        self._fitted = mark

    def grow(self, n_classes: int) -> Undo:
        """Make room for more classes; before the first update every learner can."""
        before = self._fitted
        if before.present is not None and not self.capabilities.grows_classes:
            raise CapabilityError(
                f"{self!r} cannot grow to {n_classes} classes (it lacks the capability 'grows_classes'); pass all "
                "classes at the start (classes=[...])"
            )
        self._fitted = replace(before, n_classes=n_classes)
        return functools.partial(setattr, self, "_fitted", before)

    def scores(self, X: Rows) -> FloatArray:
        """Return logarithms of clipped probabilities (n, K), or predicted numbers (n,)."""
        return self._scored(self._fitted, X)

    def scorer(self) -> Callable[[Rows], FloatArray]:
        """Return ``scores`` of the model as it is now; later updates do not affect it."""
        return functools.partial(self._scored, self._fitted)

    def freezes(self, fitted: FittedModel) -> bool:
        """Return whether a value that the model had can be saved by ``frozen_state`` without the rows of its fit."""
        return False

    def frozen_state(self, fitted: FittedModel) -> State:
        """Return the entries of a value that the model had, for which ``freezes`` is true."""
        raise NotImplementedError

    def frozen_scorer(self, state: Mapping[str, Any]) -> Callable[[Rows], FloatArray]:
        """Return the scores of a model with this template, as ``scorer`` did at the time of the state."""
        raise NotImplementedError

    def _scored(self, fitted: FittedModel, X: Rows) -> FloatArray:
        """Return the scores of rows by one fitted model; classes that it has not seen get the smallest probability."""
        count, classes = n_rows(X), fitted.n_classes
        if classes == 0:
            return np.zeros(count) if fitted.model is None else np.asarray(self._outputs(fitted, X), np.float64)
        if fitted.present is None:
            return np.full((count, classes), -np.log(classes))
        shares = np.ones((count, 1)) if fitted.model is None else self._outputs(fitted, X)
        return log_shares(shares, fitted.present, classes, LEAST_PROBABILITY)

    def row_losses(self, scores: FloatArray, y: FloatArray) -> FloatArray:
        """Return the risk of each row: log loss, zero-one, squared or absolute error, or the user's function."""
        can = self.capabilities
        risk = self.risk
        if risk == "auto":
            risk = "squared" if can.regression else "log" if can.probabilities else "zero-one"
        if callable(risk):
            losses = np.asarray(risk(y, scores if can.regression else np.exp(scores)), np.float64)
            if losses.shape != y.shape:
                raise ShapeError(
                    f"risk returned shape {losses.shape} for {len(y)} rows; it must return one number per row"
                )
            return losses
        if can.regression:
            wrong = np.abs(scores - y)
            return wrong if risk == "absolute" else np.square(wrong)
        if risk == "zero-one":
            return np.asarray(scores.argmax(axis=1) != y, np.float64)
        return log_losses(scores, y, MOST_LOSS)

    def penalty(self) -> float:
        """Return 0: the penalty of a foreign model is not known."""
        return 0.0

    def fits(self, n_features: int, n_classes: int) -> bool:
        """Return whether the model was made for this many columns and classes."""
        return (self._fitted.n_features, self._fitted.n_classes) == (n_features, n_classes)

    def needs(self) -> int | None:
        """Return the first row to keep: of its training set or its last fit, or the next row if it learns each once."""
        fitted = self._fitted
        if fitted.lo < 0:
            return None
        oldest = fitted.lo if self._keeps_rows else fitted.hi
        return oldest if fitted.fit is None else fitted.fit.needs(oldest)

    @property
    def gradients(self) -> int:
        """Number of visits of rows so far."""
        return self._fitted.gradients

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays of the model, as far as they can be found."""
        fit = self._fitted.fit
        return array_bytes(self._fitted.model) + (0 if fit is None else fit.nbytes)

    # -------------------------------------------------------------------- state

    def state(self) -> State:
        """Return the state; the foreign model is saved as tensors, as the rows of its fit, or as a pickle."""
        fitted = self._fitted
        entries = vars(fitted)
        state: State = {name: entries[name] for name in COUNTS}
        if fitted.present is not None:
            state["present"] = np.asarray(fitted.present, np.int64)
        return state | self._model_state(fitted)

    @classmethod
    def from_state(cls, template: Self, state: Mapping[str, Any]) -> Self:
        """Return the model that ``state()`` was called on; one saved by its rows is ready after ``refit``."""
        model = cls(**template.get_params(deep=False))
        known = template._fields().read(state)
        fitted = FittedModel(
            template.capabilities, **{name: known[name] for name in COUNTS}, present=known.get("present")
        )
        model._fitted = model._model_from(fitted, state)
        return model

    def _fields(self) -> Fields:
        """Return the declaration of the saved entries."""
        return declared(FOREIGN)

    def outside(self, stored: Segment) -> str:
        """Return the name of a saved row number that is not in the store; "" if all are."""
        fitted = self._fitted
        if fitted.hi > stored.hi:
            return "hi"
        if fitted.fit is not None and fitted.fit.rows is None:
            return "fit.lo" if fitted.fit.lo < stored.lo else "fit.hi" if fitted.fit.hi > stored.hi else ""
        return "lo" if self._keeps_rows and 0 <= fitted.lo < min(fitted.hi, stored.lo) else ""

    def _model_state(self, fitted: FittedModel) -> State:
        """Return the entries of the foreign model; by default an object that only pickle can save."""
        state: dict[str, Any] = {} if fitted.model is None else {"model": Pickled(repr(self), fitted.model)}
        return state

    def _model_from(self, fitted: FittedModel, state: Mapping[str, Any]) -> FittedModel:
        """Return ``fitted`` with the foreign model that these entries hold."""
        return replace(fitted, model=state["model"].value) if "model" in state else fitted


def declared(entries: Mapping[str, FieldEntry], parts: Iterable[str] = ()) -> Fields:
    """Return the declaration of an adapter's state, with the entries that every adapter has."""
    every = COUNTS | {"present": PRESENT} | dict(entries)
    return Fields(every, optional=["present", *entries], parts=list(parts), rules=[ROWS, LEARNED])


def array_bytes(thing: Any, depth: int = 4) -> int:
    """Return the bytes of the arrays that an object holds, directly or through a few others."""
    if isinstance(thing, np.ndarray):
        return int(thing.nbytes)
    if depth == 0 or thing is None or isinstance(thing, str | bytes | int | float):
        return 0
    if isinstance(thing, list | tuple | set):
        return sum(array_bytes(item, depth - 1) for item in thing)
    held = thing if isinstance(thing, dict) else getattr(thing, "__dict__", {})  # C objects have none
    return sum(array_bytes(item, depth - 1) for item in held.values())


def visits(passes: float, new: Segment) -> int:
    """Return ``passes`` times the number of new rows; fractions are carried over by counting from row 0."""
    return int(passes * new.hi) - int(passes * new.lo)


def tasks_of(regression: bool, multiclass: bool = True) -> frozenset[str]:
    """Return the tasks of a regressor or a classifier."""
    if regression:
        return frozenset({"regression"})
    return frozenset({"binary", "multiclass"} if multiclass else {"binary"})


def refuse(model: Any, what: str) -> OptionError:
    """Return an error for a foreign model that an adapter cannot use."""
    return OptionError(f"{model!r} {what}")
