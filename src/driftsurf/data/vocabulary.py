"""Rows given one at a time as named values: names become columns, and rows are collected in a buffer."""

from __future__ import annotations

import math
import zlib
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import CSR, FloatArray
from driftsurf.core.options import whole
from driftsurf.errors import NonFiniteError, ValueTypeError

Entries = tuple[list[int], list[float]]
"""Columns of a row in rising order, and its values in them."""


class Vocabulary:
    """Maps names to columns: in the order of their appearance up to ``max_features``, then by a hash.

    A number stands in the column of its name. Text is a 1 in the column of its name and text. A missing value (None,
    NaN, or an absent name) is 0. Names that appear when all columns are assigned share ``n_hashes`` further columns.

    Parameters
    ----------
    max_features
        Number of columns for names.
    n_hashes
        Number of further columns, for all other names.

    Examples
    --------
    >>> words = Vocabulary(max_features=3, n_hashes=4)
    >>> words.learn({"size": 2.5, "city": "Oslo"})
    ([0, 1], [2.5, 1.0])
    >>> words.lookup({"city": "Rome", "size": 1})  # Rome has no column yet
    ([0], [1.0])
    """

    def __init__(self, max_features: int = 1024, n_hashes: int = 256) -> None:
        self.limit: int = whole("max_features", max_features, at_least=1)
        self.n_hashes: int = whole("n_hashes", n_hashes, at_least=1)
        self.columns: dict[Any, int] = {}

    @property
    def width(self) -> int:
        """Number of columns in all."""
        return self.limit + self.n_hashes

    def close(self) -> None:
        """Assign no more columns, for a model whose dense columns are fixed by its first rows."""
        self.limit = max(1, len(self.columns))

    def learn(self, row: Mapping[Any, Any]) -> Entries:
        """Return the entries of a row, and assign columns to its new names."""
        entries = _entries(row)
        new = [name for name in entries if name not in self.columns]
        # In the order of the names: that of the values in a row has no meaning.
        for name in sorted(new, key=repr)[: self.limit - len(self.columns)]:
            self.columns[name] = len(self.columns)
        return self._placed(entries)

    def lookup(self, row: Mapping[Any, Any]) -> Entries:
        """Return the entries of a row without names that have no column yet. Changes nothing."""
        return self._placed(_entries(row))

    def places(self, names: Collection[Any]) -> list[int] | None:
        """Return the columns of these names; None unless each name has a column of its own."""
        return [self.columns[name] for name in names] if self.columns.keys() >= set(names) else None

    def _placed(self, entries: dict[Any, float]) -> Entries:
        """Return the columns, in rising order, and the values of a row; values that share a hashed column are added."""
        columns, placed = self.columns, dict[int, float]()
        full = len(columns) >= self.limit
        for name, value in entries.items():
            place = columns.get(name)
            if place is None and full:
                place = self.limit + zlib.crc32(repr(name).encode()) % self.n_hashes
            if place is not None:
                placed[place] = placed.get(place, 0.0) + value
        order = sorted(placed)
        return order, [placed[place] for place in order]


def _entries(row: Mapping[Any, Any]) -> dict[Any, float]:
    """Return the numbers of a row by name; the name of a text includes the text."""
    entries: dict[Any, float] = {}
    for name, value in row.items():
        if type(value) is float:
            number = value
        elif isinstance(value, str):
            entries[name, value] = 1.0
            continue
        elif value is None:
            continue
        else:
            try:
                number = float(value)
            except (TypeError, ValueError) as error:
                raise ValueTypeError(
                    f"the value of {name!r} must be a number, text, or None if it is missing; got {value!r}"
                ) from error
        if math.isfinite(number):
            entries[name] = number
        elif not math.isnan(number):
            raise NonFiniteError(f"the value of {name!r} must be finite, or None if it is missing; got {value!r}")
    return entries


class RowBuffer:
    """Rows and targets that are collected until they fill a time step, in arrays that are reused.

    >>> waiting = RowBuffer(2)
    >>> waiting.add(([0, 3], [1.0, 2.0]), "yes")
    >>> len(waiting), waiting.full
    (1, False)
    >>> waiting.rows(width=4).data
    array([1., 2.])
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.targets: list[Any] = []
        self.weights: FloatArray = np.ones(size)
        self._data = np.zeros(16 * size)
        self._indices = np.zeros(16 * size, np.int32)
        self._indptr = np.zeros(size + 1, np.int64)

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def full(self) -> bool:
        """Whether the rows fill a time step."""
        return len(self.targets) == self.size

    def add(self, entries: Entries, target: Any, weight: float = 1.0) -> None:
        """Append a row."""
        columns, values = entries
        start = int(self._indptr[len(self.targets)])
        stop = start + len(columns)
        self._make_room(stop)
        self._data[start:stop] = values
        self._indices[start:stop] = columns
        self.weights[len(self.targets)] = weight
        self.targets.append(target)
        self._indptr[len(self.targets)] = stop

    def extend(self, columns: list[int], values: FloatArray, targets: list[Any]) -> None:
        """Append rows that have a value in each of ``columns``; they must not exceed the size of the buffer."""
        count, first = len(targets), len(self.targets)
        start = int(self._indptr[first])
        stop = start + values.size
        self._make_room(stop)
        order = np.argsort(columns)
        self._data[start:stop] = values[:, order].ravel()
        self._indices[start:stop] = np.tile(np.take(columns, order), count)
        self.weights[first : first + count] = 1.0
        self.targets += targets
        self._indptr[first + 1 : first + count + 1] = np.arange(start + len(columns), stop + 1, len(columns))

    def _make_room(self, length: int) -> None:
        if length > len(self._data):
            self._data, self._indices = _longer(self._data, length), _longer(self._indices, length)

    def rows(self, width: int) -> CSR:
        """Return the rows so far; they are valid until the next row is added."""
        count = len(self.targets)
        stop = int(self._indptr[count])
        return CSR(self._data[:stop], self._indices[:stop], self._indptr[: count + 1], width)

    def clear(self) -> None:
        """Remove all rows."""
        self.targets = []


def one_row(entries: Entries, width: int) -> CSR:
    """Return a single row as CSR."""
    columns, values = entries
    return CSR(np.array(values, np.float64), np.array(columns, np.int32), np.array([0, len(columns)], np.int64), width)


def _longer(array: npt.NDArray[Any], length: int) -> npt.NDArray[Any]:
    return np.concatenate([array, np.zeros(max(length, 2 * len(array)) - len(array), array.dtype)])
