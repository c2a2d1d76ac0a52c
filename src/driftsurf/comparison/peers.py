"""Models of other libraries, models on a schedule, and trivial rules: each predicts a batch, then learns it."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.sparse import vstack

from driftsurf.core.contracts import FloatArray
from driftsurf.core.decisions import Decision
from driftsurf.core.journal import LEAST_PROBABILITY
from driftsurf.core.options import whole
from driftsurf.errors import CapabilityError, MissingExtraError, OptionError
from driftsurf.session.observation import Observation
from driftsurf.session.session import Session

TargetKind: TypeAlias = Literal["classes", "numbers"]
"""Predictions of a model: classes as codes from 0 to K - 1, or the numbers of a regression."""


Predicted: TypeAlias = Sequence[float] | npt.NDArray[Any]
"""Class codes or numbers, one for each row."""


class Peer(ABC):
    """A model that :func:`driftsurf.prequential` can run: it predicts a batch, then learns its rows one by one.

    ``n_features_in_`` (and ``classes_``, unless it is a regression) appear with the first batch, as in scikit-learn.
    """

    predicts: ClassVar[tuple[TargetKind, ...]] = ("classes", "numbers")
    n_features_in_: int
    classes_: npt.NDArray[Any]
    _begun = False

    def observe(self, X: npt.NDArray[Any], y: npt.NDArray[Any], *, classes: Any = None) -> Observation:
        """Predict a batch with the model as it is, and learn it; an untrained model predicts the first class, or 0."""
        codes: npt.NDArray[Any] = np.zeros(len(y), y.dtype)
        shares = None
        if self._begun:
            found, shares = self._predict_shares(X) if classes is not None else (self._predict(X), None)
            codes = np.asarray(found)
        self.partial_fit(X, y, () if classes is None else classes)
        scores = np.zeros(len(y)) if shares is None else np.log(np.clip(shares, LEAST_PROBABILITY, 1.0))
        return Observation(codes, codes, y, scores, (), probabilities=shares is not None)

    def partial_fit(
        self, X: npt.NDArray[Any], y: npt.NDArray[Any], classes: npt.NDArray[Any] | Sequence[int] = ()
    ) -> None:
        """Learn the rows one after the other. The first call fixes the classes; without any it is a regression."""
        if not self._begun:
            self._begin(X.shape[1], len(classes))
            self._begun = True
            self.n_features_in_ = X.shape[1]
            if len(classes):
                self.classes_ = np.asarray(classes)
        self._learn(X, y)

    def predict(self, X: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Predict all rows with the model as it is."""
        return np.asarray(self._predict(X))

    @abstractmethod
    def _begin(self, n_features: int, n_classes: int) -> None:
        """Make the model; ``n_classes`` is 0 for a regression."""

    @abstractmethod
    def _learn(self, X: npt.NDArray[Any], y: npt.NDArray[Any]) -> None:
        """Learn the rows."""

    @abstractmethod
    def _predict(self, X: npt.NDArray[Any]) -> Predicted:
        """Return the class codes or numbers of the rows."""

    def _predict_shares(self, X: npt.NDArray[Any]) -> tuple[Predicted, FloatArray | None]:
        """Return the class codes of the rows and the probabilities of all classes; None if the model has none."""
        return self._predict(X), None


