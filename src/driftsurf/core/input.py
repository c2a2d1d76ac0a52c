"""Validation of input: arrays, frames and sparse matrices become rows, or an error names what is wrong.

Nothing here modifies its input, or keeps a reference through which a caller could modify the model later. A schema is
an immutable value, fixed by the first batch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import CSR, Categories, DenseRows, EncodedRows, FloatArray, Rows, State, n_rows
from driftsurf.core.fields import Array, Converted, FieldRule, Fields, Truth, Values, Whole
from driftsurf.core.frames import (
    ArrowTable,
    Frame,
    LazyFrame,
    MatrixLike,
    PandasSeries,
    SparseMatrix,
    TargetLike,
    check_levels,
    frame_columns,
    is_scipy_csr,
    lazy_frame,
    unmasked,
)
from driftsurf.core.options import shown
from driftsurf.core.wording import in_words
from driftsurf.errors import InputError, NonFiniteError, SchemaError, ShapeError, ValueTypeError
from driftsurf.native.columns import all_finite, all_within, is_sound_csr

DENSE_LIMIT_BYTES = 2**28
"""Largest size in bytes to which a sparse batch is expanded for a model that works on dense rows."""
MIXED_TABLES = (
    "To learn from text, dates and missing values, pass tables instead of arrays: frames of pandas or polars, or "
    "dictionaries of columns"
)
INFINITY = "infinity (inf)"
REMEDIES = {"NaN": f"{MIXED_TABLES}; or drop those rows.", INFINITY: "Correct those values, or drop the rows."}


# ---------------------------------------------------------------------------- rows


@dataclass(frozen=True, slots=True)
class Schema:
    """Layout of the rows, fixed by the first batch for all later ones."""

    n_features: int
    sparse: bool = False
    names: tuple[str, ...] | None = None
    owner: str = "this model"
    """Name of the model in error messages; not saved."""
    categories: Categories = ()

    def named(self, names: tuple[str, ...]) -> Schema:
        """Return the schema with names of its columns."""
        return replace(self, names=names)

    def grouped(self, categories: Categories) -> Schema:
        """Return the schema with the categories of its columns."""
        return replace(self, categories=categories)

    def state(self) -> State:
        """Return the schema as flat entries."""
        names = "" if self.names is None else json.dumps(self.names)
        state: State = {"n_features": self.n_features, "sparse": self.sparse, "names": names}
        return state | ({"categories": np.array(self.categories, np.int64)} if self.categories else {})

    @classmethod
    def from_state(cls, state: Mapping[str, Any], owner: str) -> Schema:
        """Return the schema that was saved as ``state``."""
        known = FIELDS.read(state)
        categories = tuple((first, stop) for first, stop in known.get("categories", np.zeros((0, 2), int)).tolist())
        return cls(known["n_features"], known["sparse"], known["names"], owner, categories)


def _read_names(text: str) -> tuple[str, ...] | None:
    """Return saved names of columns; ValueError if they are not valid."""
    if not text:
        return None
    names = json.loads(text)
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ValueError("must be a list of names")
    return tuple(names)


def _are_apart(known: Values) -> bool:
    """Return whether saved categories are ranges of columns, one after the other."""
    bounds = known["categories"].ravel() if "categories" in known else np.zeros(0, np.int64)
    rising = bounds[1:] - bounds[:-1] >= np.arange(1, len(bounds)) % 2  # the next one may start where one stops
    return bool(rising.all() and (bounds <= known["n_features"]).all())


FIELDS = Fields(
    {
        "n_features": Whole(1, 2**31 - 1),
        "sparse": Truth(),
        "names": Converted(_read_names),
        "categories": Array(np.int64, ("*", 2), least=0),
    },
    optional=["categories"],
    rules=[
        FieldRule("categories", "must be ranges of columns, one after the other", _are_apart),
        FieldRule(
            "names",
            "must have one name per column",
            lambda known: known["names"] is None or len(known["names"]) == known["n_features"],
        ),
    ],
)
"""Saved entries of a schema."""


def read_schema(X: MatrixLike, owner: str = "this model") -> Schema:
    """Return the schema that a first batch fixes."""
    if isinstance(X, LazyFrame):
        raise lazy_frame("X")
    if isinstance(X, SparseMatrix):
        return Schema(int(X.shape[-1]), sparse=True, owner=owner)
    names = _column_names(X)
    width = len(tuple(X.columns)) if isinstance(X, Frame) else _as_array(X).shape[1]
    return Schema(int(width), sparse=False, names=names, owner=owner)


def read_rows(X: MatrixLike, schema: Schema, dtype: npt.DTypeLike = np.float64, *, finite: bool = True) -> Rows:
    """Return checked rows in the layout of ``schema``: C-contiguous and finite, or canonical CSR.

    Named columns may come in any order; they are rearranged to that of the schema. ``finite=False`` allows NaN and
    infinity in dense rows, for callers that handle missing values row by row.

    >>> read_rows([[1, 2], [3, 4]], Schema(n_features=2))
    array([[1., 2.],
           [3., 4.]])
    """
    dtype = np.dtype(dtype)
    if is_ready(X, schema, dtype, finite=finite):
        return X
    rows: Rows | None = _ready_csr(X, schema, dtype) if schema.sparse else None
    if rows is not None:
        return rows
    if isinstance(X, SparseMatrix):
        rows = _read_sparse(X, schema, dtype)
        if not schema.sparse:
            rows = _densify(rows)
    else:
        dense = _read_dense(X, schema, dtype, finite)
        rows = _sparsify(dense) if schema.sparse else dense
    if n_rows(rows) == 0:
        raise ShapeError(
            "Found array with 0 sample(s) while a minimum of 1 is required. Skip the call for an empty batch."
        )
    return rows


def is_ready(
    X: MatrixLike, schema: Schema, dtype: np.dtype[Any], *, finite: bool = True, most: FloatArray | None = None
) -> TypeGuard[npt.NDArray[np.floating[Any]]]:
    """Return whether X can be used as it is: finite and, if ``most`` is given, within these limits of the columns.

    This is the usual case, and for a single row the other checks cost more than learning it.
    """
    return (
        type(X) is np.ndarray
        and not schema.sparse
        and (X.dtype is dtype or X.dtype == dtype)
        and X.ndim == 2
        and X.shape[1] == schema.n_features
        and len(X) > 0
        and (flags := X.flags).c_contiguous
        and flags.aligned
        and (not finite or (all_finite(X) if most is None else all_within(X, most)))
    )


def _read_dense(X: npt.ArrayLike | Frame, schema: Schema, dtype: np.dtype[Any], finite: bool) -> DenseRows:
    if isinstance(X, LazyFrame):
        raise lazy_frame("X")
    names = _column_names(X)
    array = _read_frame(X) if isinstance(X, Frame) else _as_array(X)
    if names is not None and schema.names is not None and names != schema.names:
        array = array[:, _column_order(names, schema.names)]
    _check_width(array.shape[1], schema)
    array = _as_numbers(array, dtype, schema.names)
    if finite:
        _check_finite(array, schema.names)
    return array


def _as_array(X: Any) -> npt.NDArray[Any]:
    try:
        array = _filled(X) if np.ma.isMaskedArray(X) else np.asarray(X)
    except ValueError as error:
        raise ShapeError(f"X is not a table ({error}). All rows must have the same length.") from error
    if np.iscomplexobj(array):
        raise ValueTypeError("Complex data not supported. Pass the real and the imaginary parts as two columns.")
    if array.ndim != 2:
        raise ShapeError(
            f"Expected 2D array, got {array.ndim}D array instead (shape {array.shape}). Reshape your data: "
            "X.reshape(-1, 1) for one column, X.reshape(1, -1) for one row."
        )
    if array.shape[1] == 0:
        raise ShapeError(
            f"0 feature(s) (shape={array.shape}) while a minimum of 1 is required. Pass at least one column."
        )
    return array


def _filled(X: Any) -> npt.NDArray[Any]:
    """Return a masked array with NaN where it is masked."""
    return np.asarray(np.ma.filled(X.astype(np.float64) if X.dtype.kind in "iub" else X, np.nan))


def _as_numbers(array: npt.NDArray[Any], dtype: np.dtype[Any], names: tuple[str, ...] | None) -> DenseRows:
    if array.dtype.kind not in "fiub":
        columns = [_column_numbers(array[:, c], _column(c, names)) for c in range(array.shape[1])]
        array = np.column_stack(columns)
    return _narrow(np.require(array, requirements=["C", "A"]), dtype)


def _column_numbers(values: npt.NDArray[Any], column: str) -> npt.NDArray[Any]:
    """Return a column as numbers, missing values as NaN; raise ValueTypeError for text, dates and complex values."""
    if values.dtype.kind in "fiub":
        return values
    numbers = np.empty(len(values))
    for row, value in enumerate(values):
        cause: Exception | str = f"type {values.dtype}"
        try:
            if value is None or type(value).__name__ == "NAType":
                numbers[row] = np.nan
                continue
            if values.dtype.kind == "O" and not isinstance(value, str | bytes | np.datetime64 | np.timedelta64):
                numbers[row] = float(value)
                continue
        except (ValueError, TypeError, OverflowError) as error:
            cause = error
        bad = shown(str(value) if isinstance(value, str) else value)
        raise ValueTypeError(
            f"{bad} in row {row}, column {column} is not a number ({cause}). {MIXED_TABLES}; or drop the column."
        )
    return numbers


def _narrow(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> DenseRows:
    """Convert to the type of the store; values that do not fit become infinite, and are refused later."""
    with np.errstate(over="ignore"):
        return array.astype(dtype, copy=False)


def _check_finite(array: DenseRows, names: tuple[str, ...] | None) -> None:
    bad = ~np.isfinite(array)
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        what = "NaN" if np.isnan(array[row, column]) else INFINITY
        raise NonFiniteError(
            f"Input X contains {what} in row {row}, column {_column(column, names)} "
            f"({int(bad.sum())} in all). {REMEDIES[what]}"
        )


def _check_width(width: int, schema: Schema) -> None:
    if width != schema.n_features:
        raise ShapeError(
            f"X has {width} features, but {schema.owner} is expecting {schema.n_features} features as input, "
            "as in its first batch. Pass the same columns, or create a new model."
        )


def _column(index: int, names: tuple[str, ...] | None) -> str:
    return str(index) if names is None else f"{names[index]!r}"


# ---------------------------------------------------------------------------- frames


def _column_names(X: MatrixLike) -> tuple[str, ...] | None:
    """Return the column names of a frame if all are text, else None (scikit-learn's rule)."""
    if not isinstance(X, Frame):
        return None
    names = tuple(X.column_names if isinstance(X, ArrowTable) else X.columns)
    check_levels(names)
    if not names or not all(isinstance(name, str) for name in names):
        return None
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise SchemaError(f"the column name {twice!r} is repeated; column names must be unique.")
    return names


def _column_order(names: tuple[str, ...], wanted: tuple[str, ...]) -> list[int]:
    place = {name: index for index, name in enumerate(names)}
    added = [name for name in names if name not in set(wanted)]
    removed = [name for name in wanted if name not in place]
    if added or removed:
        parts = [f"added: {listed(added)}"] * bool(added) + [f"missing: {listed(removed)}"] * bool(removed)
        raise SchemaError(
            f"the columns differ from those of the first batch ({'; '.join(parts)}). "
            "Pass the same columns, in any order, or create a new model."
        )
    return [place[name] for name in wanted]


def _read_frame(X: Any) -> npt.NDArray[Any]:
    """Return a pandas or polars frame as one array, column by column, without importing either library."""
    columns = [_column_numbers(_read_series(series), repr(name)) for name, series in frame_columns(X)]
    if not columns:
        raise ShapeError(f"0 feature(s) (shape={X.shape}) while a minimum of 1 is required.")
    return np.column_stack(columns)


def _read_series(series: Any) -> npt.NDArray[Any]:
    if isinstance(series, PandasSeries) and series.dtype.kind in ("i", "u", "f", "b"):
        # The missing values of a nullable column become NaN, which is refused later with its row and column.
        return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(series)


# ---------------------------------------------------------------------------- sparse


def _ready_csr(X: Any, schema: Schema, dtype: np.dtype[Any]) -> CSR | None:
    """Return a CSR matrix that can be used as it is, with values of the type of the store; None for anything else."""
    kind: Any = type(X)
    if kind is EncodedRows:
        return X.csr if X.finite and X.dtype == dtype and X.shape[1] == schema.n_features and X.shape[0] else None
    if not is_scipy_csr(kind):
        return None
    # scipy lets its arrays be replaced by any others.
    if not all(map(_is_vector, (X.data, X.indices, X.indptr))) or X.indptr.dtype.kind != "i" or min(X.shape) == 0:
        return None
    if X.data.dtype != dtype or X.indices.dtype != np.int32 or X.shape != (len(X.indptr) - 1, schema.n_features):
        return None
    rows = CSR(X.data, X.indices, X.indptr.astype(np.int64, copy=False), schema.n_features)
    return rows if is_sound_csr(*rows) else None


def _is_vector(values: Any) -> bool:
    return isinstance(values, np.ndarray) and values.ndim == 1 and values.flags.c_contiguous and values.flags.aligned


def _read_sparse(X: SparseMatrix, schema: Schema, dtype: np.dtype[Any]) -> CSR:
    if len(X.shape) != 2:
        raise ShapeError(f"Expected 2D array, got {len(X.shape)}D sparse array instead. Reshape your data.")
    if X.shape[1] == 0:
        raise ShapeError(f"0 feature(s) (shape={X.shape}) while a minimum of 1 is required.")
    if X.dtype.kind == "c":
        raise ValueTypeError("Complex data not supported. Pass the real and the imaginary parts as two columns.")
    _check_width(int(X.shape[1]), schema)
    _check_format(X)
    matrix = X.tocsr()
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    if matrix.dtype.kind not in "fiub":
        raise ValueTypeError(f"X has type {matrix.dtype}, which is not numeric. Convert it to float first.")
    data = _narrow(np.ascontiguousarray(matrix.data), dtype)
    bad = ~np.isfinite(data)
    if bad.any():
        p = int(np.argmax(bad))
        row = int(np.searchsorted(matrix.indptr, p, side="right")) - 1
        what = "NaN" if np.isnan(data[p]) else INFINITY
        raise NonFiniteError(
            f"Input X contains {what} in row {row}, column {int(matrix.indices[p])} "
            f"({int(bad.sum())} in all). {REMEDIES[what]}"
        )
    indices, indptr = np.ascontiguousarray(matrix.indices, np.int32), np.ascontiguousarray(matrix.indptr, np.int64)
    return CSR(data, indices, indptr, schema.n_features)


def _check_format(X: Any) -> None:
    """Raise ShapeError for index arrays that point outside the matrix: compiled code does not check bounds."""
    if X.format == "coo":
        for axis, (indices, limit) in enumerate(zip(X.coords, X.shape, strict=True)):
            if len(indices) and (indices.min() < 0 or indices.max() >= limit):
                raise ShapeError(
                    f"the sparse matrix is malformed: an index of axis {axis} is outside 0 to {limit - 1}. "
                    "Build it again from its triplets."
                )
        return
    limits = {"csr": (X.shape[0], X.shape[1]), "csc": (X.shape[1], X.shape[0])}
    if X.format not in limits:
        raise ValueTypeError(f"X is a sparse matrix in the format {X.format!r}; pass X.tocsr(), or use csc or coo.")
    major, minor = limits[X.format]
    indptr, indices = np.asarray(X.indptr), np.asarray(X.indices)
    fault = ""
    if any(array.ndim != 1 for array in (indptr, indices, np.asarray(X.data))):
        fault = "its arrays do not have one dimension"
    elif indptr.dtype.kind not in "iu" or indices.dtype.kind not in "iu":
        fault = f"its indices have the types {indptr.dtype} and {indices.dtype}, not integers"
    elif len(indptr) != major + 1 or indptr[0] != 0 or np.any(np.diff(indptr) < 0):
        fault = f"its index pointer is not {major + 1} increasing numbers from 0"
    elif indptr[-1] > len(indices) or indptr[-1] > len(X.data):
        fault = f"its index pointer ends at {indptr[-1]}, beyond its {len(indices)} values"
    else:
        used = indices[: indptr[-1]]
        outside = (used < 0) | (used >= minor)
        if outside.any():
            fault = f"index {int(used[np.argmax(outside)])} is outside 0 to {minor - 1}"
    if fault:
        raise ShapeError(f"the sparse matrix is malformed: {fault}. Build it again from its triplets.")


def _densify(rows: CSR) -> DenseRows:
    count = n_rows(rows)
    size = count * rows.n_features * rows.data.itemsize
    if size > DENSE_LIMIT_BYTES:
        raise ShapeError(
            f"the first batch of this model was dense; {count} sparse rows of {rows.n_features} columns would take "
            f"{size / 2**20:.0f} MiB as dense rows. Pass smaller batches, or create a model with a sparse first batch."
        )
    dense = np.zeros((count, rows.n_features), rows.data.dtype)
    dense[np.repeat(np.arange(count), np.diff(rows.indptr)), rows.indices] = rows.data
    return dense


def _sparsify(dense: DenseRows) -> CSR:
    row, column = np.nonzero(dense)
    indptr = np.zeros(len(dense) + 1, np.int64)
    np.cumsum(np.bincount(row, minlength=len(dense)), out=indptr[1:])
    return CSR(dense[row, column], column.astype(np.int32), indptr, int(dense.shape[1]))


# ---------------------------------------------------------------------------- values in messages


def listed(values: Sequence[Any], most: int = 8) -> str:
    """Return the first ``most`` values as text for a message."""
    return in_words(values, shown, most=most)


ONES = np.ones(4096)
ONES.setflags(write=False)
"""Weights of unweighted rows; allocated once, because every batch needs them."""
LARGEST_WEIGHT = 1e15
"""Largest weight of a row: beside a heavier one, a row of weight 1 is lost in rounding, and steps diverge."""


def read_weights(weight: TargetLike | None, count: int) -> FloatArray:
    """Return the weights of ``count`` rows as an array; ones for None."""
    if weight is None:
        return ONES[:count] if count <= len(ONES) else np.ones(count)
    given: Any = unmasked(weight, "sample_weight")
    try:
        given = np.asarray(given)
        array = given if given.dtype.kind == "c" else np.asarray(given, np.float64)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueTypeError(f"sample_weight must be numeric: {error}") from error
    if array.dtype.kind == "c":
        raise ValueTypeError("sample_weight is complex; weights must be finite and not negative.")
    if array.ndim == 0:
        array = np.full(count, float(array))
    if array.ndim != 1:
        raise ShapeError(f"Sample weights must be 1D array or scalar, not {array.ndim}D.")
    if len(array) != count:
        raise ShapeError(f"sample_weight has {len(array)} values for {count} rows: sample_weight.shape must match.")
    if not (np.isfinite(array).all() and (array >= 0).all()):
        bad = int(np.argmax(~(np.isfinite(array) & (array >= 0))))
        raise NonFiniteError(f"sample_weight[{bad}] is {array[bad]}; weights must be finite and not negative.")
    if (array > LARGEST_WEIGHT).any():
        bad = int(np.argmax(array))
        raise InputError(
            f"sample_weight[{bad}] is {array[bad]}; the largest weight is {LARGEST_WEIGHT:g}. Divide all by a constant."
        )
    return array
