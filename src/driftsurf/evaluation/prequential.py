"""Prequential evaluation: predict each batch, score the predictions, then learn the batch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Protocol, TypeAlias, overload, runtime_checkable

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray
from driftsurf.core.decisions import Decision
from driftsurf.core.frames import (
    Classes,
    LazyFrame,
    MatrixLike,
    PandasFrame,
    PandasSeries,
    SparseMatrix,
    TableLike,
    TargetLike,
    lazy_frame,
)
from driftsurf.core.options import whole
from driftsurf.data.frames import read_table
from driftsurf.data.row_encoder import find_target
from driftsurf.errors import OptionError, ShapeError
from driftsurf.evaluation.scoring import Scorebook, StepReport, StreamInfo
from driftsurf.evaluation.trace import Trace, TraceBuilder
from driftsurf.session.observation import Observation
from driftsurf.session.session import step_rows
from driftsurf.streams.base import DriftSpan


@runtime_checkable
class _Sliced(Protocol):
    """A frame or a column of polars or pyarrow."""

    def slice(self, offset: int, length: int) -> Any:
        """Return the rows from ``offset`` on."""


@runtime_checkable
class _Tagged(Protocol):
    """An estimator of scikit-learn's kind, which says whether it predicts classes or numbers."""

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn should know about it."""


class LabelledRows:
    """Rows in memory with their labels, which are cut into batches as they are: a batch of a frame is a frame.

    Examples
    --------
    >>> rows = LabelledRows({"price": [1.5, 2.0, 3.0]}, ["yes", "no", "no"])
    >>> rows.classes, [(X, y.tolist()) for X, y in rows.batches(2)]
    (('no', 'yes'), [({'price': [1.5, 2.0]}, ['yes', 'no']), ({'price': [3.0]}, ['no'])])
    """

    name: str = "rows"
    drifts: tuple[DriftSpan, ...] = ()

    def __init__(self, X: Any, y: Any, *, regression: bool | None = None) -> None:
        if isinstance(X, LazyFrame):
            raise lazy_frame("X")
        self.X: Any = np.asarray(X) if isinstance(X, list | tuple) else X
        if isinstance(X, SparseMatrix):
            self.X = X.tocsr()
        table = read_table({"y": np.asarray(y) if isinstance(y, list | tuple) else y})
        self.n_rows: int = len(table)
        if self.n_rows != _count(self.X):
            raise ShapeError(f"y must have one label for each of the {_count(self.X)} rows of X; got {self.n_rows}")
        task = {None: "auto", True: "regression", False: "multiclass"}[regression]
        target = find_target("y", task, table)
        table.labels("y")  # refuses missing ones
        self.y: npt.NDArray[Any] = target.read(table)
        self.classes: tuple[Any, ...] = () if target.task == "regression" else tuple(np.unique(self.y).tolist())

    def batches(self, size: int) -> Iterator[tuple[Any, npt.NDArray[Any]]]:
        """Yield rows and labels, ``size`` at a time."""
        for start in range(0, self.n_rows, size):
            stop = min(start + size, self.n_rows)
            yield _part(self.X, start, stop), self.y[start:stop]


def labelled_rows(X: Any, y: Any, models: Collection[object]) -> LabelledRows:
    """Return rows and labels for these models, which say whether the labels are classes or numbers, if they can."""
    if X is None or y is None:
        raise OptionError(f"{'X' if X is None else 'y'} is missing; pass the rows as X and their labels as y")
    kinds = {model.__sklearn_tags__().estimator_type for model in models if isinstance(model, _Tagged)}
    if {"classifier", "regressor"} <= kinds:
        raise OptionError("models has classifiers and regressors, which cannot learn the same labels")
    return LabelledRows(X, y, regression="regressor" in kinds if kinds & {"classifier", "regressor"} else None)


def _count(X: Any) -> int:
    if isinstance(X, Mapping):
        return len(next(iter(X.values()), ()))
    return int(X.shape[0])


def _part(X: Any, start: int, stop: int) -> Any:
    if isinstance(X, Mapping):
        return {name: _part(values, start, stop) for name, values in X.items()}
    if isinstance(X, PandasFrame | PandasSeries) and not isinstance(X, _Sliced):
        rows: Any = X
        return rows.iloc[start:stop]
    return X.slice(start, stop - start) if isinstance(X, _Sliced) else X[start:stop]


LEAST_PROBABILITY = 1e-15
"""Log losses are taken of probabilities of at least this, so that they stay finite."""


@runtime_checkable
class LabelledStream(StreamInfo, Protocol):
    """Labelled rows that can be read in batches, such as every :class:`~driftsurf.streams.Stream`."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        ...

    def batches(self, size: int) -> Iterator[tuple[Any, Any]]:
        """Iterate over pairs of rows and labels, ``size`` at a time."""
        ...


@runtime_checkable
class Observable(Protocol):
    """A model of this package: a session or an estimator."""

    def observe(self, X: MatrixLike, y: TargetLike, *, classes: Classes | None = None) -> Observation:
        """Predict the rows, then learn them."""
        ...


