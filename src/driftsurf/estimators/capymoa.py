"""Estimators for CapyMOA's evaluation, and CapyMOA's streams for ours. Nothing here starts Java by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Any, ClassVar, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray
from driftsurf.core.journal import Journal
from driftsurf.core.options import whole
from driftsurf.errors import OptionError
from driftsurf.estimators._made import DriftSurfClassifier, DriftSurfRegressor
from driftsurf.estimators._sklearn import clone
from driftsurf.estimators.base import AdaptiveClassifier, AdaptiveEstimator, AdaptiveRegressor
from driftsurf.learners import SoftmaxRegression
from driftsurf.session.session import Session
from driftsurf.streams.base import DriftSpan, Stream

BLOCK_ROWS = 4096


class _Columns:
    """The columns of a schema: numbers as they are, nominal values one-hot, missing values 0."""

    def __init__(self, schema: Any) -> None:
        nominal = schema.get_nominal_attributes() or {}
        names = [schema.get_moa_header().attribute(k).name() for k in range(schema.get_num_attributes())]
        counts = [len(nominal[str(name)]) if str(name) in nominal else 0 for name in names]
        self.places = np.cumsum([0, *(max(1, count) for count in counts)])
        self.nominal = np.flatnonzero(counts)
        self.numeric = np.flatnonzero(np.array(counts) == 0)
        self.width = int(self.places[-1])

    def fill(self, row: FloatArray, x: npt.ArrayLike) -> None:
        """Write an instance into a row of zeros."""
        values = np.asarray(x, np.float64)
        row[self.places[self.numeric]] = np.where(np.isnan(values), 0.0, values)[self.numeric]
        for column in self.nominal:
            if values[column] >= 0:
                row[self.places[column] + int(values[column])] = 1.0

    def row(self, x: npt.ArrayLike) -> FloatArray:
        """Return an instance as an array of one row."""
        row = np.zeros((1, self.width))
        self.fill(row[0], x)
        return row


M = TypeVar("M", bound=AdaptiveEstimator)


class _CapymoaModel(Generic[M]):
    """Base class of the classifier and the regressor; the estimator itself buffers the rows of a time step."""

    _regression: ClassVar[bool]

    def __init__(self, schema: Any, model: M | None = None, *, batch_size: int = 100, random_seed: int = 1) -> None:
        self.schema: Any = schema
        self.model = model
        self.batch_size: int = whole("batch_size", batch_size, at_least=1)
        self.random_seed = random_seed
        if model is not None and not isinstance(model, AdaptiveEstimator):
            raise OptionError(f"model is {model!r}; pass an estimator of driftsurf or driftsurf.estimators")
        if schema.is_regression() != self._regression:
            wanted, found = ("numbers", "classes") if self._regression else ("classes", "numbers")
            raise OptionError(f"{type(self).__name__} predicts {wanted}; the targets of this schema are {found}")
        self.estimator: Any = self._default() if model is None else clone(model)
        self.estimator.set_params(batch_size=self.batch_size, random_state=random_seed)
        self._columns = _Columns(schema)

    def __str__(self) -> str:
        return type(self.estimator).__name__

    def _default(self) -> M:
        raise NotImplementedError

    def _target(self, instance: Any) -> Any:
        raise NotImplementedError

    def train(self, instance: Any) -> None:
        """Buffer an instance; every ``batch_size`` of them are learned as one time step."""
        try:
            self.estimator.partial_fit(self._columns.row(instance.x), [self._target(instance)])
        except Exception:
            # Rows that cannot be learned would make every later time step fail, too.
            if self.estimator.__sklearn_is_fitted__():
                self._session.drop_pending()
            raise

    def flush(self) -> None:
        """Learn the buffered instances as one time step, if there are any."""
        self.estimator.flush()

    @property
    def journal(self) -> Journal:
        """Decisions of every time step, with their reasons."""
        return self._session.journal

    @property
    def _session(self) -> Session:
        session: Session = self.estimator._session
        return session

    def _scores(self, instance: Any) -> FloatArray | None:
        """Return the scores of an instance; None before the first time step."""
        if not self.estimator.__sklearn_is_fitted__() or self._session.steps == 0:
            return None
        return self._session.scores(self._columns.row(instance.x))


class CapyMOAClassifier(_CapymoaModel[AdaptiveClassifier]):
    """Classifier for ``capymoa.evaluation.prequential_evaluation``: any strategy around any learner.

    Instances are buffered until they make a time step. Before the first time step it predicts None.

    Parameters
    ----------
    schema
        Schema of the stream: ``stream.get_schema()``.
    model
        An estimator of :mod:`driftsurf` or :mod:`driftsurf.estimators`; None means DriftSurf around
        ``SoftmaxRegression()``, for any number of classes.
    batch_size
        Number of instances in a time step.
    random_seed
        Seed of every random number.
    """

    _regression = False

    def __init__(
        self, schema: Any, model: AdaptiveClassifier | None = None, *, batch_size: int = 100, random_seed: int = 1
    ) -> None:
        super().__init__(schema, model, batch_size=batch_size, random_seed=random_seed)
        self.estimator.set_params(classes=range(schema.get_num_classes()))

    def _default(self) -> AdaptiveClassifier:
        return DriftSurfClassifier(SoftmaxRegression())

    def _target(self, instance: Any) -> int:
        return int(instance.y_index)

    def predict(self, instance: Any) -> int | None:
        """Return the index of the predicted label, or None."""
        scores = self._scores(instance)
        if scores is None:
            return None
        targets = self._session.targets
        return int(targets.decode(targets.predicted(scores))[0])

    def predict_proba(self, instance: Any) -> FloatArray | None:
        """Return the probability of each label, or None."""
        scores = self._scores(instance)
        if scores is None:
            return None
        probabilities: FloatArray = self.estimator._probabilities(self._session.now, scores)[0]
        return probabilities


class CapyMOARegressor(_CapymoaModel[AdaptiveRegressor]):
    """Regressor for ``capymoa.evaluation.prequential_evaluation``: any strategy around any learner.

    Parameters are those of :class:`CapyMOAClassifier`; without a ``model`` it is ``DriftSurfRegressor()``.
    """

    _regression = True

    def _default(self) -> AdaptiveRegressor:
        return DriftSurfRegressor()

    def _target(self, instance: Any) -> float:
        return float(instance.y_value)

    def predict(self, instance: Any) -> float:
        """Return the predicted number; 0 before the first time step."""
        scores = self._scores(instance)
        return 0.0 if scores is None else float(scores[0])


OnlineClassifier = CapyMOAClassifier  # former names, which the wrappers for river have too
OnlineRegressor = CapyMOARegressor


@runtime_checkable
class _DriftStream(Protocol):
    """A stream of CapyMOA that knows its drifts."""

    def get_drifts(self) -> Any: ...


class CapyMOAStream(Stream):
    """A classification stream of CapyMOA as a stream of driftsurf. Labels are the indices of its schema.

    Parameters
    ----------
    stream
        The stream of CapyMOA; every pass restarts it.
    n_rows
        Number of instances to take; None means all of a stream that knows its length.
    name
        Title in tables; None means the name in its schema.
    """

    name: str
    n_rows: int
    n_features: int

    def __init__(self, stream: Any, n_rows: int | None = None, *, name: str | None = None) -> None:
        self.stream: Any = stream
        schema = stream.get_schema()
        if not schema.is_classification():
            raise OptionError("the targets of the stream are numbers; pass a stream with classes")
        limits = [] if n_rows is None else [whole("n_rows", n_rows, at_least=1)]
        limits += [len(stream)] if isinstance(stream, Sized) else []
        if not limits:
            raise OptionError("n_rows is None, and the stream does not know its length: pass a number of rows")
        self.n_rows = min(limits)
        self.name = str(schema.dataset_name if name is None else name)
        self.classes: tuple[int, ...] = tuple(range(schema.get_num_classes()))
        self._columns = _Columns(schema)
        self.n_features = self._columns.width

    @property
    def drifts(self) -> tuple[DriftSpan, ...]:
        """Drifts that the stream declares; a gradual one is centred on its position."""
        declared = self.stream.get_drifts() if isinstance(self.stream, _DriftStream) else ()
        halves = [(int(drift.position), int(drift.width) // 2) for drift in declared]
        return tuple(DriftSpan(max(0, place - half), place + half) for place, half in halves)

    def blocks(self) -> Iterator[tuple[Any, Any]]:
        """Yield all rows from the first one on, in blocks."""
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
