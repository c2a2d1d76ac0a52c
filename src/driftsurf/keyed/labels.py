"""The labels of keys as codes: sets of classes that keys share, and the labels of open keys."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray, IntArray, State
from driftsurf.core.targets import LARGEST_VALUE, ClassTargets, label_array
from driftsurf.errors import InputError
from driftsurf.keyed.results import KeyedPredictions
from driftsurf.keyed.rows import RowsByKey
from driftsurf.keyed.visit import KeyedLearner

if TYPE_CHECKING:
    from driftsurf.keyed.open_cells import Call

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


LONGEST_LABEL = 100
"""Longer text is left to visits."""
LARGEST_LABEL = 2**53
NOTHING = -1
"""Code of a label that is not known, or of a prediction that was not made."""


class Labels:
    """The labels of each slot as codes. A key with an open set of classes has its own codes, in order of appearance."""

    def __init__(self, learner: KeyedLearner) -> None:
        targets = learner.session(0).targets
        self.regression: bool = learner.regression
        self._targets = targets
        self.closed: bool = isinstance(targets, ClassTargets) and targets.closed
        self._kind: type | None = None
        self._names: list[Any] = []
        """Labels by their number; all have the same type."""
        self._numbers: dict[Any, int] = {}
        self._texts: dict[tuple[int, ...], Any] = {}
        """Saved texts of labels, by their numbers."""
        self._own = np.zeros((0, 2), np.int64)
        """For each slot, the numbers of its labels by code; NOTHING where there is none."""
        if self.closed:
            self._number_all(targets.labels)

    def grow(self, slots: int) -> None:
        """Make room for more slots."""
        more = np.full((slots - len(self._own), 2), NOTHING, np.int64)
        self._own = np.concatenate([self._own, more])

    def begin(self, slots: IntArray) -> int:
        """Start new keys; return the number of classes that they know."""
        self._own[slots] = np.arange(2) if self.closed else NOTHING
        return 2 if self.closed else 0

    def restore(self, slot: int, targets: Any) -> bool:
        """Take over the labels of a saved key; return whether they can be used here."""
        if self.regression:
            return True
        if self.closed:
            self._own[slot] = np.arange(2)
            return bool(targets == self._targets)
        known = targets.labels
        if len(known) > 2 or len({type(label) for label in known}) > 1 or not self._number_all(known):
            return False
        self._own[slot] = NOTHING
        self._own[slot, : len(known)] = [self._numbers[label] for label in known]
        return True

    def _number_all(self, labels: Iterable[Any]) -> bool:
        """Give numbers to labels; return whether all of them can be used here."""
        for label in labels:
            if self._kind is None and type(label) in (bool, int, str):
                self._kind = type(label)
            if type(label) is not self._kind or not _is_plain(label):
                return False
            if label not in self._numbers:
                self._numbers[label] = len(self._names)
                self._names.append(label)
        return True

    def of(self, slot: int) -> list[Any]:
        """Return the labels of a slot by code; None where there is none."""
        return [None if number == NOTHING else self._names[number] for number in self._own[slot].tolist()]

    def state(self, slot: int, known: int) -> State:
        """Return the saved entries of the labels of a key."""
        if self.regression or self.closed:
            return {}
        numbers = tuple(self._own[slot, :known].tolist())
        if numbers not in self._texts:
            labels = tuple(self._names[number] for number in numbers)
            self._texts[numbers] = ClassTargets(labels).state()["labels"]
        return {"classes.labels": self._texts[numbers]}

    def codes(
        self, rows: RowsByKey, order: IntArray, starts: IntArray, slots: IntArray
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
        """Return the code of each row in ``order``, and for each key whether all of its labels have one.

        New labels of keys that have one are remembered.
        """
        group = np.repeat(np.arange(len(slots)), np.diff(starts))
        words = rows.codes[order]
        if self.regression:
            values, good = self._values(rows.words)
            return values[words], _all_of(good[words], group, len(slots))
        numbers = self._numbered(rows.words)[words]
        own = self._own[slots]
        if not self.closed:
            known = numbers != NOTHING
            for code in range(2):  # the first number of a key that is none of its labels is its next label
                strange = known & (numbers != own[group, 0]) & (numbers != own[group, 1])
                new, place = np.unique(group[strange], return_index=True)
                missing = own[new, code] == NOTHING
                own[new[missing], code] = numbers[strange][place[missing]]
        second = numbers == own[group, 1]
        found = (second | (numbers == own[group, 0])) & (numbers != NOTHING)
        readable = _all_of(found, group, len(slots))
        self._own[slots[readable]] = own[readable]
        return second.view(np.uint8), readable

    def _values(self, words: list[Any]) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
        """Return labels as numbers, and whether they are; behind them stands a label that is missing."""
        good = [type(value) in (int, float) and -LARGEST_VALUE <= value <= LARGEST_VALUE for value in words]
        values = [value if fine else 0.0 for value, fine in zip(words, good, strict=True)]
        return np.array([*values, 0.0], np.float64), np.array([*good, False], np.bool_)

    def _numbered(self, words: list[Any]) -> IntArray:
        """Return the number of each label, NOTHING for one that cannot be used here; the last one is missing."""
        if not self.closed:
            for label in words:
                self._number_all([label])
        get = self._numbers.get
        usable = [get(label, NOTHING) if type(label) is self._kind else NOTHING for label in words]
        return np.array([*usable, NOTHING], np.int64)

    def predicted(self, work: Call) -> tuple[KeyedPredictions, IntArray, IntArray]:
        """Return the predictions, and for each key how many are wrong and how many were scored."""
        n = len(work.slots)
        group = np.repeat(np.arange(n), np.diff(work.starts))
        if self.regression:
            values = KeyedPredictions(work.predicted, np.where(work.made, np.arange(len(group)), NOTHING))
            return values, np.zeros(n, np.int64), np.bincount(group[work.made], minlength=n)
        made = np.full(len(group), True) if self.closed else work.made
        numbers = np.where(made, self._own[work.slots][group, work.predicted], NOTHING)
        counted = [np.bincount(group[which], minlength=n) for which in (made & (work.predicted != work.codes), made)]
        return KeyedPredictions(list(self._names), numbers), counted[0], counted[1]

    def deviation(self, work: Call, before: FloatArray) -> FloatArray | None:
        """Return the sums of absolute errors of each key, given those before; None for classes.

        Errors are added one by one, so that rounding does not depend on how rows are spread over calls.
        """
        if not self.regression:
            return None
        made, group = work.made, np.repeat(np.arange(len(work.slots)), np.diff(work.starts))
        totals = before.copy()
        np.add.at(totals, group[made], np.abs(work.predicted - work.codes)[made])
        return totals

    def counts(self, slots: IntArray) -> tuple[IntArray, npt.NDArray[np.bool_]]:
        """Return how many labels each key has, and whether the order of its codes is the reverse of that of labels."""
        own, rank = self._own[slots], np.zeros(len(self._names) + 1, np.int64)
        rank[sorted(range(len(self._names)), key=self._names.__getitem__)] = np.arange(len(self._names))
        second = own[:, 1] != NOTHING
        return (own != NOTHING).sum(axis=1), second & (rank[own[:, 0]] > rank[own[:, 1]])


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
