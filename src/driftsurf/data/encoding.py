"""Encode tables as rows of numbers, in a layout that the first batch fixes."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import CSR, Categories, EncodedRows, FloatArray, State
from driftsurf.core.fields import Fields, Json, Truth, Whole, misfit
from driftsurf.core.input import listed
from driftsurf.core.numeric import GAMMA, mixed
from driftsurf.core.options import choice, whole
from driftsurf.data.frames import read_table
from driftsurf.data.reading_options import KINDS, Kind
from driftsurf.data.tables import Column, Table, empty_column, which_columns
from driftsurf.errors import OptionError, SchemaError, ShapeError, StateError
from driftsurf.native.columns import assemble_rows, put_column

DAYS = "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"
FIRST_WEEKDAY = 3
"""1 January 1970 was a Thursday."""
MICROSECONDS_A_DAY = 86_400_000_000

SlotValues: TypeAlias = "tuple[npt.NDArray[np.int64] | int, FloatArray | float]"
"""At most one value for each row: its slot and its value, each either one for all rows or an array."""


@dataclass(frozen=True)
class ColumnSlots:
    """The slots of one column, which never change once the layout is fixed."""

    name: str
    kind: Kind
    first: int
    """Number of the first slot."""
    gaps: bool = False
    """Number or boolean: whether missing values have an indicator slot. Text: whether the first batch had no value."""
    fill: float = 0.0
    """Number, boolean or date: what replaces a missing value."""
    words: tuple[str, ...] = ()
    """Text: words that have a slot each, sorted."""
    n_hashed: int = 0
    """Text: number of slots that all other words share by a hash."""

    @property
    def width(self) -> int:
        """Number of slots."""
        match self.kind:
            case "text":
                return len(self.words) + self.n_hashed + 1
            case "date":
                return 1 + len(DAYS) + 2 + 1
        return 1 + self.gaps

    @property
    def values_per_row(self) -> int:
        """Number of values of a typical row that are not zero."""
        return 4 if self.kind == "date" else 1

    @property
    def fixed_slots(self) -> list[int]:
        """The slot of each value of a row, zeros included; 0 for a value whose slot depends on the row."""
        if self.kind == "date":
            return [self.first, 0, *range(self.first + 8, self.first + 11)]
        return [0] if self.kind == "text" else [*range(self.first, self.first + self.width)]

    def slot_names(self) -> Iterator[str]:
        """Yield the name of each slot."""
        match self.kind:
            case "text":
                yield from (f"{self.name}={word}" for word in self.words)
                yield from (f"{self.name} (hash {place})" for place in range(self.n_hashed))
                yield f"{self.name} is missing"
            case "date":
                yield f"{self.name} (days since 1970)"
                yield from (f"{self.name} {day}" for day in DAYS)
                yield from (f"{self.name} (sine of the hour)", f"{self.name} (cosine of the hour)")
                yield f"{self.name} is missing"
            case _:
                yield self.name
                if self.gaps:
                    yield f"{self.name} is missing"

    def calendar_slots(self) -> Iterator[int]:
        """Yield the slots whose values follow the calendar: those of a date, without the one for a missing date."""
        if self.kind == "date":
            yield from range(self.first, self.first + self.width - 1)

    @property
    def is_number(self) -> bool:
        """Whether the values are passed on as they are: numbers and booleans."""
        return self.kind in ("number", "boolean")

    def encode(self, column: Column) -> Iterator[SlotValues]:
        """Yield the values of a column of text or dates, in rising slots."""
        if self.kind == "text":
            yield self._word_slots(column), 1.0
        else:
            yield from self._encode_date(column)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {word: place for place, word in enumerate(self.words)}

    def _word_slots(self, column: Column) -> npt.NDArray[np.int64]:
        words, slots = self.__dict__.get("_last_slots", (None, None))
        if words is not column.words:
            slots = self._slots_by_code(column)
            if len(column.words) <= len(column):  # batches of the same chunk share their words
                self.__dict__["_last_slots"] = column.words, slots
        return np.asarray(slots[column.values])

    def _slots_by_code(self, column: Column) -> npt.NDArray[np.int64]:
        """Return the slot of each code; of those that do not occur, only if there are no more words than values."""
        few = len(column.words) <= len(column)
        used = np.arange(len(column.words)) if few else column.used()
        words = column.words if few else [column.words[code] for code in used.tolist()]
        places = np.array([self._places.get(word, -1) for word in words], np.int64)
        unknown = np.flatnonzero(places < 0)
        places[unknown] = len(self.words) + hash_slots([words[i] for i in unknown.tolist()], self.n_hashed)
        slots = np.empty(len(column.words) + 1, np.int64)
        slots[-1] = len(self.words) + self.n_hashed  # the code -1 of a missing value points here
        slots[used] = places
        return self.first + slots

    def _encode_date(self, column: Column) -> Iterator[SlotValues]:
        missing = column.missing()
        present = (~missing).astype(np.float64)
        since = np.where(missing, np.datetime64(0, "us"), column.values).astype("datetime64[us]").astype(np.int64)
        day, rest = np.divmod(since, MICROSECONDS_A_DAY)
        angle = rest * (2 * np.pi / MICROSECONDS_A_DAY)
        days = since / MICROSECONDS_A_DAY
        yield self.first, np.where(missing, self.fill, days)
        yield self.first + 1 + (day + FIRST_WEEKDAY) % 7, present
        yield self.first + 8, np.sin(angle) * present
        yield self.first + 9, np.cos(angle) * present
        yield self.first + 10, missing.astype(np.float64)


@dataclass(frozen=True)
class Layout:
    """The slots of all columns, one after the other, then the shared indicator and the sparse features."""

    columns: tuple[ColumnSlots, ...]
    n_features: int
    """Number of sparse features that follow the columns."""
    sparse: bool
    """Whether rows are CSR."""
    plain: bool = False
    """Whether columns of numbers are passed on as they are, without the slot that marks missing values."""
    shared: int = field(init=False)
    """Slot that marks a missing value in any column of numbers that has no indicator of its own."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "shared", sum(column.width for column in self.columns))

    @cached_property
    def numbers_first(self) -> bool:
        """Whether rows are dense and begin with the number of each column, without an indicator beside any."""
        alone = all(one.is_number and not one.gaps for one in self.columns)
        return alone and not self.sparse and not self.n_features

    @cached_property
    def only_numbers(self) -> bool:
        """Whether a row is the numbers of its columns, and nothing else."""
        return self.plain and self.numbers_first

    @cached_property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [one.name for one in self.columns]

    @cached_property
    def places(self) -> npt.NDArray[np.int32]:
        """Layout of the values of a row, for :func:`~driftsurf.native.columns.assemble_rows`.

        In rows: its slot; the number of the column of slots that it has instead, or -1; the place of the value that
        marks that this one is missing, or -1; and whether it is such a mark.
        """
        found = list[tuple[int, int, int, int]]()
        varying = 0
        last = sum(len(column.fixed_slots) for column in self.columns) if self.has_shared else -1
        for column in self.columns:
            for k, slot in enumerate(column.fixed_slots):
                moves = column.kind == "text" or (column.kind == "date" and k == 1)
                mark = (len(found) + 1 if column.gaps else last) if column.is_number and k == 0 else -1
                found.append((slot, varying if moves else -1, mark, int(column.is_number and k == 1)))
                varying += moves
        if self.has_shared:
            found.append((self.shared, -1, -1, 1))
        return np.ascontiguousarray(np.array(found, np.int32).reshape(-1, 4).T)

    @cached_property
    def fills(self) -> FloatArray:
        """Values that replace missing ones, one for each value of a row."""
        fills = [column.fill for column in self.columns for _ in column.fixed_slots]
        return np.array(fills + [0.0] * self.has_shared)

    @cached_property
    def n_varying(self) -> int:
        """Number of values of a row whose slots depend on the row."""
        return int(np.count_nonzero(self.places[1] >= 0))

    @property
    def width(self) -> int:
        """Number of slots in all."""
        return self.shared + self.has_shared + self.n_features

    @property
    def bytes_per_row(self) -> int:
        """Bytes that a typical row takes, without its sparse features."""
        if self.sparse:  # 12 bytes for each value, and the end of the row
            return 8 + 12 * sum(column.values_per_row for column in self.columns)
        return 8 * self.width

    @property
    def has_shared(self) -> bool:
        """Whether there is a slot that marks a missing value in any column without an indicator of its own."""
        return bool(self.columns) and not self.plain


