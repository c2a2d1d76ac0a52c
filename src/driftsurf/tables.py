"""Tables as people have them: columns by name, of four kinds, with gaps. Frames of any library become one.

Nothing here imports a frame library: a pandas, polars or pyarrow table is asked for its columns.
"""

from __future__ import annotations

import datetime
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from driftsurf.base import CSR, take_rows
from driftsurf.errors import LabelError, NonFiniteError, SchemaError, ShapeError, ValueTypeError
from driftsurf.validation import listed, read_rows, read_schema

__all__ = ["KINDS", "Column", "Kind", "Table", "arrow_column", "arrow_kind", "empty_column", "read_table"]

Kind: TypeAlias = Literal["number", "boolean", "date", "text"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """Values of one kind, in a form that has room for gaps.

    Numbers and booleans are float64 with NaN for a gap, dates are ``datetime64[us]`` (UTC) with NaT, and
    text is int32 codes into ``words`` with -1, since most text repeats. A word may stand there twice, or unused.
    """

    kind: Kind
    values: npt.NDArray[Any]
    words: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: slice | npt.NDArray[Any]) -> Column:
        return replace(self, values=self.values[rows])

    def missing(self) -> npt.NDArray[np.bool_]:
        """Where the gaps are."""
        if self.kind == "text":
            return np.asarray(self.values < 0)
        return np.asarray(np.isnat(self.values) if self.kind == "date" else np.isnan(self.values))

    def used(self) -> npt.NDArray[np.int64]:
        """The codes of text that occur, in rising order."""
        seen = np.zeros(len(self.words) + 1, bool)
        seen[self.values] = True  # the code -1 of a gap is the entry at the end
        return np.flatnonzero(seen[:-1])

    def compact(self) -> Column:
        """The same text without unused words."""
        used = self.used()
        place = np.full(len(self.words) + 1, -1, np.int32)
        place[used] = np.arange(len(used))
        return Column("text", place[self.values], tuple(self.words[code] for code in used.tolist()))

    def as_text(self) -> Column:
        """The same values as words: whole numbers without a point, dates in ISO form.

        >>> Column("number", np.array([1.0, 2.5, np.nan])).as_text().words
        ('1', '2.5')
        """
        if self.kind == "text":
            return self
        present = ~self.missing()
        distinct, places = np.unique(self.values[present], return_inverse=True)
        codes = np.full(len(self), -1, np.int32)
        codes[present] = places
        return Column("text", codes, tuple(map(_WORD[self.kind], distinct.tolist())))


def _number_word(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)


_WORD: dict[Kind, Callable[[Any], str]] = {
    "number": _number_word,
    "boolean": lambda value: "true" if value else "false",
    "date": lambda value: str(value.isoformat()) if isinstance(value, datetime.datetime) else str(value),
}


def empty_column(kind: Kind, count: int) -> Column:
    """A column of nothing but gaps."""
    if kind == "text":
        return Column(kind, np.full(count, -1, np.int32))
    return Column(kind, np.full(count, np.datetime64("NaT"), "datetime64[us]") if kind == "date" else _gaps(count))


