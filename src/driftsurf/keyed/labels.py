"""The labels of keys as codes: sets of classes that keys share, and the labels of open keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray, IntArray
from driftsurf.core.targets import LARGEST_VALUE, ClassTargets, RegressionTargets, label_array
from driftsurf.errors import InputError
from driftsurf.keyed.layout import MOST_OWN, TWO
from driftsurf.keyed.results import KeyedPredictions
from driftsurf.keyed.rows import RowsByKey

if TYPE_CHECKING:
    from driftsurf.keyed.key_cache import Call

UNKNOWN = -1
STEPPED = 1
"""Mark of a prediction that was made after a time step, as ``native/store.pyx`` writes it."""
TOO_MANY = 2**15
"""Size of a set of classes that no key can have."""
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
    >>> columns = coded.columns[coded.place]
    >>> of = sets.grown(np.zeros(3, int), np.zeros(3, int), columns, np.full(3, True))
    >>> sets.targets[of[0]].labels, sets.codes[of, columns].tolist()
    (('b', 'a'), [0, 1, 0])
    """

    def __init__(self, empty: ClassTargets, *, typed: bool = False) -> None:
        self.targets: list[ClassTargets] = [empty]
        self._typed = typed
        """Whether 1, 1.0 and True are different labels; a set with two types then counts as too large."""
        self.most: int = MOST_OWN if empty.limit is None else min(empty.limit, MOST_OWN)
        """Most classes of a key."""
        self.codes: npt.NDArray[np.int16] = np.full((16, 16), UNKNOWN, np.int16)
        """The code of each label in each set; -1 if it is not in the set."""
        self.sizes: IntArray = np.zeros(16, np.int64)
        """The number of classes of each set."""
        self.against: npt.NDArray[np.uint8] = np.zeros(16, np.uint8)
        """Whether the second class comes before the first by name, for each set."""
        self.lowest: npt.NDArray[np.uint8] = np.zeros(16, np.uint8)
        """The first class by name, for each set."""
        self.labels: list[Any] = []
        """The label of each column."""
        self._columns: dict[Any, int] = {}
        self._by_code: IntArray = np.zeros((0, TWO), np.int64)
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
        columns = [self.column_of(value) for value in values]
        return None if None in columns else Coded(values, np.array(columns, np.int64), place)

    def column_of(self, label: Any) -> int | None:
        """Return the column of a label; None if there are too many labels."""
        column = self.find(label)
        if column is None and len(self._columns) < MOST_COLUMNS:
            column = self._columns[self._name(label)] = len(self._columns)
            self.labels.append(label)
            if column == self.codes.shape[1]:
                wider = np.full_like(self.codes, UNKNOWN)
                self.codes = np.hstack([self.codes, wider])
        return column

    def find(self, label: Any) -> int | None:
        """Return the column of a label that has one."""
        return self._columns.get(self._name(label))

    def _name(self, label: Any) -> Any:
        return (type(label), label) if self._typed else label

    def number_of(self, targets: ClassTargets) -> int:
        """Return the number of a set of classes."""
        named = tuple((type(label), label) for label in targets.labels)  # 1, 1.0 and True are equal
        if named not in self._numbers:
            columns, row = [self.column_of(label) for label in targets.labels], len(self.targets)
            if row == len(self.codes):
                self.codes = np.vstack([self.codes, np.full_like(self.codes, UNKNOWN)])
                self.sizes = np.tile(self.sizes, 2)
                self.against, self.lowest = np.tile(self.against, 2), np.tile(self.lowest, 2)
            for code, column in enumerate(columns):
                if column is not None:
                    self.codes[row, column] = code
            labels: tuple[Any, ...] = targets.labels
            mixed = self._typed and len(set(map(type, labels))) > 1
            self.sizes[row] = TOO_MANY if mixed else len(labels)
            if len(labels) > 1 and not mixed:
                self.against[row] = labels[1] < labels[0]
                self.lowest[row] = labels.index(min(labels))
            self.targets.append(targets)
            self._numbers[named] = row
        return self._numbers[named]

    def grown(self, owners: Any, sets: IntArray, columns: IntArray, new: npt.NDArray[np.bool_]) -> IntArray:
        """Return the set of each row's owner, with the labels that are new to it, up to one class too many.

        ``new`` says which rows have labels that are in no set of their owners yet.
        """
        while new.any():  # each time, every owner gets the first of its new labels
            (rows,) = np.nonzero(new)
            changed, first = np.unique(owners[rows], return_index=True)
            pairs = sets[rows[first]] * MOST_COLUMNS + columns[rows[first]]
            distinct, place = np.unique(pairs, return_inverse=True)
            larger = [
                self._extended(pair // MOST_COLUMNS, self.labels[pair % MOST_COLUMNS]) for pair in distinct.tolist()
            ]
            at = np.searchsorted(changed, owners).clip(max=len(changed) - 1)
            sets = np.where(changed[at] == owners, np.array(larger, np.int64)[place.reshape(-1)][at], sets)
            new = new & (self.codes[sets, columns] == UNKNOWN) & (self.sizes[sets] <= self.most)
        return sets

    def counts(self, sets: IntArray) -> dict[str, npt.NDArray[Any]]:
        """Return what native loops need to know about the classes of keys, by the names of the counts of a key."""
        return {"total": self.sizes[sets], "against": self.against[sets], "lowest": self.lowest[sets]}

    def _extended(self, number: int, label: Any) -> int:
        """Return the set with one more class."""
        known = self.targets[number]
        return self.number_of(ClassTargets((*known.labels, label), limit=known.limit))

    def shortened(self, number: int, count: int) -> int:
        """Return the set with the first ``count`` classes only."""
        known = self.targets[number]
        if count >= len(known.labels):
            return number
        return self.number_of(ClassTargets(known.labels[:count], limit=known.limit))

    def columns_by_code(self) -> IntArray:
        """Return the column of each class of each set, ``UNKNOWN`` where there is none."""
        if len(self._by_code) < len(self.targets):
            rows = [
                [UNKNOWN if (own := self.find(label)) is None else own for label in one.labels] for one in self.targets
            ]
            most = max(TWO, *map(len, rows))
            self._by_code = np.array([row + [UNKNOWN] * (most - len(row)) for row in rows], np.int64)
        return self._by_code

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


LONGEST_LABEL = 100
"""Longer text is left to visits."""
LARGEST_LABEL = 2**53


class Labels:
    """The labels of each slot as codes. A key with an open set of classes has its own set, of one type."""

    def __init__(self, targets: ClassTargets | RegressionTargets) -> None:
        self.regression: bool = isinstance(targets, RegressionTargets)
        self.closed: bool = isinstance(targets, ClassTargets) and targets.closed
        empty = ClassTargets(limit=targets.limit) if isinstance(targets, ClassTargets) else ClassTargets()
        self._sets = LabelSets(empty, typed=True)
        self._first = self._sets.number_of(targets) if isinstance(targets, ClassTargets) and targets.closed else 0
        """The set that a key starts with."""
        self._of = np.zeros(0, np.int64)
        """The set of each slot."""

    def grow(self, slots: int) -> None:
        """Make room for more slots."""
        self._of = np.append(self._of, np.full(slots - len(self._of), self._first))

    @property
    def is_full(self) -> bool:
        """Whether there may be no room for new labels of another key."""
        return not self.closed and len(self._sets.labels) > 0

    def begin(self, slots: IntArray) -> None:
        """Start new keys."""
        self._of[slots] = self._first

    def put(self, slot: int, labels: tuple[Any, ...]) -> bool:
        """Take over the classes of a saved key with an open set; return whether they can be used here."""
        if len(labels) > self._sets.most or UNKNOWN in [self._column(label) for label in labels]:
            return False
        self._of[slot] = self._sets.number_of(ClassTargets(labels, limit=self._sets.targets[0].limit))
        return bool(self._sets.sizes[self._of[slot]] <= self._sets.most)

    def targets_of(self, slot: int) -> ClassTargets:
        """Return the classes of a slot."""
        return self._sets.targets[int(self._of[slot])]

    def counts(self, slots: IntArray) -> dict[str, npt.NDArray[Any]]:
        """Return how many classes each key knows, and what native loops need to know about their order."""
        return self._sets.counts(self._of[slots])

    def _column(self, label: Any) -> int:
        """Return the column of a label; ``UNKNOWN`` for one that cannot be used here."""
        column = None
        if self.closed:
            column = self._sets.find(label)
        elif type(label) in (bool, int, str) and _is_plain(label):
            column = self._sets.column_of(label)
        return UNKNOWN if column is None else column

    def codes(
        self, rows: RowsByKey, order: IntArray, starts: IntArray, slots: IntArray
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
        """Return the code of each row in ``order``, and for each key whether all of its labels have one.

        A row without a label has any code. New labels of keys that have one are remembered.
        """
        group = np.repeat(np.arange(len(slots)), np.diff(starts))
        words = rows.codes[order]
        if self.regression:
            values, good = self._values(rows.words)
            return values[words], _all_of(good[words] | (words == UNKNOWN), group, len(slots))
        columns = np.array([*map(self._column, rows.words), UNKNOWN], np.int64)[words]  # the last one is missing
        sets, usable = self._of[slots][group], columns != UNKNOWN
        if not self.closed and (new := usable & (self._sets.codes[sets, columns] == UNKNOWN)).any():
            sets = self._sets.grown(group, sets, columns, new)
        codes = self._sets.codes[sets, columns]
        found = usable & (codes != UNKNOWN) & (self.closed | (self._sets.sizes[sets] <= self._sets.most))
        readable = _all_of(found | (words == UNKNOWN), group, len(slots))
        changed = readable & (np.diff(starts) > 0)
        self._of[slots[changed]] = sets[starts[:-1][changed]]
        return np.where(found, codes, 0).astype(np.uint8), readable

    def _values(self, words: list[Any]) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
        """Return labels as numbers, and whether they are; behind them stands a label that is missing."""
        good = [type(value) in (int, float) and -LARGEST_VALUE <= value <= LARGEST_VALUE for value in words]
        values = [value if fine else 0.0 for value, fine in zip(words, good, strict=True)]
        return np.array([*values, 0.0], np.float64), np.array([*good, False], np.bool_)

    def predicted(self, work: Call) -> tuple[KeyedPredictions, IntArray, IntArray]:
        """Return the predictions, and for each key how many are wrong and how many were scored."""
        n, (made, scored) = len(work.slots), self._made(work)
        group = np.repeat(np.arange(n), np.diff(work.starts))
        if self.regression:
            values = KeyedPredictions(work.predicted, np.where(made, np.arange(len(group)), UNKNOWN))
            return values, np.zeros(n, np.int64), np.bincount(group[scored], minlength=n)
        columns = self._sets.columns_by_code()[self._of[work.slots][group], work.predicted]
        wrong = scored & (work.predicted != work.codes)
        counted = [np.bincount(group[which], minlength=n) for which in (wrong, scored)]
        return KeyedPredictions(list(self._sets.labels), np.where(made, columns, UNKNOWN)), counted[0], counted[1]

    def _made(self, work: Call) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return which rows were predicted by a model or by named classes, and which of them have a label.

        A row without a label is predicted once its key has had a row with one.
        """
        made = work.labelled | (work.made > 0) if self.closed else work.made & STEPPED > 0
        return made, made & work.labelled

    def deviation(self, work: Call, before: FloatArray) -> FloatArray | None:
        """Return the sums of absolute errors of each key, given those before; None for classes.

        Errors are added one by one, so that rounding does not depend on how rows are spread over calls.
        """
        if not self.regression:
            return None
        (_, scored), group = self._made(work), np.repeat(np.arange(len(work.slots)), np.diff(work.starts))
        totals = before.copy()
        np.add.at(totals, group[scored], np.abs(work.predicted - work.codes)[scored])
        return totals


def _all_of(good: npt.NDArray[np.bool_], group: IntArray, n: int) -> npt.NDArray[np.bool_]:
    """Return for each key whether all of its rows are good."""
    all_good = np.ones(n, np.bool_)
    all_good[group[~good]] = False
    return all_good


def _is_plain(label: Any) -> bool:
    """Return whether arrays hold a label as it is."""
    if isinstance(label, str):
        return len(label) <= LONGEST_LABEL and "\0" not in label
    return bool(-LARGEST_LABEL < label < LARGEST_LABEL)
