"""Tables: columns by name, of four kinds, with missing values; and how those of pyarrow become such columns."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import CSR, take_rows
from driftsurf.core.input import listed
from driftsurf.core.options import shown
from driftsurf.data.reading_options import Kind
from driftsurf.errors import LabelError, SchemaError, ShapeError, ValueTypeError
from driftsurf.registry import nearest

LARGEST_EXACT = 2**53
"""Smallest whole number from which on float64 merges neighbours."""
MOST_LISTED, FIRST_LISTED = 20, 8
"""Number of columns that a message lists, and of the first ones that it lists if there are more."""


def which_columns(asked: Sequence[str], columns: Iterable[str]) -> str:
    """Return which columns there are, for messages, and which one may have been meant.

    >>> which_columns(["Pirce"], ["price", "sold"])
    "did you mean 'price'? the columns are 'price', 'sold'"
    """
    names = list(columns)
    return f"{nearest(asked[0], names)}the columns are {listed_columns(names)}"


def listed_columns(names: Sequence[str]) -> str:
    """Return the names of columns for a message; of many the first ones and the last, which is often the label.

    >>> listed_columns([f"x{place}" for place in range(30)])
    "'x0', 'x1', 'x2', 'x3', 'x4', 'x5', 'x6', 'x7' ... 'x29' (30 in all)"
    """
    if len(names) <= MOST_LISTED:
        return listed(names, MOST_LISTED)
    return f"{', '.join(map(shown, names[:FIRST_LISTED]))} ... {shown(names[-1])} ({len(names):,} in all)"


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """Values of one kind, some of which may be missing.

    Numbers and booleans are float64 with NaN for a missing value, dates are ``datetime64[us]`` in UTC with NaT, and
    text is int32 codes into ``words`` with -1, because most text repeats. A word may occur twice in ``words``, or be
    unused.
    """

    kind: Kind
    values: npt.NDArray[Any]
    words: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: slice | npt.NDArray[Any]) -> Column:
        return Column(self.kind, self.values[rows], self.words)

    def missing(self) -> npt.NDArray[np.bool_]:
        """Return which values are missing."""
        if self.kind == "text":
            return np.asarray(self.values < 0)
        return np.asarray(np.isnat(self.values) if self.kind == "date" else np.isnan(self.values))

    def used(self) -> npt.NDArray[np.int64]:
        """Return the codes of text that occur, in rising order."""
        seen = np.zeros(len(self.words) + 1, bool)
        seen[self.values] = True  # the code -1 of a missing value is the entry at the end
        return np.flatnonzero(seen[:-1])

    def compact(self) -> Column:
        """Return the same text without unused words."""
        used = self.used()
        place = np.full(len(self.words) + 1, -1, np.int32)
        place[used] = np.arange(len(used))
        return Column("text", place[self.values], tuple(self.words[code] for code in used.tolist()))

    def as_text(self) -> Column:
        """Return the same values as text: whole numbers without a decimal point, dates in ISO format.

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
    return str(int(value)) if value.is_integer() and abs(value) < LARGEST_EXACT else repr(value)


_WORD: dict[Kind, Callable[[Any], str]] = {
    "number": _number_word,
    "boolean": lambda value: "true" if value else "false",
    "date": lambda value: str(value.isoformat()) if isinstance(value, datetime.datetime) else str(value),
}


