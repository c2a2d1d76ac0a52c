"""What others make, to be compared with: each predicts a whole batch as it is, then learns it row by row."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.errors import MissingExtraError, OptionError

__all__ = ["CapyMOA", "Majority", "Peer", "Persistence", "River"]


class Peer(ABC):
    """A classifier that :func:`driftsurf.prequential` can run: ``partial_fit`` and ``predict`` on codes 0 to K - 1."""

    classes_: npt.NDArray[Any]
    """There from the first batch on."""

    def partial_fit(self, X: npt.NDArray[Any], y: npt.NDArray[Any], classes: npt.NDArray[Any]) -> None:
        """Learn the rows one after the other."""
        if not hasattr(self, "classes_"):
            self._begin(X.shape[1], len(classes))
            self.classes_ = np.asarray(classes)
        self._learn(X, y)

    def predict(self, X: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The classes of all rows, by what it has learnt before them."""
        return np.asarray(self._predict(X))

    @abstractmethod
    def _begin(self, n_features: int, n_classes: int) -> None:
        """Make the model."""

    @abstractmethod
    def _learn(self, X: npt.NDArray[Any], y: npt.NDArray[Any]) -> None:
        """Learn the rows."""

    @abstractmethod
    def _predict(self, X: npt.NDArray[Any]) -> Sequence[int] | npt.NDArray[Any]:
        """The codes of the rows."""


class Majority(Peer):
    """Predicts the class that was the most frequent so far."""

    def _begin(self, n_features: int, n_classes: int) -> None:
        self._counts = np.zeros(n_classes, np.int64)

    def _learn(self, X: npt.NDArray[Any], y: npt.NDArray[Any]) -> None:
        self._counts += np.bincount(y, minlength=len(self._counts))

    def _predict(self, X: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.full(len(X), self._counts.argmax())


class Persistence(Peer):
    """Predicts the last class of the batch before."""

    def _begin(self, n_features: int, n_classes: int) -> None:
        self._last = 0

    def _learn(self, X: npt.NDArray[Any], y: npt.NDArray[Any]) -> None:
        self._last = int(y[-1])

    def _predict(self, X: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.full(len(X), self._last)


class River(Peer):
    """A classifier of river: ``name`` is where it stands in the package."""

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        where, _, kind = name.rpartition(".")
        self._model = _made("river", f"river.{where}" if where else "river", kind, options)

    def _begin(self, n_features: int, n_classes: int) -> None:
        pass

    def _learn(self, X: npt.NDArray[Any], y: npt.NDArray[Any]) -> None:
        for x, label in zip(X.tolist(), y.tolist(), strict=True):
            self._model.learn_one(dict(enumerate(x)), label)

    def _predict(self, X: npt.NDArray[Any]) -> list[int]:
        return [self._model.predict_one(dict(enumerate(x))) or 0 for x in X.tolist()]


class CapyMOA(Peer):
    """A classifier of CapyMOA, which needs Java: ``name`` is that of its class."""

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        self._name, self._options = name, options

    def _begin(self, n_features: int, n_classes: int) -> None:
        package, stream = _package("capymoa", "capymoa.core"), _package("capymoa", "capymoa.stream")
        names = [f"x{k}" for k in range(n_features)]
        codes = {"class": [str(code) for code in range(n_classes)]}
        self._schema = stream.Schema.from_custom([*names, "class"], target="class", categories=codes, name="rows")
        self._rows, self._labelled = package.Instance.from_array, package.LabeledInstance.from_array
        self._model = _made("capymoa", "capymoa.classifier", self._name, {"schema": self._schema, **self._options})

    def _learn(self, X: npt.NDArray[Any], y: npt.NDArray[Any]) -> None:
        for x, label in zip(X, y.tolist(), strict=True):
            self._model.train(self._labelled(self._schema, x, label))

    def _predict(self, X: npt.NDArray[Any]) -> list[int]:
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