class Majority(Peer):
    """Predicts the most frequent class so far."""

    predicts: ClassVar[tuple[TargetKind, ...]] = ("classes",)

    def _begin(self, n_features: int, n_classes: int) -> None:
        self._counts = np.zeros(n_classes, np.int64)

    def _learn(self, X: npt.NDArray[Any], y: npt.NDArray[Any]) -> None:
        self._counts += np.bincount(y, minlength=len(self._counts))

    def _predict(self, X: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.full(X.shape[0], self._counts.argmax())

    def _predict_shares(self, X: npt.NDArray[Any]) -> tuple[Predicted, FloatArray | None]:
        shares = (self._counts + 1) / (self._counts + 1).sum()  # no class is impossible
        return self._predict(X), np.tile(shares, (X.shape[0], 1))


class Diverged(Peer):
    """Predicts NaN for every row: stands in for a model whose training diverged."""

    def _begin(self, n_features: int, n_classes: int) -> None:
        """There is no model to make."""

    def _learn(self, X: npt.NDArray[Any], y: npt.NDArray[Any]) -> None:
        """There is nothing to learn."""

    def _predict(self, X: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.full(X.shape[0], np.nan)


class Mean(Peer):
    """Predicts the mean of all targets so far."""

    predicts: ClassVar[tuple[TargetKind, ...]] = ("numbers",)

    def _begin(self, n_features: int, n_classes: int) -> None:
        self._sum, self._count = 0.0, 0

    def _learn(self, X: npt.NDArray[Any], y: npt.NDArray[Any]) -> None:
        self._sum, self._count = self._sum + float(y.sum()), self._count + len(y)

    def _predict(self, X: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.full(X.shape[0], self._sum / self._count)


class Persistence(Peer):
    """Predicts the last target of the batch before for all rows; before any, the first class, or 0."""

    def _begin(self, n_features: int, n_classes: int) -> None:
        self._last: float = 0.0

    def _learn(self, X: npt.NDArray[Any], y: npt.NDArray[Any]) -> None:
        self._last = y[-1].item()

    def _predict(self, X: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.full(X.shape[0], self._last)


class Scheduled:
    """A model that is fitted from scratch to the last rows from time to time, and learns nothing in between.

    It stands for a job that retrains a model every night, or for a model that was trained once. Until the first
    scheduled fit it is fitted to all rows so far, after each of the first ten batches and whenever a tenth more have
    come, because it has to predict them as well.
    """

    def __init__(
        self,
        fresh: Callable[[int], Session],
        *,
        every: int | None = None,
        window: int | None = None,
        rows: int | None = None,
    ) -> None:
        """Fit models from ``fresh``, which is told the number of rows, to the last ``window`` batches or ``rows``.

        It does so after every ``every`` batches; None never fits again.
        """
        if (window is None) == (rows is None):
            raise OptionError("window and rows both say what a model is fitted to: give the one in batches or in rows")
        self._fresh, self._in_rows = fresh, rows is not None
        self._most = whole("window", window, at_least=1) if rows is None else whole("rows", rows, at_least=1)
        self._every = None if every is None else whole("every", every, at_least=1)
        self._kept = deque[tuple[Any, Any]]()
        self._held = self._total = 0  # batches, or rows, that are kept and that there were
        self._seen = self._fitted = 0

    def observe(self, X: Any, y: Any, *, classes: Any = None) -> Observation:
        """Predict a batch with the last model, and fit a new one if the schedule says so."""
        if self._seen == 0:
            self._keep(X, y)
            self._fitted, self._model = 1, self._fresh(len(y))
            return self._model.observe(X, y, classes=classes)
        seen = self._model.judge(X, y, classes=classes)
        return replace(seen, decisions=self.learn(X, y, classes=classes))

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Predict rows with the last model."""
        return self._model.predict(X)

    def learn(self, X: Any, y: Any, *, classes: Any = None) -> tuple[Decision, ...]:
        """Keep a batch, and fit a new model if the schedule says so."""
        self._keep(X, y)
        if not self._is_due():
            return ()
        self._fitted = self._seen
        rows, labels = zip(*self._kept, strict=True)
        first = -self._most if self._in_rows else 0
        stacked = np.concatenate(rows) if isinstance(X, np.ndarray) else vstack(rows, format="csr")
        targets = np.concatenate(labels)[first:]
        self._model = self._fresh(len(targets))
        return self._model.learn(stacked[first:], targets, classes=classes)

    def _size(self, labels: Any) -> int:
        return len(labels) if self._in_rows else 1

    def _keep(self, X: Any, y: Any) -> None:
        self._kept.append((X, y))
        self._seen += 1
        self._held += self._size(y)
        self._total += self._size(y)
        while self._held - (first := self._size(self._kept[0][1])) >= self._most:
            self._held -= first
            self._kept.popleft()

    def _is_due(self) -> bool:
        grown = self._seen - self._fitted >= max(1, self._fitted // 10)
        if self._every is None:
            last = self._size(self._kept[-1][1])
            return self._total - last < self._most and (grown or self._total >= self._most)
        return self._seen % self._every == 0 or (self._seen < self._every and grown)


class River(Peer):
    """A classifier or regressor of river. ``name`` is its path in the package, such as "forest.ARFClassifier"."""

    def __init__(self, name: str, options: Mapping[str, Any], target: TargetKind) -> None:
        where, _, kind = name.rpartition(".")
        self._model = _make("river", f"river.{where}" if where else "river", kind, options)
        if isinstance(self._model, _import("river", "river.base").Regressor) != (target == "numbers"):
            remedy = "a regressor, such as river:ARF10 or river:tree.HoeffdingAdaptiveTreeRegressor"
            if target == "classes":
                remedy = "a classifier, such as river:ARF10 or river:tree.HoeffdingTreeClassifier"
            raise CapabilityError(f"river.{name} does not predict {target}; use {remedy}")

    def _begin(self, n_features: int, n_classes: int) -> None:
        self._n_classes = n_classes

    def _learn(self, X: npt.NDArray[Any], y: npt.NDArray[Any]) -> None:
        for x, label in zip(X.tolist(), y.tolist(), strict=True):
            self._model.learn_one(dict(enumerate(x)), label)

    def _predict(self, X: npt.NDArray[Any]) -> list[float]:
        return [self._model.predict_one(dict(enumerate(x))) or 0 for x in X.tolist()]

    def _predict_shares(self, X: npt.NDArray[Any]) -> tuple[Predicted, FloatArray | None]:
        codes, shares = [], np.zeros((len(X), self._n_classes))
        for place, x in enumerate(X.tolist()):
            try:
                found = self._model.predict_proba_one(dict(enumerate(x)))
            except NotImplementedError:
                return self._predict(X), None
            codes.append(max(found, key=found.get) if found else 0)  # as predict_one chooses among equals
            shares[place, list(found)] = list(found.values())
        return codes, _normalised(shares)


class CapyMOA(Peer):
    """A classifier or regressor of CapyMOA, which needs Java. ``name`` is its class, or its path in the package."""

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        self._name, self._options = name, options

    def _begin(self, n_features: int, n_classes: int) -> None:
        package, stream = _import("capymoa", "capymoa.core"), _import("capymoa", "capymoa.stream")
        names = [f"x{k}" for k in range(n_features)]
        codes = {"label": [str(code) for code in range(n_classes)]} if n_classes else {}
        self._schema = stream.Schema.from_custom([*names, "label"], target="label", categories=codes, name="rows")
        labelled = package.LabeledInstance if n_classes else package.RegressionInstance
        self._rows, self._labelled = package.Instance.from_array, labelled.from_array
        where, _, kind = self._name.rpartition(".")
        module = f"capymoa.{where or ('classifier' if n_classes else 'regressor')}"
        self._model = _make("capymoa", module, kind, {"schema": self._schema, **self._options})

    def _learn(self, X: npt.NDArray[Any], y: npt.NDArray[Any]) -> None:
        for x, label in zip(X, y.tolist(), strict=True):
            self._model.train(self._labelled(self._schema, x, label))

    def _predict(self, X: npt.NDArray[Any]) -> list[float]:
        return [self._model.predict(self._rows(self._schema, x)) or 0 for x in X]

    def _predict_shares(self, X: npt.NDArray[Any]) -> tuple[Predicted, FloatArray | None]:
        shares = np.zeros((len(X), len(self.classes_)))
        for place, x in enumerate(X):
            found = self._model.predict_proba(self._rows(self._schema, x))
            if found is not None:  # votes of a tree that has met some classes only are shorter
                shares[place, : len(found)] = found
        return shares.argmax(axis=1), _normalised(shares)


def _normalised(shares: FloatArray) -> FloatArray:
    """Return probabilities that sum to 1 in each row: equal ones where a model has no opinion."""
    total = shares.sum(axis=1, keepdims=True)
    known = np.isfinite(total) & (total > 0.0)
    return np.where(known, shares / np.where(known, total, 1.0), 1.0 / shares.shape[1])


def _import(name: str, module: str) -> Any:
    try:
        with contextlib.redirect_stdout(None):  # CapyMOA prints a line when it starts Java
            return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise OptionError(f"{name} has no module {module!r}; use a name as in its documentation") from None
        raise MissingExtraError(
            f"models of {name} need that package, which is not installed: pip install 'driftsurf[{name}]'"
        ) from error


def _make(name: str, module: str, kind: str, options: Mapping[str, Any]) -> Any:
    maker = getattr(_import(name, module), kind, None)
    if maker is None:
        raise OptionError(f"{module} has no {kind!r}; use a name as in its documentation")
    try:
        return maker(**options)
    except TypeError as error:
        raise OptionError(f"{module}.{kind} does not accept these options: {error}") from error
