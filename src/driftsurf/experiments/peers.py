"""What others make, to be compared with: each predicts a whole batch as it is, then learns it row by row."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from driftsurf.errors import CapabilityError, MissingExtraError, OptionError

__all__ = ["CapyMOA", "Diverged", "Learnt", "Majority", "Mean", "Peer", "Persistence", "River"]

Learnt: TypeAlias = Literal["classes", "values"]


class Peer(ABC):
    """What :func:`driftsurf.prequential` can run: ``partial_fit`` and ``predict``, on codes 0 to K - 1 or on values."""

    learns: ClassVar[tuple[Learnt, ...]] = ("classes", "values")
    n_features_in_: int
    """There from the first batch on, and so are the classes if there are any."""
    classes_: npt.NDArray[Any]

    def partial_fit(
        self, X: npt.NDArray[Any], y: npt.NDArray[Any], classes: npt.NDArray[Any] | Sequence[int] = ()
    ) -> None:
        """Learn the rows one after the other."""
        if not hasattr(self, "n_features_in_"):
            self._begin(X.shape[1], len(classes))
            self.n_features_in_ = X.shape[1]
            if len(classes):
                self.classes_ = np.asarray(classes)
        self._learn(X, y)

    def predict(self, X: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The classes or values of all rows, by what it has learnt before them."""
        return np.asarray(self._predict(X))

    @abstractmethod
    def _begin(self, n_features: int, n_classes: int) -> None:
        """Make the model; no classes means values."""

    @abstractmethod
    def _learn(self, X: npt.NDArray[Any], y: npt.NDArray[Any]) -> None:
        """Learn the rows."""

    @abstractmethod
    def _predict(self, X: npt.NDArray[Any]) -> Sequence[float] | npt.NDArray[Any]:
        """The codes or values of the rows."""


class Majority(Peer):
    """Predicts the class that was the most frequent so far."""

    learns = ("classes",)

    def _begin(self, n_features: int, n_classes: int) -> None:
        self._counts = np.zeros(n_classes, np.int64)

    def _learn(self, X: npt.NDArray[Any], y: npt.NDArray[Any]) -> None:
        self._counts += np.bincount(y, minlength=len(self._counts))

    def _predict(self, X: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.full(len(X), self._counts.argmax())


class Diverged(Peer):
    """Predicts no number and no class: what there is of a model whose training diverged."""

    def _begin(self, n_features: int, n_classes: int) -> None:
        """Nothing to make."""

    def _learn(self, X: npt.NDArray[Any], y: npt.NDArray[Any]) -> None:
        """Nothing to learn."""

    def _predict(self, X: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.full(len(X), np.nan)


class Mean(Peer):
    """Predicts the mean of all values so far."""

    learns = ("values",)

    def _begin(self, n_features: int, n_classes: int) -> None:
        self._sum, self._count = 0.0, 0

    def _learn(self, X: npt.NDArray[Any], y: npt.NDArray[Any]) -> None:
        self._sum, self._count = self._sum + float(y.sum()), self._count + len(y)

    def _predict(self, X: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.full(len(X), self._sum / self._count)


class Persistence(Peer):
    """Predicts the last class or value of the batch before."""

    def _begin(self, n_features: int, n_classes: int) -> None:
        self._last = 0.0

    def _learn(self, X: npt.NDArray[Any], y: npt.NDArray[Any]) -> None:
        self._last = y[-1].item()

    def _predict(self, X: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.full(len(X), self._last)


class River(Peer):
    """A classifier or regressor of river: ``name`` is where it stands in the package."""

    def __init__(self, name: str, options: Mapping[str, Any], learnt: Learnt) -> None:
        where, _, kind = name.rpartition(".")
        self._model = _made("river", f"river.{where}" if where else "river", kind, options)
        if isinstance(self._model, _package("river", "river.base").Regressor) != (learnt == "values"):
            remedy = "a regressor, such as river:ARF10 or river:tree.HoeffdingAdaptiveTreeRegressor"
            if learnt == "classes":
                remedy = "a classifier, such as river:ARF10 or river:tree.HoeffdingTreeClassifier"
            raise CapabilityError(f"river.{name} does not learn {learnt}; take {remedy}")

    def _begin(self, n_features: int, n_classes: int) -> None:
        pass

    def _learn(self, X: npt.NDArray[Any], y: npt.NDArray[Any]) -> None:
        for x, label in zip(X.tolist(), y.tolist(), strict=True):
            self._model.learn_one(dict(enumerate(x)), label)

    def _predict(self, X: npt.NDArray[Any]) -> list[float]:
        return [self._model.predict_one(dict(enumerate(x))) or 0 for x in X.tolist()]


class CapyMOA(Peer):
    """A classifier or regressor of CapyMOA, which needs Java: ``name`` is that of its class."""

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        self._name, self._options = name, options

    def _begin(self, n_features: int, n_classes: int) -> None:
        package, stream = _package("capymoa", "capymoa.core"), _package("capymoa", "capymoa.stream")
        names = [f"x{k}" for k in range(n_features)]
        codes = {"label": [str(code) for code in range(n_classes)]} if n_classes else {}
        self._schema = stream.Schema.from_custom([*names, "label"], target="label", categories=codes, name="rows")
        labelled = package.LabeledInstance if n_classes else package.RegressionInstance
        self._rows, self._labelled = package.Instance.from_array, labelled.from_array
        module = "capymoa.classifier" if n_classes else "capymoa.regressor"
        self._model = _made("capymoa", module, self._name, {"schema": self._schema, **self._options})

    def _learn(self, X: npt.NDArray[Any], y: npt.NDArray[Any]) -> None:
        for x, label in zip(X, y.tolist(), strict=True):
            self._model.train(self._labelled(self._schema, x, label))

    def _predict(self, X: npt.NDArray[Any]) -> list[float]:
        return [self._model.predict(self._rows(self._schema, x)) or 0 for x in X]


def _package(name: str, module: str) -> Any:
    try:
        with contextlib.redirect_stdout(None):  # CapyMOA speaks when it starts Java
            return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise OptionError(f"{name} has no part {module!r}; give a name as it stands in its documentation") from None
        raise MissingExtraError(f"a model of {name} needs it: pip install 'driftsurf[{name}]'") from error


def _made(name: str, module: str, kind: str, options: Mapping[str, Any]) -> Any:
    maker = getattr(_package(name, module), kind, None)
    if maker is None:
        raise OptionError(f"{module} has no {kind!r}; give a name as it stands in its documentation")
    try:
        return maker(**options)
    except TypeError as error:
        raise OptionError(f"{module}.{kind} does not take these options: {error}") from error
