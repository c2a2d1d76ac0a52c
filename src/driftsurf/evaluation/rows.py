"""Arrays and frames as a stream of labelled rows, for prequential evaluation."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from driftsurf.core.frames import LazyFrame, PandasFrame, PandasSeries, SparseMatrix, lazy_frame
from driftsurf.data.frames import read_table
from driftsurf.data.target import find_target
from driftsurf.errors import OptionError, ShapeError
from driftsurf.streams.base import Drift

__all__ = ["LabelledRows", "labelled_rows"]


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
    drifts: tuple[Drift, ...] = ()

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