def hash_slots(words: Sequence[str], count: int) -> npt.NDArray[np.int64]:
    """Return one of ``count`` slots for each word: the same on every machine and in every version.

    >>> hash_slots(["Rome", "Oslo", "Lima"], 8)
    array([2, 1, 5])
    """
    checks = [zlib.crc32(word.encode("utf-8", "surrogatepass")) for word in words]
    hashes = mixed(np.array(checks, np.uint64) * np.uint64(GAMMA))  # a checksum alone is linear in its text
    return (hashes % np.uint64(count)).astype(np.int64)


MOST_HASHES = 2**20
"""Largest number of slots that the words of a column share."""
LEAST_HASHED = 8
"""Least number of hashed slots for words that appear after the first batch."""
LEAST_SPARSE_WIDTH = 64
"""Narrower rows are always dense: CSR would save nothing."""


class TableEncoder:
    """Encodes columns of any kind as rows of numbers. ``fit`` on the first batch fixes the layout.

    Only the batch that it is fitted on decides; afterwards each row is encoded by itself, so that neither later rows
    nor the size of batches change anything. The width never changes, because that of a model cannot.

    - A **number** is passed on unchanged (learners scale internally). A missing value becomes the median of the first
      batch. A column with missing values in the first batch has an indicator slot; all other columns share one.
    - A **boolean** is 0 or 1, otherwise like a number.
    - A **date** becomes days since 1970 with their fraction, one of seven slots for the weekday, the hour as the sine
      and cosine of its angle on the clock, and an indicator slot for missing values.
    - **Text** with at most ``max_categories`` different words in the first batch has a slot for each word; words that
      appear later are hashed into as many slots again, and at least 8. Text with more words is hashed into ``n_hashes``
      slots. A missing value has a slot of its own. These slots are a category (:meth:`categories`). A column without a
      value is text, and its later values are text too.
    - **Sparse features** are passed on after the columns.

    Rows of 64 slots or more are CSR if that takes at most half of the memory, otherwise dense.

    Parameters
    ----------
    max_categories
        Largest number of words of which each has a slot.
    n_hashes
        Number of slots for text with more words.
    categorical
        Columns whose numbers, booleans or dates are treated as words.
    sparse
        Whether rows are CSR; "auto" takes what is smaller.
    plain
        Pass a table through unchanged if its first batch has only numbers and booleans and no missing value. There is
        then no slot that marks missing values, and later ones become the median of the first batch.

    Examples
    --------
    >>> encoder = TableEncoder().fit({"price": [1.5, 2.5], "city": ["Rome", "Oslo"]})
    >>> encoder.feature_names()[:3], encoder.width
    (['price', 'city=Oslo', 'city=Rome'], 13)
    >>> encoder.transform({"price": [None, 9.0], "city": ["Rome", "Lima"]})[:, :3]
    array([[2., 0., 1.],
           [9., 0., 0.]])
    """

    def __init__(
        self,
        *,
        max_categories: int = 128,
        n_hashes: int = 256,
        categorical: Collection[str] = (),
        sparse: bool | Literal["auto"] = "auto",
        plain: bool = False,
    ) -> None:
        self.max_categories = max_categories
        self.n_hashes = n_hashes
        self.categorical = categorical
        self.sparse = sparse
        self.plain = plain
        self._layout: Layout | None = None

    def check(self) -> None:
        """Raise OptionError if an option has a value that cannot be used."""
        whole("max_categories", self.max_categories, at_least=1)
        whole("n_hashes", self.n_hashes, at_least=1, at_most=MOST_HASHES)
        choice("sparse", self.sparse, (True, False, "auto"))
        names = self.categorical
        if (
            isinstance(names, str)
            or not isinstance(names, Collection)
            or not all(isinstance(one, str) for one in names)
        ):
            raise OptionError(f"categorical must be a list of column names, such as ['city']; got {names!r}")

    # -------------------------------------------------------------------- fitting

    @property
    def fitted(self) -> bool:
        """Whether the layout is fixed."""
        return self._layout is not None

    def fit(self, X: Any) -> Self:
        """Fix the layout by these rows; an earlier layout is discarded."""
        self.check()
        table = read_table(X)
        if not len(table):
            raise ShapeError("Found array with 0 sample(s) while a minimum of 1 is required to fit an encoder.")
        unknown = [name for name in self.categorical if name not in table.columns]
        if unknown:
            raise SchemaError(f"categorical names {listed(unknown)}; {which_columns(unknown, table.columns)}")
        columns: list[ColumnSlots] = []
        first = 0
        for name, column in table.columns.items():
            columns.append(self._column_slots(name, column, first))
            first += columns[-1].width
        n_features = 0 if table.features is None else table.features.n_features
        self._layout = Layout(tuple(columns), n_features, self._is_sparse(columns, n_features), self._is_plain(columns))
        return self

    def partial_fit(self, X: Any) -> Self:
        """Fit on the first call; later calls check that the table has the same columns, and change nothing."""
        if self._layout is None:
            return self.fit(X)
        self._matching_columns(read_table(X), self._layout)
        return self

    def _column_slots(self, name: str, column: Column, first: int) -> ColumnSlots:
        if name in self.categorical:
            column = column.as_text()
        missing = column.missing()
        match column.kind:
            case "text":
                words = tuple(sorted({column.words[code] for code in column.used().tolist()}))
                if len(words) > self.max_categories:
                    return ColumnSlots(name, "text", first, n_hashed=self.n_hashes)
                n_hashed = max(LEAST_HASHED, len(words))
                return ColumnSlots(name, "text", first, not words, words=words, n_hashed=n_hashed)
            case "date":
                days = column.values[~missing].astype("datetime64[us]").astype(np.int64) / MICROSECONDS_A_DAY
                return ColumnSlots(name, "date", first, fill=_median(days))
        return ColumnSlots(name, column.kind, first, bool(missing.any()), _median(column.values[~missing]))

    def _is_sparse(self, columns: list[ColumnSlots], n_features: int) -> bool:
        if self.sparse != "auto":
            return bool(self.sparse)
        n_values = sum(column.values_per_row for column in columns)
        width = sum(column.width for column in columns) + 1
        # A value takes 12 bytes in CSR (a row 8 more) and 8 bytes in a dense row.
        return n_features > 0 or (width >= LEAST_SPARSE_WIDTH and 2 * (12 * n_values + 8) <= 8 * width)

    def _is_plain(self, columns: Sequence[ColumnSlots]) -> bool:
        return bool(self.plain) and all(one.kind in ("number", "boolean") and not one.gaps for one in columns)

    # -------------------------------------------------------------------- encoding

    @property
    def layout(self) -> Layout:
        """The layout that ``fit`` fixed."""
        if self._layout is None:
            raise StateError("this encoder is not fitted; call fit or partial_fit with the first batch")
        return self._layout

    @property
    def width(self) -> int:
        """Number of columns of the encoded rows."""
        return self.layout.width

    def feature_names(self) -> list[str]:
        """Return the names of the encoded columns, such as "city=Rome", "city (hash 3)" and "city is missing".

        Words of a column with many of them share places by their hash. The last indicator says that a cell is missing
        in a column that had no gaps in the first batch.
        """
        layout = self.layout
        names = [name for column in layout.columns for name in column.slot_names()]
        return (
            names
            + ["another cell is missing"] * layout.has_shared
            + [f"feature {place}" for place in range(layout.n_features)]
        )

    def categories(self) -> Categories:
        """Return the ranges of encoded columns of which exactly one is 1 in each row: those of text."""
        text = [column for column in self.layout.columns if column.kind == "text"]
        return tuple((column.first, column.first + column.width) for column in text)

    def calendar_columns(self) -> list[int]:
        """Return the places of encoded columns that follow the calendar: days, weekdays and hours of dates."""
        return [place for column in self.layout.columns for place in column.calendar_slots()]

    def transform(self, X: Any) -> Any:
        """Return rows of numbers: a float64 array, or ``scipy.sparse.csr_array``. Changes nothing."""
        rows = self.rows(X)
        return rows.tocsr() if isinstance(rows, EncodedRows) else rows

    def rows(self, X: Any) -> Any:
        """Return rows as :meth:`transform` does, but sparse ones in a form that a session takes without checks."""
        layout = self.layout
        table = X if isinstance(X, Table) else read_table(X)
        columns = self._matching_columns(table, layout)
        if not layout.sparse:
            rows = _dense(layout, columns, len(table))
            return rows if table.features is None else np.hstack([rows, _scipy(table).toarray()])
        if table.features is not None and not layout.columns:
            return _scipy(table)
        encoded = _csr(layout, columns, len(table))
        if table.features is None:
            return encoded
        from scipy import sparse

        return sparse.csr_array(sparse.hstack([encoded.tocsr(), _scipy(table)], format="csr"))

    def number_rows(self, numbers: FloatArray) -> FloatArray | None:
        """Return rows as :meth:`transform` does, of numbers in the order of the columns, row after row in memory.

        The numbers have to be finite, which is not checked here. None if the columns have other slots than one for each
        number: such rows need a table.
        """
        layout = self.layout
        if not layout.numbers_first or len(layout.columns) != numbers.shape[1]:
            return None
        rows = np.zeros((len(numbers), layout.width))
        rows[:, : numbers.shape[1]] = numbers
        return rows

    def fit_transform(self, X: Any) -> Any:
        """Fit the encoder and return the encoded rows."""
        table = read_table(X)
        return self.fit(table).transform(table)

    def _matching_columns(self, table: Table, layout: Layout) -> list[Column]:
        """Return the columns in the order and of the kinds of the layout; raise SchemaError if they differ."""
        known = {slots.name for slots in layout.columns}
        added = [name for name in table.columns if name not in known]
        removed = [slots.name for slots in layout.columns if slots.name not in table.columns]
        columns, retyped = [], []
        for slots in layout.columns:
            column = table.columns.get(slots.name)
            if column is None:
                continue
            if slots.name in self.categorical or (slots.kind == "text" and slots.gaps):
                column = column.as_text()
            if not _fits(column, slots.kind):
                if not column.missing().all():
                    retyped.append(f"{slots.name!r} from {slots.kind} to {column.kind}")
                column = empty_column(slots.kind, len(column))
            columns.append(column)
        faults = [f"{what}: {listed(names)}" for what, names in (("added", added), ("removed", removed)) if names]
        faults += [f"retyped: {', '.join(retyped)}"] * bool(retyped)
        width = 0 if table.features is None else table.features.n_features
        if width != layout.n_features:
            faults.append(f"{width} sparse features, expected {layout.n_features}")
        if faults:
            raise SchemaError(
                f"the columns differ from those of the first batch ({'; '.join(faults)}). "
                "Pass the same columns, in any order, or fit a new encoder and model"
            )
        return columns

    # -------------------------------------------------------------------- state

    def state(self) -> State:
        """Return the layout and the options as a flat state."""
        layout = self.layout
        columns = [[c.name, c.kind, c.gaps, c.fill.hex(), list(c.words), c.n_hashed] for c in layout.columns]
        params = {
            "max_categories": int(self.max_categories),
            "n_hashes": int(self.n_hashes),
            "categorical": sorted(self.categorical),
            "sparse": self.sparse,
            **({"plain": True} if self.plain else {}),
        }
        return {
            "params": json.dumps(params, sort_keys=True),
            "parts": json.dumps(columns),
            "n_features": layout.n_features,
            "sparse": layout.sparse,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> TableEncoder:
        """Return the encoder that ``state()`` came from."""
        known = FIELDS.read(state)
        encoder: TableEncoder = known["params"]
        columns: tuple[ColumnSlots, ...] = known["parts"]
        for one in columns:
            # Words beyond those in the file share as many slots as fit chooses, so that the file bounds the width.
            if one.kind == "text" and one.n_hashed > max(LEAST_HASHED, len(one.words), int(encoder.n_hashes)):
                raise misfit(state, "parts", f"has {one.n_hashed} shared slots for {one.name!r}, which is too many")
        layout = Layout(columns, known["n_features"], known["sparse"], encoder._is_plain(columns))
        if not 1 <= layout.width < 2**31:
            raise misfit(state, "n_features", f"and the parts give {layout.width} columns")
        encoder._layout = layout
        return encoder


def _read_encoder(params: Any) -> TableEncoder:
    """Return an encoder with these saved options; ValueError or TypeError if they are not valid."""
    encoder = TableEncoder(**params)
    encoder.check()
    return encoder


def _read_columns(saved: Any) -> tuple[ColumnSlots, ...]:
    """Return the slots of saved columns; raise ValueError if they are not valid."""
    columns: list[ColumnSlots] = []
    first = 0
    for name, kind, gaps, fill, words, n_hashed in saved:
        value = float.fromhex(fill)
        if not (isinstance(name, str) and kind in KINDS and type(gaps) is bool and np.isfinite(value)):
            raise ValueError(f"the column {name!r} is not valid")
        if kind == "text":
            whole("n_hashed", n_hashed, at_least=1, at_most=MOST_HASHES)
            if not (type(words) is list and all(type(word) is str for word in words) and words == sorted(set(words))):
                raise ValueError(f"the words of {name!r} are not distinct text in order")
        elif words or n_hashed != 0:
            raise ValueError(f"the column {name!r} has no words")
        columns.append(ColumnSlots(name, kind, first, gaps, value, tuple(words), n_hashed))
        first += columns[-1].width
    if len({column.name for column in columns}) < len(columns):
        raise ValueError("two columns have the same name")
    return tuple(columns)


FIELDS = Fields(
    {
        "params": Json(_read_encoder),
        "parts": Json(_read_columns),
        "n_features": Whole(0, 2**31 - 1),
        "sparse": Truth(),
    }
)
"""Saved entries of an encoder."""


def _fits(column: Column, kind: Kind) -> bool:
    return column.kind == kind or {column.kind, kind} == {"number", "boolean"}


def _median(values: npt.NDArray[Any]) -> float:
    """Return the median of finite numbers; as numpy computes it, and ten times faster on a short column."""
    if not len(values):
        return 0.0
    ordered = np.sort(values.astype(np.float64))
    low, high = float(ordered[(len(values) - 1) // 2]), float(ordered[len(values) // 2])
    middle = (low + high) / 2.0
    # The sum of the two middle values may overflow where their mean does not.
    return middle if math.isfinite(middle) else 2.0 * (low / 4.0 + high / 4.0)


def _dense(layout: Layout, columns: list[Column], count: int) -> FloatArray:
    rows = np.zeros((count, layout.width - layout.n_features))
    each_row, missing = np.arange(count), np.zeros(count)
    for one, column in zip(layout.columns, columns, strict=True):
        if one.is_number:
            _put_number(one, column, one.first, rows, missing)
        else:
            for slots, own in one.encode(column):
                rows[each_row if isinstance(slots, np.ndarray) else slice(None), slots] = own
    if layout.has_shared:
        rows[:, layout.shared] = missing
    return rows


def _csr(layout: Layout, columns: list[Column], count: int) -> EncodedRows:
    """Return CSR rows without zeros. Values come in rising slots, so that the columns of each row are sorted."""
    places = layout.places
    most = places.shape[1]
    values, words = np.empty((most, count)), np.empty((layout.n_varying, count), np.int32)
    place = 0
    for one, column in zip(layout.columns, columns, strict=True):
        if one.is_number:
            values[place] = column.values
            place += 1 + one.gaps
            continue
        for slot, own in one.encode(column):
            values[place] = own
            if isinstance(slot, np.ndarray):
                words[places[1, place]] = slot
            place += 1
    data, indices, indptr = np.empty(values.size), np.empty(values.size, np.int32), np.empty(count + 1, np.int64)
    used, infinite = assemble_rows(values, words, places, layout.fills, np.zeros(most), data, indices, indptr)
    return EncodedRows(CSR(data[:used], indices[:used], indptr, layout.width - layout.n_features), not infinite)


def _put_number(slots: ColumnSlots, column: Column, place: int, out: FloatArray, missing: FloatArray) -> None:
    """Write a column of numbers to ``out``, and its indicator beside it; one without an indicator marks ``missing``."""
    gaps = np.zeros(len(out)) if slots.gaps else missing
    put_column(np.ascontiguousarray(column.values, np.float64), slots.fill, place, out, gaps)
    if slots.gaps:
        out[:, place + 1] = gaps


def _scipy(table: Table) -> Any:
    """Return the sparse features of a table as a scipy matrix."""
    from scipy import sparse

    features = table.features
    assert features is not None
    start, stop = int(features.indptr[0]), int(features.indptr[-1])
    parts = features.data[start:stop], features.indices[start:stop], features.indptr - start
    return sparse.csr_array(parts, shape=(len(table), features.n_features))
