"""Types of what users pass in: rows, targets, weights, seeds and learners.

Rows are arrays, nested lists, frames of pandas or polars, or sparse matrices of scipy; targets are one-dimensional.
What other libraries have is described by its methods, so that none of them has to be imported.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import Detector, Learner
from driftsurf.errors import MissingExtraError, NonFiniteError, RowIndex, SchemaError, ValueTypeError
from driftsurf.errors.visible import escape
from driftsurf.native.columns import all_finite

if TYPE_CHECKING:
    import pandas as pd


class ByType(type(Protocol)):  # type: ignore[misc]  # typing does not say which type
    """Decides by the type of an object, at once, whether it is of a protocol.

    The check of ``typing`` looks for every member at every object, and pandas looks for each among its columns.
    """

    def __instancecheck__(cls, instance: object) -> bool:
        kind = type(instance)
        try:
            return _DECIDED[cls, kind]
        except KeyError:
            pass
        bases = [base for base in cls.__mro__ if isinstance(base, ByType)]
        has_all = set(dir(kind)).issuperset(name for base in bases for name in vars(base) if name[0] != "_")
        if not has_all and "__dict__" in dir(kind) and "__getattr__" not in dir(kind):
            return bool(super().__instancecheck__(instance))  # an object may have a member that its type has not
        if len(_DECIDED) > MOST_DECIDED:
            _DECIDED.clear()
        _DECIDED[cls, kind] = has_all
        return has_all


_DECIDED: dict[tuple[type, type], bool] = {}
MOST_DECIDED = 1_000


@runtime_checkable
class Frame(Protocol, metaclass=ByType):
    """Table with columns, such as a DataFrame of pandas or polars."""

    @property
    def columns(self) -> Iterable[Any]:
        """Names of the columns."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""


@runtime_checkable
class ArrowTable(Protocol, metaclass=ByType):
    """A table or a record batch of pyarrow."""

    @property
    def schema(self) -> Any:
        """Types of the columns."""

    @property
    def column_names(self) -> Sequence[str]:
        """Names of the columns."""

    @property
    def columns(self) -> Sequence[Any]:
        """Values of the columns."""


@runtime_checkable
class PandasFrame(Frame, Protocol):
    """Frame whose columns are selected by position, because names may be repeated."""

    @property
    def iloc(self) -> Any:
        """Selection by position."""

    def items(self) -> Iterable[tuple[Any, Any]]:
        """Return the name and the values of each column."""


@runtime_checkable
class PandasSeries(Protocol, metaclass=ByType):
    """Column of a pandas frame, which may use a nullable type."""

    @property
    def dtype(self) -> Any:
        """Type of the values, with the ``kind`` of a numpy type."""

    def isna(self) -> Any:
        """Return which values are missing."""

    def to_numpy(self, dtype: Any = ..., *, na_value: object = ...) -> npt.NDArray[Any]:
        """Return the values as an array."""


@runtime_checkable
class PandasCategories(Protocol, metaclass=ByType):
    """Type of a categorical column of pandas."""

    @property
    def categories(self) -> Any:
        """The values that a cell may have."""

    @property
    def ordered(self) -> Any:
        """Whether the values have an order."""


@runtime_checkable
class LazyFrame(Protocol, metaclass=ByType):
    """Query that becomes a frame when it is collected, such as a LazyFrame of polars."""

    def collect(self) -> Any:
        """Return the frame."""