def _gaps(count: int) -> npt.NDArray[np.float64]:
    return np.full(count, np.nan)


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Columns of one length by name, and beside them sparse features without names, if the source has such.

    Examples
    --------
    >>> table = read_table({"price": [1.5, None], "city": ["Rome", "Oslo"], "sold": ["yes", "no"]})
    >>> {name: column.kind for name, column in table.columns.items()}
    {'price': 'number', 'city': 'text', 'sold': 'text'}
    >>> table.labels("sold"), list(table.without("sold").columns)
    (array(['yes', 'no'], dtype='<U3'), ['price', 'city'])
    """

    columns: Mapping[str, Column]
    features: CSR | None = None

    def __post_init__(self) -> None:
        lengths = {name: len(column) for name, column in self.columns.items()}
        if self.features is not None:
            lengths["(sparse features)"] = len(self.features.indptr) - 1
        if len(set(lengths.values())) > 1:
            raise ShapeError(f"the columns have different lengths ({lengths}): give one value for each row.")

    def __len__(self) -> int:
        if self.features is not None:
            return len(self.features.indptr) - 1
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, name: str) -> Column:
        if name not in self.columns:
            raise SchemaError(f"there is no column {name!r}; the columns are {listed(list(self.columns))}.")
        return self.columns[name]

    def rows(self, start: int, stop: int) -> Table:
        """Rows ``start`` to ``stop``, without copying their values."""
        features = None if self.features is None else take_rows(self.features, start, stop)
        assert features is None or isinstance(features, CSR)
        return Table({name: column[start:stop] for name, column in self.columns.items()}, features)

    def without(self, *names: str) -> Table:
        """The other columns."""
        return Table({name: column for name, column in self.columns.items() if name not in names}, self.features)

    def labels(self, name: str) -> npt.NDArray[Any]:
        """A column as class labels: text, booleans, or numbers, as integers where all are whole."""
        column = self[name]
        missing = column.missing()
        if missing.any():
            raise LabelError(
                f"the label {name!r} is missing in row {int(np.argmax(missing))} ({int(missing.sum())} rows in all). "
                "Drop unlabelled rows, or learn their labels when they arrive (driftsurf.runtime.delayed)."
            )
        match column.kind:
            case "text":
                words = np.array(column.words or [""])
                return np.asarray(words[column.values])
            case "boolean":
                return column.values.astype(bool)
            case "number":
                whole = (column.values == np.floor(column.values)) & (np.abs(column.values) < 2**53)
                return column.values.astype(np.int64) if whole.all() else column.values
            case "date":
                raise LabelError(f"the label {name!r} is a date; labels are whole numbers, booleans or text.")

    @staticmethod
    def concatenate(tables: Sequence[Table]) -> Table:
        """One below the other; they have the same columns."""
        if len(tables) == 1:
            return tables[0]
        first = tables[0]
        columns = {name: _joined([table.columns[name] for table in tables]) for name in first.columns}
        parts = [table.features for table in tables if table.features is not None]
        return Table(columns, _stacked(parts) if parts else None)


def _joined(columns: list[Column]) -> Column:
    kind = columns[0].kind
    if kind != "text":
        return Column(kind, np.concatenate([column.values for column in columns]))
    codes, words = list[npt.NDArray[np.int32]](), list[str]()
    for column in columns:
        compact = column.compact() if len(column.words) > len(column) else column
        codes.append(np.where(compact.values < 0, -1, compact.values + len(words)).astype(np.int32))
        words += compact.words
    return Column("text", np.concatenate(codes), tuple(words))


def _stacked(parts: list[CSR]) -> CSR:
    spans = [(int(part.indptr[0]), int(part.indptr[-1])) for part in parts]
    lengths = np.concatenate([np.diff(part.indptr) for part in parts])
    return CSR(
        np.concatenate([part.data[a:b] for part, (a, b) in zip(parts, spans, strict=True)]),
        np.concatenate([part.indices[a:b] for part, (a, b) in zip(parts, spans, strict=True)]),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        parts[0].n_features,
    )


# ---------------------------------------------------------------------------- from frames


def read_table(X: Any) -> Table:
    """A table from a pandas, polars or pyarrow one, a mapping of names to arrays, a 2D array or a sparse matrix.

    Columns that are not numbers, booleans, dates or text are refused by name; so is infinity.
    """
    if isinstance(X, Table):
        return X
    if hasattr(X, "collect"):
        raise ValueTypeError("X is a lazy frame: give X.collect().")
    if hasattr(X, "tocsr"):
        rows = read_rows(X, read_schema(X))
        assert isinstance(rows, CSR)
        return Table({}, rows)
    columns: Iterable[tuple[Any, Any]]
    if hasattr(X, "schema") and hasattr(X, "column_names"):
        columns = zip(X.column_names, X.columns, strict=True)
    elif isinstance(X, Mapping):
        columns = X.items()
    elif hasattr(X, "columns"):
        names = list(X.columns)
        columns = ((n, X.iloc[:, i] if hasattr(X, "iloc") else X.get_column(n)) for i, n in enumerate(names))
    else:
        array = np.asarray(X)
        if array.ndim != 2:
            raise ShapeError(f"Expected 2D array, got {array.ndim}D array instead: give rows of columns.")
        columns = ((f"x{i}", array[:, i]) for i in range(array.shape[1]))
    table: dict[str, Column] = {}
    for name, values in columns:
        if str(name) in table:
            raise SchemaError(f"the column name {str(name)!r} stands more than once: rename one of them.")
        table[str(name)] = finite(str(name), _read_column(str(name), values))
    if not table:
        raise ShapeError("0 feature(s) (a table without columns) while a minimum of 1 is required.")
    return Table(table)


def finite(name: str, column: Column) -> Column:
    """The column, or NonFiniteError if it holds infinity."""
    if column.kind == "number" and np.isinf(column.values).any():
        row = int(np.argmax(np.isinf(column.values)))
        raise NonFiniteError(f"the column {name!r} contains infinity (inf) in row {row}: correct it or leave it out.")
    return column


def _read_column(name: str, values: Any) -> Column:
    if isinstance(values, Column):
        return values
    if type(values).__module__.partition(".")[0] == "pyarrow":
        return arrow_column(name, values)
    array = _as_array(values)
    if array.ndim != 1:
        raise ShapeError(f"the column {name!r} has shape {array.shape}: give one value for each row.")
    match array.dtype.kind:
        case "b":
            return Column("boolean", array.astype(np.float64))
        case "i" | "u" | "f":
            return Column("number", array.astype(np.float64))
        case "M":
            return Column("date", array.astype("datetime64[us]"))
        case "m":
            return Column("number", _seconds(array))
        case "U" | "T" | "O":
            return _read_objects(name, array.tolist())
    raise ValueTypeError(f"the column {name!r} has type {array.dtype}; columns are numbers, booleans, dates or text.")


def _as_array(values: Any) -> npt.NDArray[Any]:
    dtype = getattr(values, "dtype", None)
    if hasattr(values, "isna"):  # pandas: its nullable types and zones would come as objects
        if getattr(dtype, "kind", "") in ("i", "u", "f"):
            return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
        if getattr(dtype, "kind", "") == "M":
            return np.asarray(values.to_numpy(dtype="datetime64[us]"))
    if hasattr(values, "to_numpy"):
        return np.asarray(values.to_numpy())
    if np.ma.isMaskedArray(values):
        return np.asarray(values.tolist(), object)
    return values if isinstance(values, np.ndarray) else np.asarray(values, object)


def _seconds(array: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    seconds: npt.NDArray[np.float64] = array / np.timedelta64(1, "s")
    return seconds


def _read_objects(name: str, values: list[Any]) -> Column:
    """Python values of one kind, with gaps."""
    present = [not _is_gap(value) for value in values]
    types = {type(value) for value, there in zip(values, present, strict=True) if there}
    kind = next((kind for kind, own in _PYTHON_TYPES if all(issubclass(one, own) for one in types)), None)
    if kind is None:
        raise ValueTypeError(
            f"the column {name!r} holds {listed(sorted(one.__name__ for one in types))}; give values of one kind: "
            "numbers, booleans, dates or text."
        )
    column = empty_column(kind, len(values))
    there = np.flatnonzero(present)
    if kind == "text":
        places: dict[str, int] = {}
        codes = [places.setdefault(str(values[i]), len(places)) for i in there]
        column.values[there] = codes
        return replace(column, words=tuple(places))
    read = _utc if kind == "date" else _float
    column.values[there] = [read(name, values[i]) for i in there]
    return column


_PYTHON_TYPES: tuple[tuple[Kind, tuple[type, ...]], ...] = (
    ("text", (str,)),
    ("boolean", (bool, np.bool_)),
    ("number", (numbers.Number,)),
    ("date", (datetime.date, np.datetime64)),
)


def _is_gap(value: Any) -> bool:
    if value is None or type(value).__name__ == "NAType":
        return True
    return isinstance(value, numbers.Number | datetime.date | np.datetime64) and bool(value != value)


def _float(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueTypeError(f"{value!r} in the column {name!r} is no real number of usual size ({error}).") from error


def _utc(name: str, value: Any) -> np.datetime64:
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return np.datetime64(value, "us")


# ---------------------------------------------------------------------------- from Arrow


def arrow_kind(type_: Any) -> Kind | None:
    """The kind of an Arrow type; None for one that is no column of a table, such as a list."""
    import pyarrow.types as t

    if t.is_dictionary(type_):
        return arrow_kind(type_.value_type)
    if t.is_boolean(type_):
        return "boolean"
    if any(is_a(type_) for is_a in (t.is_integer, t.is_floating, t.is_decimal, t.is_duration, t.is_time)):
        return "number"
    if t.is_date(type_) or t.is_timestamp(type_):
        return "date"
    return "text" if any(is_a(type_) for is_a in (t.is_string, t.is_large_string, t.is_null)) else None


def arrow_column(name: str, array: Any, kind: Kind | None = None) -> Column:
    """An Arrow array as a column of its own kind, or as text, or booleans as numbers; times of day are seconds."""
    import pyarrow as pa
    import pyarrow.types as t

    own = arrow_kind(array.type)
    if own is None:
        raise ValueTypeError(
            f"the column {name!r} has type {array.type}; drop it, or make numbers or text of it first."
        )
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if t.is_dictionary(array.type) and own != "text":
        array = array.dictionary_decode()
    try:
        column = _from_arrow(array, own)
    except pa.ArrowInvalid as error:
        raise ValueTypeError(f"the column {name!r} of type {array.type} cannot be read: {error}") from error
    if kind == "text":
        return column.as_text()
    return replace(column, kind="number") if (own, kind) == ("boolean", "number") else column


def _from_arrow(array: Any, kind: Kind) -> Column:
    import pyarrow as pa
    import pyarrow.types as t

    match kind:
        case "text":
            coded = array if t.is_dictionary(array.type) else array.cast(pa.string()).dictionary_encode()
            codes = coded.indices.cast(pa.int32()).fill_null(-1).to_numpy(zero_copy_only=False)
            words = coded.dictionary.to_pylist()
            if None in words:  # a gap may also be a word of the dictionary
                codes = np.where(codes == words.index(None), -1, codes)
                words = [word or "" for word in words]
            return Column(kind, codes, tuple(words))
        case "date":
            # Only nanoseconds lose digits on the way, and they cannot overflow.
            rounded = t.is_timestamp(array.type) and array.type.unit == "ns"
            array = array.cast(pa.timestamp("us", getattr(array.type, "tz", None)), safe=not rounded)
            return Column(kind, array.to_numpy(zero_copy_only=False).astype("datetime64[us]"))
        case _:
            if t.is_duration(array.type) or t.is_time(array.type):
                unit = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}[array.type.unit]
                whole = array.cast(pa.int32() if array.type.bit_width == 32 else pa.int64())
                return Column(kind, whole.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False) / unit)
            whole = array.cast(pa.int8()) if kind == "boolean" else array
            return Column(kind, whole.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
