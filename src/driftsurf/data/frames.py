"""Frames of pandas, polars and pyarrow, dictionaries, arrays and sparse matrices as tables.

No frame library is imported: a frame is recognised by what it can do.
"""

from __future__ import annotations

import datetime
import numbers
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import CSR
from driftsurf.core.frames import (
    ArrowTable,
    ByType,
    Frame,
    LazyFrame,
    PandasCategories,
    PandasSeries,
    SparseMatrix,
    check_levels,
    frame_columns,
    is_panic,
)
from driftsurf.core.input import listed, read_rows, read_schema
from driftsurf.core.options import shown
from driftsurf.data.reading_options import Kind
from driftsurf.data.tables import Column, Table, arrow_column, empty_column
from driftsurf.errors import NonFiniteError, SchemaError, ShapeError, ValueTypeError


@runtime_checkable
class SupportsToNumpy(Protocol, metaclass=ByType):
    """A column that can be converted to an array, such as a polars series."""

    def to_numpy(self) -> npt.NDArray[Any]:
        """Return the values as an array."""


def is_table(X: Any) -> bool:
    """Return whether X has named columns: a frame, a table of pyarrow, or a mapping of names to columns.

    >>> is_table({"price": [1.5]}), is_table([[1.5]])
    (True, False)
    """
    if isinstance(X, np.ndarray | list | SparseMatrix):
        return False
    return isinstance(X, Table | Mapping | LazyFrame | Frame | ArrowTable)


def column_names(X: Any) -> list[str]:
    """Return the names of the columns of a table.

    >>> column_names({"price": [1.5], "city": ["Rome"]})
    ['price', 'city']
    """
    if isinstance(X, LazyFrame):
        raise ValueTypeError("X is a lazy frame; pass X.collect()")
    return [*X.columns] if isinstance(X, Table) else [str(name) for name, _ in _columns(X)]


def read_table(X: Any, drop: Collection[str] = ()) -> Table:
    """Return a table from a frame, a mapping of names to columns, a 2D array or a sparse matrix.

    Columns that are not numbers, booleans, dates or text are refused by name, and so is infinity. Columns in ``drop``
    are left out.
    """
    if isinstance(X, Table):
        return X.without(*drop) if drop else X
    if isinstance(X, LazyFrame):
        raise ValueTypeError("X is a lazy frame; pass X.collect()")
    if isinstance(X, SparseMatrix):
        rows = read_rows(X, read_schema(X))
        assert isinstance(rows, CSR)
        return Table({}, rows)
    table: dict[str, Column] = {}
    for name, values in _columns(X):
        check_levels([name])
        if str(name) in drop:
            continue
        if str(name) in table:
            raise SchemaError(f"the column name {str(name)!r} occurs more than once; rename one of the columns")
        table[str(name)] = _finite(str(name), _read_column(str(name), values))
    if not table:
        raise ShapeError("0 feature(s) (a table without columns) while a minimum of 1 is required.")
    return Table(table)


def _columns(X: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(X, Mapping):
        return X.items()
    if isinstance(X, Frame | ArrowTable):
        return frame_columns(X)
    array = np.asarray(X)
    if array.ndim != 2:
        raise ShapeError(f"Expected 2D array, got {array.ndim}D array instead: pass rows of columns.")
    return ((f"x{i}", array[:, i]) for i in range(array.shape[1]))


def _finite(name: str, column: Column) -> Column:
    """Return the column; raise NonFiniteError if it contains infinity."""
    if column.kind == "number" and np.isinf(column.values).any():
        row = int(np.argmax(np.isinf(column.values)))
        raise NonFiniteError(
            f"the column {name!r} contains infinity (inf) in row {row}; correct it or drop the column",
            row=row,
            column=name,
            value=float(column.values[row]),
        )
    return column


def _read_column(name: str, values: Any) -> Column:
    if isinstance(values, Column):
        return values
    if type(values).__module__.partition(".")[0] == "pyarrow":
        return arrow_column(name, values)
    if isinstance(values, PandasSeries) and isinstance(values.dtype, PandasCategories):
        return _read_column(name, values.to_numpy()).as_text()  # the categories may be numbers
    try:
        array = _as_array(values)
    except MemoryError:
        raise
    except BaseException as error:  # each library of frames has its own
        if not (isinstance(error, Exception) or is_panic(error)):
            raise
        raise ValueTypeError(f"the column {name!r} cannot be read ({error}); convert it, or drop it") from error
    if array.ndim != 1:
        raise ShapeError(f"the column {name!r} must have one value for each row; got the shape {array.shape}")
    match array.dtype.kind:
        case "b":
            return Column("boolean", array.astype(np.float64))
        case "i" | "u" | "f":
            return Column("number", array.astype(np.float64))
        case "M":
            return Column("date", array.astype("datetime64[us]"))
        case "m":
            seconds: npt.NDArray[np.float64] = array / np.timedelta64(1, "s")
            return Column("number", seconds)
        case "U" | "T" | "O":
            return _read_objects(name, array.tolist())
    raise ValueTypeError(f"the column {name!r} must be numbers, booleans, dates or text; got the type {array.dtype}")


def _as_array(values: Any) -> npt.NDArray[Any]:
    if isinstance(values, np.ndarray):
        return np.asarray(values.tolist(), object) if np.ma.isMaskedArray(values) else values
    if isinstance(values, PandasSeries):
        # The nullable types and the time zones of pandas would become objects.
        if values.dtype.kind in ("i", "u", "f"):
            return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
        if values.dtype.kind == "M":
            return np.asarray(values.to_numpy(dtype="datetime64[us]"))
    if isinstance(values, SupportsToNumpy):
        return np.asarray(values.to_numpy())
    return np.asarray(values, object)


def _read_objects(name: str, values: list[Any]) -> Column:
    """Return a column of Python values of one kind, some of which may be missing."""
    present = [type(value) is str or not _is_missing(value) for value in values]
    types = {type(value) for value, there in zip(values, present, strict=True) if there}
    kind = next((kind for kind, own in _PYTHON_TYPES if all(issubclass(one, own) for one in types)), None)
    if kind is None:
        raise ValueTypeError(
            f"the column {name!r} must hold values of one kind (numbers, booleans, dates or text); got "
            f"{listed(sorted(one.__name__ for one in types))}"
        )
    column = empty_column(kind, len(values))
    places = np.flatnonzero(present)
    if kind == "text":
        codes: dict[str, int] = {}
        column.values[places] = [codes.setdefault(str(values[i]).strip(), len(codes)) for i in places.tolist()]
        return replace(column, words=tuple(codes))
    read = _utc if kind == "date" else _float
    column.values[places] = [read(name, values[i]) for i in places]
    return column


_PYTHON_TYPES: tuple[tuple[Kind, tuple[type, ...]], ...] = (
    ("text", (str,)),
    ("boolean", (bool, np.bool_)),
    ("number", (numbers.Number,)),
    ("date", (datetime.date, np.datetime64)),
)


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ == "NAType":
        return True
    # NaN and NaT are the values that differ from themselves.
    return isinstance(value, numbers.Number | datetime.date | np.datetime64) and bool(value != value)


def _float(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueTypeError(f"{shown(value)} in the column {name!r} cannot be a float ({error})") from error


def _utc(name: str, value: Any) -> np.datetime64:
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return np.datetime64(value, "us")