@runtime_checkable
class SparseMatrix(Protocol, metaclass=ByType):
    """Sparse matrix or array of scipy."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""

    @property
    def format(self) -> str:
        """Name of the storage format, such as ``csr``."""

    def tocsr(self) -> Any:
        """Return the matrix in CSR format."""


def check_levels(names: Sequence[Any]) -> None:
    """Raise SchemaError if columns have names of several levels, which could not be found by one name later."""
    for name in names:
        if isinstance(name, tuple):
            raise SchemaError(
                f"the column {name!r} has a name of several levels (a MultiIndex); give each column one name, for "
                "example with X.columns = ['_'.join(map(str, name)) for name in X.columns]."
            )


def number_matrix(X: Any, names: Sequence[str]) -> npt.NDArray[np.float64] | None:
    """Return a table of numbers whose columns have these names, in this order, as one matrix; None for any other table.

    The values are finite, and none is missing. Column by column, a table takes many times as long.
    """
    if type(X) is np.ndarray or type(X) is list:
        return None
    try:
        if callable(getattr(type(X), "to_batches", None)):
            batches: Sequence[Any] = X.to_batches() if X.column_names == names else ()
            values = batches[0].to_tensor().to_numpy() if len(batches) == 1 else None
        elif not callable(getattr(type(X), "to_numpy", None)):
            return None
        elif type(X.columns) is list:  # polars, which would make numbers of dates
            numeric = X.columns == names and all(kind.is_float() or kind.is_integer() for kind in X.dtypes)
            values = X.to_numpy(order="c") if numeric else None
        else:
            values = X.to_numpy() if X.columns.tolist() == names else None
    except Exception:  # each library has its own errors; what is wrong is said where the columns are read one by one
        return None
    if type(values) is not np.ndarray or values.ndim != 2 or values.dtype.kind not in "fiub" or not len(values):
        return None
    rows = np.ascontiguousarray(values, np.float64)
    return rows if all_finite(rows) else None


def frame_columns(X: Any) -> Iterator[tuple[Any, Any]]:
    """Yield names and values of the columns of a frame of pandas or polars, or of a table of pyarrow."""
    if isinstance(X, ArrowTable):
        yield from zip(X.column_names, X.columns, strict=True)
        return
    if isinstance(X, PandasFrame):
        yield from X.items()  # by position, since names may be repeated
        return
    for name in X.columns:
        yield name, X.get_column(name)


def plain_column(y: Any) -> Any:
    """Return a column of pandas, polars or pyarrow as an array, if its library can make one; anything else as it is."""
    if type(y) is np.ndarray or type(y) is list or not callable(getattr(type(y), "to_numpy", None)):
        return y
    try:
        return y.to_numpy()
    except Exception:  # each library has its own errors; what is wrong is said where labels are checked
        return y


def unmasked(values: Any, name: str) -> Any:
    """Return labels, keys or weights as they are; an error if some of them are masked, or if they are a lazy frame."""
    if type(values) is np.ndarray or type(values) is list:  # the usual case, at once: asking for a protocol is slow
        return values
    if isinstance(values, LazyFrame):
        raise lazy_frame(name)
    if not np.ma.isMaskedArray(values):
        return _readable(values, name) if type(values).__module__.startswith("polars") else values
    masked = np.flatnonzero(np.ma.getmaskarray(values))
    if len(masked):
        raise NonFiniteError(
            RowIndex(name, int(masked[0])),
            f" is masked: its value is missing ({len(masked)} in all). Drop those rows.",
            row=int(masked[0]),
        )
    return np.ma.getdata(values)


def _readable(values: Any, name: str) -> npt.NDArray[Any]:
    """Return a column of polars as an array; an error of ours if numpy has no type for its values."""
    try:
        return np.asarray(values)
    except BaseException as error:
        if not (type(error).__module__.startswith("polars") or is_panic(error)):
            raise
        raise ValueTypeError(f"{name} cannot be read ({error}); convert it to a type that numpy has.") from error


def is_panic(error: BaseException) -> bool:
    """Return whether an error is a panic of Rust, which is no ``Exception``; older versions of polars raise some."""
    return type(error).__module__ == "pyo3_runtime"


def lazy_frame(name: str) -> ValueTypeError:
    """Return the error for a query that has not been collected."""
    return ValueTypeError(f"{name} is a lazy frame; pass {name}.collect().")


@functools.cache
def is_scipy_csr(kind: type) -> bool:
    """Return whether a type is one of the CSR matrices of scipy, which need not be imported for that."""
    return kind.__module__.startswith("scipy.sparse") and kind.__name__ in ("csr_array", "csr_matrix")


def new_frame(columns: Mapping[str, Any], what: str) -> pd.DataFrame:
    """Return columns as a pandas DataFrame; MissingExtraError, which says ``what`` needs it, if pandas is missing."""
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingExtraError(f"{what} needs pandas: pip install 'driftsurf[frames]'") from error
    return pd.DataFrame(columns)


def html_table(head: Sequence[str], lines: Iterable[Sequence[Any]], caption: str = "") -> str:
    """Return a table as HTML that needs no style sheet, for notebooks.

    >>> html_table(["a"], [["<b>"]], "one")
    '<table><caption>one</caption><thead><tr><th style="text-align:left">a</th></tr></thead>...&lt;b&gt;...</table>'
    """
    left = ' style="text-align:left"'
    top = "".join(f"<th{left}>{escape(one)}</th>" for one in head)
    body = "".join("<tr>" + "".join(f"<td{left}>{escape(str(cell))}</td>" for cell in line) + "</tr>" for line in lines)
    above = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{above}<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


class Series(Protocol):
    """A column of a data frame."""

    def to_numpy(self) -> npt.NDArray[Any]:
        """Return the values as an array."""
        ...


class ScikitLearnModel(Protocol):
    """An estimator with scikit-learn's interface."""

    def fit(self, X: Any, y: Any, /) -> Any:
        """Learn rows and their targets."""
        ...

    def predict(self, X: Any, /) -> Any:
        """Return a prediction for each row."""
        ...

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments."""
        ...


class RiverModel(Protocol):
    """A model with river's interface."""

    def learn_one(self, x: Any, y: Any, /) -> Any:
        """Learn one row."""
        ...

    def predict_one(self, x: Any, /) -> Any:
        """Predict one row."""
        ...


class RiverDriftDetector(Protocol):
    """A drift detector with river's interface."""

    @property
    def drift_detected(self) -> bool:
        """Whether the last value gave a signal."""
        ...

    def update(self, x: Any, /) -> Any:
        """Take one value."""
        ...

    def clone(self) -> Any:
        """Return a new detector with the same parameters."""
        ...


if TYPE_CHECKING:

    class ScikitLearnBase:
        """Types of the base class of scikit-learn, which has no annotations."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """Return the constructor's arguments by name."""
            ...

        def set_params(self, **params: Any) -> Self:
            """Change some of the constructor's arguments."""
            ...


MatrixLike: TypeAlias = npt.ArrayLike | Frame | SparseMatrix
"""Rows of numbers: a two-dimensional array, nested lists, a frame, or a sparse matrix."""
TargetLike: TypeAlias = npt.ArrayLike | Series
"""One label, number or weight for each row."""
TableLike: TypeAlias = MatrixLike | Mapping[str, Sequence[Any] | npt.NDArray[Any] | Series]
"""Rows of mixed columns (numbers, text, dates, missing cells): a frame, or a dictionary of columns."""
Classes: TypeAlias = Collection[Hashable] | npt.NDArray[Any]
"""Labels, without duplicates."""
RandomState: TypeAlias = int | np.integer[Any] | np.random.RandomState | None
"""A seed as in scikit-learn: an integer makes every run the same, None draws a new seed each time."""
LearnerLike: TypeAlias = Learner | ScikitLearnModel | RiverModel
"""A learner, or a model of scikit-learn or river, which is adapted to one."""
DetectorLike: TypeAlias = Detector | RiverDriftDetector
"""A detector, or one of river, which is adapted to one."""