def empty_column(kind: Kind, count: int) -> Column:
    """Return a column of missing values."""
    if kind == "text":
        return Column(kind, np.full(count, -1, np.int32))
    if kind == "date":
        return Column(kind, np.full(count, np.datetime64("NaT", "us"), "datetime64[us]"))
    return Column(kind, np.full(count, np.nan))


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Columns of equal length by name, and sparse features without names beside them, if the source has any.

    Examples
    --------
    >>> from driftsurf.data.frames import read_table
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
            raise ShapeError(f"the columns of a table must have the same length; got {lengths}")

    def __len__(self) -> int:
        if self.features is not None:
            return len(self.features.indptr) - 1
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, name: str) -> Column:
        if name not in self.columns:
            raise SchemaError(f"there is no column {name!r}; {which_columns([name], self.columns)}")
        return self.columns[name]

    def rows(self, start: int, stop: int) -> Table:
        """Return rows ``start`` to ``stop``, without copying their values."""
        features = None if self.features is None else take_rows(self.features, start, stop)
        assert features is None or isinstance(features, CSR)
        return Table({name: column[start:stop] for name, column in self.columns.items()}, features)

    def select(self, kept: npt.NDArray[np.bool_]) -> Table:
        """Return the rows for which ``kept`` is true."""
        features = self.features
        if features is not None:
            start, stop = int(features.indptr[0]), int(features.indptr[-1])
            lengths = np.diff(features.indptr)
            entries = np.repeat(kept, lengths)
            ends = np.concatenate([[0], np.cumsum(lengths[kept])]).astype(np.int64)
            data, indices = features.data[start:stop][entries], features.indices[start:stop][entries]
            features = CSR(data, indices, ends, features.n_features)
        return Table({name: column[kept] for name, column in self.columns.items()}, features)

    def without(self, *names: str) -> Table:
        """Return the table without these columns."""
        return Table({name: column for name, column in self.columns.items() if name not in names}, self.features)

    def labels(self, name: str) -> npt.NDArray[Any]:
        """Return a column as class labels: text, booleans, or numbers, as integers if all of them are whole."""
        column = self[name]
        missing = column.missing()
        if missing.any():
            raise LabelError(
                f"the label {name!r} is missing in row {int(np.argmax(missing))} ({int(missing.sum())} rows in all). "
                "Drop rows without a label, or learn labels when they arrive (driftsurf.session.late)"
            )
        match column.kind:
            case "text":
                words = np.array(column.words or [""])
                return np.asarray(words[column.values])
            case "boolean":
                return column.values.astype(bool)
            case "number":
                whole = (column.values == np.floor(column.values)) & (np.abs(column.values) < LARGEST_EXACT)
                return column.values.astype(np.int64) if whole.all() else column.values
            case "date":
                raise LabelError(f"the label {name!r} is a date; labels must be whole numbers, booleans or text")

    @staticmethod
    def concatenate(tables: Sequence[Table]) -> Table:
        """Concatenate the rows of tables with the same columns."""
        if len(tables) == 1:
            return tables[0]
        first = tables[0]
        columns = {name: _concatenated([table.columns[name] for table in tables]) for name in first.columns}
        parts = [table.features for table in tables if table.features is not None]
        return Table(columns, _stacked(parts) if parts else None)


def _concatenated(columns: list[Column]) -> Column:
    """Return the columns, all of one kind, one after the other; text gets one common vocabulary."""
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
    """Return sparse rows one after the other."""
    spans = [(int(part.indptr[0]), int(part.indptr[-1])) for part in parts]
    lengths = np.concatenate([np.diff(part.indptr) for part in parts])
    return CSR(
        np.concatenate([part.data[start:stop] for part, (start, stop) in zip(parts, spans, strict=True)]),
        np.concatenate([part.indices[start:stop] for part, (start, stop) in zip(parts, spans, strict=True)]),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        parts[0].n_features,
    )


NOT_A_TIME = -(2**63)
"""Microseconds that stand for NaT."""
MOST_SHARED = 16
"""How many times as long as its bytes the text of a column may be, because values share bytes."""
_UNITS_PER_SECOND = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}


def arrow_kind(type_: Any) -> Kind | None:
    """Return the kind of an Arrow type, or None for a type that a table cannot hold, such as a list."""
    import pyarrow.types as t

    if t.is_dictionary(type_):
        return arrow_kind(type_.value_type)
    if t.is_boolean(type_):
        return "boolean"
    if any(is_a(type_) for is_a in (t.is_integer, t.is_floating, t.is_decimal, t.is_duration, t.is_time)):
        return "number"
    if t.is_date(type_) or t.is_timestamp(type_):
        return "date"
    text = t.is_string, t.is_large_string, t.is_string_view, t.is_null  # polars writes views
    return "text" if any(is_a(type_) for is_a in text) else None


def arrow_column(name: str, array: Any, kind: Kind | None = None) -> Column:
    """Return an Arrow array as a column of its own kind; ``kind`` may ask for text, or for booleans as numbers.

    Durations and times of day become seconds.
    """
    import pyarrow as pa
    import pyarrow.types as t

    own = arrow_kind(array.type)
    if own is None:
        raise ValueTypeError(
            f"the column {name!r} has the type {array.type}; drop it, or convert it to numbers or text"
        )
    if own == "text":
        _check_views(name, array)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if t.is_dictionary(array.type) and own != "text":
        array = array.dictionary_decode()
    try:
        column = _CONVERTERS[own](array)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueTypeError(f"the column {name!r} of type {array.type} cannot be converted: {error}") from error
    if kind == "text":
        return column.as_text()
    return replace(column, kind="number") if (own, kind) == ("boolean", "number") else column


