"""Rows of named values, one at a time: names become columns, rows wait in a buffer."""

from __future__ import annotations

import math
import zlib
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf._options import whole
from driftsurf.base import CSR, FloatArray
from driftsurf.errors import NonFiniteError, ValueTypeError

__all__ = ["RowBuffer", "Vocabulary", "one_row"]

Entries = tuple[list[int], list[float]]
"""The columns of a row, in order, and the values there."""


class Vocabulary:
    """Names of values and their columns: in order of appearance up to ``max_features``, then by a hash.

    A number stands in the column of its name. Text stands as a 1 in the column of name and text. What is missing
    (None, NaN, or a name that is not there) is 0. A name that appears when all columns are taken shares one of
    ``n_hashes`` columns with others.

    Parameters
    ----------
    max_features
        Columns for names.
    n_hashes
        Columns beyond, for all other names.

    Examples
    --------
    >>> words = Vocabulary(max_features=3, n_hashes=4)
    >>> words.learnt({"size": 2.5, "city": "Oslo"})
    ([0, 1], [2.5, 1.0])
    >>> words.known({"city": "Rome", "size": 1})  # Rome was not seen yet
    ([0], [1.0])
    """

    def __init__(self, max_features: int = 1024, n_hashes: int = 256) -> None:
        self.limit = whole("max_features", max_features, at_least=1)
        self.n_hashes = whole("n_hashes", n_hashes, at_least=1)
        self.columns: dict[Any, int] = {}

    @property
    def width(self) -> int:
        """Columns in all."""
        return self.limit + self.n_hashes

    def close(self) -> None:
        """Give out no more columns: for a model whose columns are dense, and fixed by its first rows."""
        self.limit = max(1, len(self.columns))

    def learnt(self, row: Mapping[Any, Any]) -> Entries:
        """The entries of a row whose names are known from now on."""
        entries = _entries(row)
        new = [name for name in entries if name not in self.columns]
        # By name, not as they come: the order of a row's values says nothing.
        for name in sorted(new, key=repr)[: self.limit - len(self.columns)]:
            self.columns[name] = len(self.columns)
        return self._placed(entries)

    def known(self, row: Mapping[Any, Any]) -> Entries:
        """The entries of a row, without names that have no column yet. Changes nothing."""
        return self._placed(_entries(row))

    def places(self, names: Collection[Any]) -> list[int] | None:
        """The columns of these names; None unless each has one of its own."""
        return [self.columns[name] for name in names] if self.columns.keys() >= set(names) else None

    def _placed(self, entries: dict[Any, float]) -> Entries:
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
    """Names with numbers; text becomes part of its name."""
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
                    f"the value of {name!r} is {value!r}; give a number, text, or None where it is missing"
                ) from error
        if math.isfinite(number):
            entries[name] = number
        elif not math.isnan(number):
            raise NonFiniteError(f"the value of {name!r} is {value!r}; give a finite number, or None")
    return entries


class RowBuffer:
    """Rows and targets that wait for a time step, in arrays made once.

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
        self.weights = np.ones(size)
        self._data = np.zeros(16 * size)
        self._indices = np.zeros(16 * size, np.int32)
        self._indptr = np.zeros(size + 1, np.int64)

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def full(self) -> bool:
        """Whether it is time to learn."""
        return len(self.targets) == self.size

    def add(self, entries: Entries, target: Any, weight: float = 1.0) -> None:
        """One more row."""
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
        """Rows that all have a value in each of ``columns``; no more than there is room for."""
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
        """The rows so far; valid until the next one."""
        count = len(self.targets)
        stop = int(self._indptr[count])
        return CSR(self._data[:stop], self._indices[:stop], self._indptr[: count + 1], width)

    def clear(self) -> None:
        """Let all rows go."""
        self.targets = []


def one_row(entries: Entries, width: int) -> CSR:
    """A row by itself."""
    columns, values = entries
    return CSR(np.array(values, np.float64), np.array(columns, np.int32), np.array([0, len(columns)], np.int64), width)


def _longer(array: npt.NDArray[Any], length: int) -> npt.NDArray[Any]:
    return np.concatenate([array, np.zeros(max(length, 2 * len(array)) - len(array), array.dtype)])
