"""Classes that each key of a fleet learns as they appear, and the codes of labels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import IntArray
from driftsurf.core.labels import label_array
from driftsurf.core.targets import ClassTargets
from driftsurf.errors import InputError

__all__ = ["UNKNOWN", "Coded", "LabelSets"]

UNKNOWN = -1
MOST_COLUMNS = 256
"""Most different labels of a fleet whose codes are looked up in a table; the memory of that grows with their number."""
MOST_SPREAD = 1024
"""Largest difference of integer labels that are counted, which is faster than sorting them."""


class Coded(NamedTuple):
    """Labels of a call by their place among all labels of a fleet."""

    values: list[Any]
    """The distinct labels of the call."""
    columns: IntArray
    """The column of each of them in ``LabelSets.codes``."""
    place: IntArray
    """The place of each row's label in ``values``."""


class LabelSets:
    """Sets of classes in their order of appearance; keys with the same classes share one. The first set is empty.

    >>> sets = LabelSets(ClassTargets())
    >>> coded = sets.columns_of(np.array(["b", "a", "b"]))
    >>> one = sets.extended(0, coded, 1)
    >>> two = sets.extended(one, coded, 0)
    >>> sets.targets[one].labels, sets.targets[two].labels
    (('b',), ('b', 'a'))
    >>> sets.codes[two, coded.columns[coded.place]].tolist()
    [0, 1, 0]
    """

    def __init__(self, empty: ClassTargets) -> None:
        self.targets: list[ClassTargets] = [empty]
        self.codes: npt.NDArray[np.int16] = np.full((16, 16), UNKNOWN, np.int16)
        """The code of each label in each set; -1 if it is not in the set."""
        self.sizes: IntArray = np.zeros(16, np.int64)
        """The number of classes of each set."""
        self.against: npt.NDArray[np.uint8] = np.zeros(16, np.uint8)
        """Whether the second of two classes comes before the first by name, for each set."""
        self._columns: dict[Any, int] = {}
        self._numbers: dict[tuple[Any, ...], int] = {(): 0}

    def columns_of(self, labels: npt.NDArray[Any]) -> Coded | None:
        """Return where the labels of a call are; None if that is not known.

        They have to be of one kind, and labels, and a fleet must not have too many different ones.
        """
        try:
            array = label_array(labels)
        except InputError:
            return None
        distinct, place = _distinct(array)
        values = distinct.tolist()
        columns = [self._column_of(value) for value in values]
        return None if None in columns else Coded(values, np.array(columns, np.int64), place)

    def _column_of(self, label: Any) -> int | None:
        """Return the column of a label; None if there are too many labels."""
        column = self._columns.get(label)
        if column is None and len(self._columns) < MOST_COLUMNS:
            column = self._columns[label] = len(self._columns)
            if column == self.codes.shape[1]:
                wider = np.full_like(self.codes, UNKNOWN)
                self.codes = np.hstack([self.codes, wider])
        return column

    def number_of(self, targets: ClassTargets) -> int:
        """Return the number of a set of classes."""
        named = tuple((type(label), label) for label in targets.labels)  # 1, 1.0 and True are equal
        if named not in self._numbers:
            columns, row = [self._column_of(label) for label in targets.labels], len(self.targets)
            if row == len(self.codes):
                self.codes = np.vstack([self.codes, np.full_like(self.codes, UNKNOWN)])
                self.sizes, self.against = np.tile(self.sizes, 2), np.tile(self.against, 2)
            for code, column in enumerate(columns):
                if column is not None:
                    self.codes[row, column] = code
            self.sizes[row], self.against[row] = len(targets.labels), targets._against_names
            self.targets.append(targets)
            self._numbers[named] = row
        return self._numbers[named]

    def extended(self, number: int, coded: Coded, place: int) -> int:
        """Return the set with one more class, which is a label of a call."""
        known = self.targets[number]
        return self.number_of(ClassTargets((*known.labels, coded.values[place]), limit=known.limit))

    def shortened(self, number: int, count: int) -> int:
        """Return the set with the first ``count`` classes only."""
        known = self.targets[number]
        if count >= len(known.labels):
            return number
        return self.number_of(ClassTargets(known.labels[:count], limit=known.limit))

    def is_text(self, number: int) -> bool | None:
        """Return whether the classes are text; None if there are none."""
        labels = self.targets[number].labels
        return isinstance(labels[0], str) if labels else None


def _distinct(array: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], IntArray]:
    """Return the distinct labels, sorted, and the place of each label among them."""
    if array.dtype.kind in "iu" and len(array):
        low, high = int(array.min()), int(array.max())
        if high - low < MOST_SPREAD:
            shifted = (array - low).astype(np.int64)
            found = np.flatnonzero(np.bincount(shifted))
            return (found + low).astype(array.dtype), np.searchsorted(found, np.arange(high - low + 1))[shifted]
    distinct, place = np.unique(array, return_inverse=True)
    return distinct, place.reshape(-1)
