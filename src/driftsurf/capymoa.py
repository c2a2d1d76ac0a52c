"""Our models for CapyMOA's evaluations, and CapyMOA's streams for ours. Nothing here starts Java by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from driftsurf._face import Adaptive
from driftsurf._options import whole
from driftsurf.base import FloatArray
from driftsurf.errors import OptionError
from driftsurf.estimators import DriftSurfClassifier, DriftSurfRegressor
from driftsurf.journal import Journal
from driftsurf.learners import SoftmaxRegression
from driftsurf.streams import Drift, Stream

__all__ = ["CapyMOAStream", "OnlineClassifier", "OnlineRegressor"]

BLOCK_ROWS = 4096


class _Columns:
    """The columns of a schema: a number as it is, a nominal value one-hot, what is missing 0."""

    def __init__(self, schema: Any) -> None:
        nominal = schema.get_nominal_attributes() or {}
        names = [schema.get_moa_header().attribute(k).name() for k in range(schema.get_num_attributes())]
        counts = [len(nominal[str(name)]) if str(name) in nominal else 0 for name in names]
        self.places = np.cumsum([0, *(max(1, count) for count in counts)])
        self.nominal = np.flatnonzero(counts)
        self.numeric = np.flatnonzero(np.array(counts) == 0)
        self.width = int(self.places[-1])

    def fill(self, row: FloatArray, x: Any) -> None:
        """Write an instance into a row of zeros."""
        values = np.asarray(x, np.float64)
        row[self.places[self.numeric]] = np.where(np.isnan(values), 0.0, values)[self.numeric]
        for column in self.nominal:
            if values[column] >= 0:
                row[self.places[column] + int(values[column])] = 1.0


class _OnlineModel:
    """What the classifier and the regressor share: instances wait in an array until they make a time step."""

    _values: ClassVar[bool]

    def __init__(
        self, schema: Any, model: Adaptive | None = None, *, batch_size: int = 100, random_seed: int = 1
    ) -> None:
        self.schema = schema
        self.model = model
        self.batch_size = whole("batch_size", batch_size, at_least=1)
        self.random_seed = random_seed
        if model is not None and not isinstance(model, Adaptive):
            raise OptionError(f"model is {model!r}; give an estimator of driftsurf or driftsurf.baselines")
        if schema.is_regression() != self._values:
            raise OptionError(f"{type(self).__name__} cannot learn this schema: its targets are of another kind")
        self.face: Any = self._made() if model is None else clone(model)
        self.face.set_params(batch_size=None, random_state=random_seed)
        self._columns = _Columns(schema)
        self._rows = np.zeros((batch_size, self._columns.width))
        self._targets: list[Any] = []

    def __str__(self) -> str:
        return type(self.face).__name__

    def _made(self) -> Adaptive:
        raise NotImplementedError

    def _target(self, instance: Any) -> Any:
        raise NotImplementedError

    def train(self, instance: Any) -> None:
        """Take an instance; every ``batch_size`` of them are learnt as one time step."""
        row = self._rows[len(self._targets)]
        row[:] = 0.0
        self._columns.fill(row, instance.x)
        self._targets.append(self._target(instance))
        if len(self._targets) == self.batch_size:
            self.flush()

    def flush(self) -> None:
        """Make a time step of the instances that wait, if any."""
        if self._targets:
            rows, targets, self._targets = self._rows[: len(self._targets)], self._targets, []
            self.face.partial_fit(rows, targets)

    @property
    def journal(self) -> Journal:
        """What was decided at every time step, and why."""
        found: Journal = self.face.journal_
        return found

    def _scores(self, instance: Any) -> FloatArray | None:
        """None before the first time step."""
        if not self.face.__sklearn_is_fitted__():
            return None
        row = np.zeros((1, self._columns.width))
        self._columns.fill(row[0], instance.x)
        scores: FloatArray = self.face._session.scores_of(row.astype(self.face.dtype, copy=False))
        return scores


class OnlineClassifier(_OnlineModel):
    """Any strategy around any learner for ``capymoa.evaluation.prequential_evaluation``.

    Instances wait in an array until they make a time step; before the first one nothing is predicted.

    Parameters
    ----------
    schema
        That of the stream: ``stream.get_schema()``.
    model
        An estimator of :mod:`driftsurf` or :mod:`driftsurf.baselines`; None means DriftSurf around
        ``SoftmaxRegression()``, for any number of classes.
    batch_size
        Instances of a time step.
    random_seed
        Fixes every draw.
    """

    _values = False

    def __init__(
        self, schema: Any, model: Adaptive | None = None, *, batch_size: int = 100, random_seed: int = 1
    ) -> None:
        super().__init__(schema, model, batch_size=batch_size, random_seed=random_seed)
        self.face.set_params(classes=range(schema.get_num_classes()))

    def _made(self) -> Adaptive:
        return DriftSurfClassifier(SoftmaxRegression())

    def _target(self, instance: Any) -> int:
        return int(instance.y_index)

    def predict(self, instance: Any) -> int | None:
        """The index of a label, or None."""
        scores = self._scores(instance)
        if scores is None:
            return None
        targets = self.face._session.targets
        return int(targets.decoded(targets.chosen(scores))[0])

    def predict_proba(self, instance: Any) -> FloatArray | None:
        """The probability of each label, or None."""
        scores = self._scores(instance)
        if scores is None:
            return None
        shares: FloatArray = self.face._shares(scores)[0]
        return shares


class OnlineRegressor(_OnlineModel):
    """The same for values. Parameters as for :class:`OnlineClassifier`; None means ``DriftSurfRegressor()``."""

    _values = True

    def _made(self) -> Adaptive:
        return DriftSurfRegressor()

    def _target(self, instance: Any) -> float:
        return float(instance.y_value)

    def predict(self, instance: Any) -> float:
        """The value; 0 before the first time step."""
        scores = self._scores(instance)
        return 0.0 if scores is None else float(scores[0])


class CapyMOAStream(Stream):
    """A classification stream of CapyMOA as one of ours; labels are the indices of its schema.

    Parameters
    ----------
    stream
        Begun anew by each pass.
    n_rows
        How many instances to take; None means all of a stream that knows its length.
    name
        What tables call it; None means the name in its schema.
    """

    name: str
    n_rows: int
    n_features: int

    def __init__(self, stream: Any, n_rows: int | None = None, *, name: str | None = None) -> None:
        self.stream = stream
        schema = stream.get_schema()
        if not schema.is_classification():
            raise OptionError("the stream has values for targets; give one with classes")
        limits = [] if n_rows is None else [whole("n_rows", n_rows, at_least=1)]
        limits += [len(stream)] if hasattr(stream, "__len__") else []
        if not limits:
            raise OptionError("n_rows is None, and the stream does not know its length: say how many rows to take")
        self.n_rows = min(limits)
        self.name = str(schema.dataset_name if name is None else name)
        self.classes = tuple(range(schema.get_num_classes()))
        self._columns = _Columns(schema)
        self.n_features = self._columns.width

    @property
    def drifts(self) -> tuple[Drift, ...]:
        """Those that the stream says it has; a gradual one is centred on its position."""
        told = self.stream.get_drifts() if hasattr(self.stream, "get_drifts") else ()
        halves = [(int(drift.position), int(drift.width) // 2) for drift in told]
        return tuple(Drift(max(0, place - half), place + half) for place, half in halves)

    def blocks(self) -> Iterator[tuple[Any, Any]]:
        """All rows from the first one on."""
        self.stream.restart()
        left = self.n_rows
        while left:
            count = min(left, BLOCK_ROWS)
            X, y = np.zeros((count, self.n_features)), np.empty(count, np.int64)
            for place in range(count):
                instance = self.stream.next_instance()
                self._columns.fill(X[place], instance.x)
                y[place] = instance.y_index
            left -= count
            yield X, y