def _text(array: Any) -> Column:
    import pyarrow as pa
    import pyarrow.types as t

    if not t.is_dictionary(array.type):
        # A cast of views would copy each of them, and may overflow.
        array = (array if t.is_string_view(array.type) else array.cast(pa.string())).dictionary_encode()
    coded = array
    codes = _numpy(coded.indices.cast(pa.int32()), np.int32, -1)
    words = coded.dictionary.to_pylist()
    if None in words:  # a missing value may also be an entry of the dictionary
        codes = np.where(codes == words.index(None), -1, codes)
        words = [word or "" for word in words]
    return Column("text", codes, tuple(map(str.strip, words)))


def _check_views(name: str, array: Any) -> None:
    """Raise ValueTypeError if views of text claim far more bytes than there are.

    Any number of views may share the same bytes, so a small file or request could claim any amount of memory.
    """
    import pyarrow as pa
    import pyarrow.types as t

    for chunk in array.chunks if isinstance(array, pa.ChunkedArray) else [array]:
        texts = chunk.dictionary if t.is_dictionary(chunk.type) else chunk
        if not t.is_string_view(texts.type) or not len(texts):
            continue
        begin, end = texts.offset, texts.offset + len(texts)
        lengths = np.frombuffer(texts.buffers()[1], np.int32)[4 * begin : 4 * end : 4]  # a view begins with its length
        if lengths[~_missing(texts)].sum(dtype=np.int64) > MOST_SHARED * texts.nbytes:
            raise ValueTypeError(
                f"the values of the column {name!r} share their bytes; write it as plain text", column=name
            )


def _missing(array: Any) -> npt.NDArray[np.bool_]:
    return arrow_memory(array.is_null().cast("int8"), np.bool_)


def _date(array: Any) -> Column:
    import pyarrow as pa
    import pyarrow.types as t

    zone, rounded = None, False
    if t.is_timestamp(array.type):
        zone, rounded = array.type.tz, array.type.unit == "ns"
    # Only nanoseconds lose digits in microseconds, and they cannot overflow; anything else that is lost is an error.
    array = array.cast(pa.timestamp("us", zone), safe=not rounded)
    return Column("date", _numpy(array.cast(pa.int64()), np.int64, NOT_A_TIME).view("datetime64[us]"))


def _boolean(array: Any) -> Column:
    import pyarrow as pa

    return Column("boolean", _numpy(array.cast(pa.int8()).cast(pa.float64()), np.float64, np.nan))


def _number(array: Any) -> Column:
    import pyarrow as pa
    import pyarrow.types as t

    if t.is_duration(array.type) or t.is_time(array.type):
        whole = array.cast(pa.int32() if array.type.bit_width == 32 else pa.int64())
        counts = _numpy(whole.cast(pa.float64(), safe=False), np.float64, np.nan)
        return Column("number", counts / _UNITS_PER_SECOND[array.type.unit])
    return Column("number", _numpy(array.cast(pa.float64(), safe=False), np.float64, np.nan))


def _numpy(array: Any, dtype: Any, missing: float) -> npt.NDArray[Any]:
    """Return the values of an Arrow array, as a read-only view if none is missing.

    ``array.to_numpy`` and ``array.fill_null`` would import pandas, if it is installed, which takes as long as the
    start of a run.
    """
    values = arrow_memory(array, dtype)
    if not array.null_count:
        return values
    return np.where(_missing(array), np.array(missing, dtype), values)


def arrow_memory(array: Any, dtype: Any) -> npt.NDArray[Any]:
    """Return the memory of an Arrow array, read-only; what stands in place of a missing value means nothing."""
    if not len(array):
        return np.zeros(0, dtype)
    return np.frombuffer(array.buffers()[1], dtype, array.offset + len(array))[array.offset :]


_CONVERTERS = {"text": _text, "date": _date, "boolean": _boolean, "number": _number}
