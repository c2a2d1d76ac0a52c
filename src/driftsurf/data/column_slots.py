"""Slots of encoded rows: where each column of a table stands, and which values it has there."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray
from driftsurf.core.random import GAMMA, mixed
from driftsurf.data.kinds import Kind
from driftsurf.data.tables import Column

__all__ = ["ColumnSlots", "Layout", "SlotValues", "hash_slots"]

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