@runtime_checkable
class IncrementalModel(Protocol):
    """A model with the incremental interface of scikit-learn."""

    def partial_fit(self, X: Any, y: Any) -> Any:
        """Learn a batch. For classification it is called with ``classes``, too."""
        ...

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Predict the label of each row."""
        ...


Models: TypeAlias = Observable | IncrementalModel | Mapping[str, Observable | IncrementalModel]
"""One model, or several by name."""


@overload
def prequential(
    stream: LabelledStream,
    models: Models,
    *,
    batch_size: int | None = None,
    on_step: StepReport | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Trace: ...
@overload
def prequential(
    *,
    models: Models,
    X: TableLike,
    y: TargetLike,
    batch_size: int | None = None,
    on_step: StepReport | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Trace: ...
def prequential(
    stream: LabelledStream | None = None,
    models: Models | None = None,
    *,
    X: TableLike | None = None,
    y: TargetLike | None = None,
    batch_size: int | None = None,
    on_step: StepReport | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Trace:
    """Evaluate one or several models on a stream, or on rows, in one pass; every model gets the same batches.

    Parameters
    ----------
    stream
        The labelled rows. If its ``classes`` are empty, the task is regression, and the trace has squared and
        absolute errors.
    X, y
        Rows and labels in place of a stream, in the order in which they came: an array, a sparse matrix, a frame of
        pandas or polars, a table of pyarrow or a dictionary of columns, and one label or number for each row. Models
        get batches of the same form.
    models
        One model, or a dictionary from names to models. A model has ``observe``, as all of this package do, or
        ``predict`` and ``partial_fit`` as in scikit-learn. The latter cannot predict before the first batch; it is
        scored there as if it predicted the first class (0 for regression) for every row, as a fresh model does.
    batch_size
        Rows of a time step; by default a hundredth of a stream, and at least one row. Of ``X`` a fiftieth, at least 100
        and at most 1,000, as in :func:`driftsurf.run`.
    on_step
        Called after each step of each model.
    clock
        Measures the seconds of each model, which are kept apart from the columns of the trace.

    Examples
    --------
    >>> import driftsurf
    >>> from driftsurf.streams import SEA
    >>> trace = prequential(SEA(n_rows=10_000), driftsurf.paper(1e-3, 1e-2, random_state=0))
    >>> trace.models, len(trace.columns["error"])
    (('model',), 100)
    >>> sales = {"price": [9.5, 2.0, None, 1.5] * 100, "city": ["Rome", "Oslo", "Bern", "Rome"] * 100}
    >>> trace = prequential(models=driftsurf.recommended("linear"), X=sales, y=["no", "yes", "no", "yes"] * 100)
    >>> trace.columns["error"].tolist()
    [0.5, 0.0, 0.0, 0.0]
    """
    if models is None:
        how = "models=model" if X is None else "models=model, X=X, y=y"
        raise OptionError(
            f"models is missing; give a model, or a dictionary from names to models, by its name: prequential({how})"
        )
    named = models if isinstance(models, Mapping) else {"model": models}
    if not named:
        raise OptionError("models is empty; give at least one model to evaluate")
    if stream is None:
        stream = labelled_rows(X, y, named.values())
        batch_size = step_rows(stream.n_rows) if batch_size is None else batch_size
    elif X is not None or y is not None:
        raise OptionError("pass a stream, or X and y, not both")
    if isinstance(stream, type) or not isinstance(stream, LabelledStream):
        raise OptionError(
            f"stream is of the type {type(stream).__name__}; give a stream, such as driftsurf.streams.Mixed(), or rows "
            "and labels: prequential(models=model, X=X, y=y)"
        )
    if len({id(model) for model in named.values()}) < len(named):
        raise OptionError("models has the same model under two names, which would learn every batch twice; give copies")
    size = max(1, stream.n_rows // 100) if batch_size is None else whole("batch_size", batch_size, at_least=1)
    labels = tuple(stream.classes)
    builder, book = TraceBuilder(labels), Scorebook(labels)
    seconds = dict.fromkeys(named, 0.0)
    for step, (rows, truth) in enumerate(stream.batches(size)):
        book.step(truth)
        for name, model in named.items():
            begin = clock()
            predicted, losses, decisions = _test_then_train(model, rows, truth, labels)
            seconds[name] += clock() - begin
            row = book.row(name, truth, predicted, losses, decisions)
            builder.add(row)
            if on_step is not None:
                on_step(step, name, row["error"] if labels else math.sqrt(row["squared_error"]), decisions)
    return builder.build(stream.name, size, tuple(stream.drifts), seconds)


def _test_then_train(
    model: Observable | IncrementalModel, X: Any, y: npt.NDArray[Any], labels: tuple[Any, ...]
) -> tuple[npt.NDArray[Any], FloatArray | None, tuple[Decision, ...]]:
    """Return the predictions, the log losses (None if there are none) and the decisions of one batch."""
    if isinstance(model, Observable):
        seen = model.observe(X, y, classes=labels) if labels else model.observe(X, y)
        return seen.labels, seen.log_losses() if labels else None, seen.decisions
    if not isinstance(model, IncrementalModel):
        raise OptionError(
            f"{model!r} has neither observe nor partial_fit, so it cannot learn from a stream. A strategy learns in a "
            "session: driftsurf.session.session.Session(strategy)"
        )
    predicted: npt.NDArray[Any] = np.full(len(y), labels[0] if labels else 0.0)
    losses = None
    if _is_fitted(model, labels):
        predicted = model.predict(X)
        losses = _log_losses(model, X, y) if labels else None
    known: Any = model
    known.partial_fit(X, y, **({"classes": np.array(labels)} if labels else {}))
    return predicted, losses, ()


def _is_fitted(model: Any, labels: tuple[Any, ...]) -> bool:
    """Whether a model of scikit-learn's kind can predict: attributes that end in an underscore come with fitting."""
    try:
        _ = model.classes_ if labels else model.n_features_in_
    except AttributeError:
        return False
    return True


def _log_losses(model: Any, X: Any, y: npt.NDArray[Any]) -> FloatArray | None:
    """Return the log loss of each row; None if the model has no probabilities."""
    try:
        predict_proba = model.predict_proba  # scikit-learn hides it where the loss has no probabilities
    except AttributeError:
        return None
    share = predict_proba(X)[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    losses: FloatArray = -np.log(np.clip(share, LEAST_PROBABILITY, 1.0))
    return losses
