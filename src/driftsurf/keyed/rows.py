"""Rows of one key, the rows of many keys in columns, and missing cells filled with the means of a key."""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import DenseRows, FloatArray, IntArray, State
from driftsurf.core.fields import Array, FieldRule, Fields, Json
from driftsurf.errors import InputError, ShapeError
from driftsurf.native.keys import count_rows, lay_out

Slots = npt.NDArray[np.int32]
"""The number of the key of each row."""


def by_slot(slots: Slots, n_slots: int) -> tuple[IntArray, IntArray, Slots]:
    """Group rows by slot, like a stable sort: return the slots with rows, where their rows start, and the rows.

    >>> by_slot(np.array([2, 0, 2], np.int32), 3)
    (array([0, 2]), array([0, 1, 3]), array([1, 0, 2], dtype=int32))
    """
    counts = np.zeros(n_slots, np.int32)
    count_rows(slots, counts)
    few = len(slots) < n_slots // 16  # then sorting them is cheaper than scanning all counts
    touched = np.unique(slots).astype(np.int64) if few else np.flatnonzero(counts)
    starts, order = np.empty(len(touched) + 1, np.int64), np.empty(len(slots), np.int32)
    lay_out(slots, counts, touched, starts, order)
    return touched, starts, order


@dataclass(frozen=True, slots=True, eq=False)
class KeyRows:
    """Rows of one key, in any order.

    Examples
    --------
    >>> import numpy as np
    >>> rows = KeyRows(np.array([20, 10, 30]), np.array([[2.5], [1.5], [np.nan]]), ["no", "yes", None])
    >>> len(rows), rows.take(np.argsort(rows.sequence)).y
    (3, ['yes', 'no', None])
    """

    sequence: IntArray
    """A number, or a time, that grows along the rows of a key. A row that is not above all earlier ones is a
    duplicate."""
    X: FloatArray
    """Features, one row each; a row that brings a late label only is NaN throughout."""
    y: list[Any]
    """Labels, or numbers to predict; None where there is none."""
    ids: list[Any] | None = None
    """Ids by which late labels find their rows."""

    def __post_init__(self) -> None:
        counts = {len(self.sequence), len(self.X), len(self.y)} | ({len(self.ids)} if self.ids is not None else set())
        if len(counts) > 1 or self.X.ndim != 2:
            raise ShapeError(
                f"the sequence, X, y and ids of a key must have the same length, and X two dimensions; the lengths are "
                f"{sorted(counts)}, and X has {self.X.ndim} dimensions"
            )

    def __len__(self) -> int:
        return len(self.y)

    def take(self, places: IntArray) -> KeyRows:
        """Return the rows at these places."""
        chosen = places.tolist()
        ids = None if self.ids is None else [self.ids[i] for i in chosen]
        return KeyRows(self.sequence[places], self.X[places], [self.y[i] for i in chosen], ids)

    def split(self, place: int) -> tuple[KeyRows, KeyRows]:
        """Return the rows before a place, and the rest."""
        return self.take(np.arange(place)), self.take(np.arange(place, len(self)))


def new_rows(rows: KeyRows, high_water: int | None) -> KeyRows:
    """Return the rows above the high-water mark in order; of rows with the same number, the first one that came.

    >>> rows = KeyRows(np.array([3, 1, 2, 2]), np.zeros((4, 1)), ["d", "a", "b", "c"])
    >>> new_rows(rows, high_water=1).y
    ['b', 'd']
    """
    sequence = np.asarray(rows.sequence)
    if sequence.dtype.kind not in "iu":
        raise InputError(
            f"sequence numbers have type {sequence.dtype}; they must be integers, such as counts or milliseconds"
        )
    if _in_order(sequence, high_water):
        return rows
    order = np.argsort(sequence, kind="stable")
    ordered = sequence[order].astype(np.int64)
    new = np.ones(len(ordered), np.bool_)
    new[1:] = ordered[1:] > ordered[:-1]
    if high_water is not None:
        new &= ordered > high_water
    return rows.take(order[new])


def _in_order(sequence: IntArray, high_water: int | None) -> bool:
    """Return whether all rows are new and in order already, which is the usual case."""
    if sequence.dtype != np.int64 or not len(sequence) or (high_water is not None and sequence[0] <= high_water):
        return False
    return int(np.count_nonzero(sequence[1:] > sequence[:-1])) == len(sequence) - 1


class RowsByKey(Mapping[Any, KeyRows]):
    """The rows of many keys, in columns; the rows of one key are made on demand.

    Parameters
    ----------
    names
        The keys, in order.
    starts
        Where the rows of each key start in ``order``, and where the last ones end.
    order
        Places of rows in the columns, key by key.
    sequence, X
        Columns as in :class:`KeyRows`.
    codes
        Labels as places in ``words``, -1 where there is none.
    words
        Labels, each at least once.
    ids
        Ids by which late labels find their rows.

    Examples
    --------
    >>> own = KeyRows(np.array([3, 4]), np.zeros((2, 1)), ["yes", None])
    >>> rows = RowsByKey.of({7: own, 8: own})
    >>> list(rows), rows[8].y, rows.words
    ([7, 8], ['yes', None], ['yes'])
    """

    def __init__(
        self,
        names: Sequence[Any],
        starts: IntArray,
        order: IntArray,
        *,
        sequence: IntArray,
        X: FloatArray,
        codes: IntArray,
        words: Sequence[Any],
        ids: Sequence[Any] | None = None,
    ) -> None:
        self.names: list[Any] = list(names)
        self.starts = starts
        self.order = order
        self.sequence = sequence
        self.X = X
        self.codes = codes
        self.words: list[Any] = list(words)
        self.ids = ids

    @classmethod
    def of(cls, rows: Mapping[Any, KeyRows]) -> Self:
        """Return the rows of keys in columns, in this order of the keys."""
        parts = list(rows.values())
        starts = np.zeros(len(parts) + 1, np.int64)
        np.cumsum([len(own) for own in parts], out=starts[1:])
        place_of: dict[Any, int] = {}  # with their types, since True and 1.0 equal 1
        labels = [label for own in parts for label in own.y]
        codes = [-1 if one is None else place_of.setdefault((type(one), one), len(place_of)) for one in labels]
        ids = [one for own in parts for one in own.ids or ()]
        return cls(
            list(rows),
            starts,
            np.arange(len(labels)),
            sequence=np.concatenate([own.sequence for own in parts]) if parts else np.zeros(0, np.int64),
            X=np.concatenate([own.X for own in parts]) if parts else np.zeros((0, 0)),
            codes=np.array(codes, np.int64),
            words=[word for _, word in place_of],
            ids=ids if any(own.ids is not None for own in parts) else None,
        )

    @functools.cached_property
    def _numbers(self) -> dict[Any, int]:
        return {name: number for number, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.names)

    def __contains__(self, key: object) -> bool:
        return key in self._numbers

    def __getitem__(self, key: Any) -> KeyRows:
        number = self._numbers[key]
        places = self.order[self.starts[number] : self.starts[number + 1]]
        words = [*self.words, None]
        ids = None if self.ids is None else [self.ids[place] for place in places.tolist()]
        return KeyRows(
            self.sequence[places], self.X[places], [words[code] for code in self.codes[places].tolist()], ids
        )

    @property
    def counts(self) -> IntArray:
        """How many rows each key has."""
        return np.diff(self.starts)

    def places_of(self, chosen: IntArray) -> tuple[IntArray, IntArray]:
        """Return the places of the rows of some keys, key by key, and where those of each start."""
        if len(chosen) == len(self):
            return self.order, self.starts
        sizes = self.counts[chosen]
        starts = np.zeros(len(chosen) + 1, np.int64)
        np.cumsum(sizes, out=starts[1:])
        inside = np.arange(starts[-1]) + np.repeat(self.starts[:-1][chosen] - starts[:-1], sizes)
        return self.order[inside], starts

    def are_new(self, chosen: IntArray, high: IntArray) -> npt.NDArray[np.bool_]:
        """Return for some keys whether they have rows, all new and in order; ``high`` are the high-water marks."""
        if self.sequence.dtype != np.int64:
            return np.zeros(len(chosen), np.bool_)
        order, starts = self.places_of(chosen)
        sequence, sizes = self.sequence[order], np.diff(starts)
        grows = np.ones(len(sequence), np.bool_)
        grows[1:] = sequence[1:] > sequence[:-1]
        heads = starts[:-1][sizes > 0]
        grows[heads] = sequence[heads] > high[sizes > 0]
        good = sizes > 0
        if not grows.all():
            good[np.repeat(np.arange(len(chosen)), sizes)[~grows]] = False
        return good

    def only(self, keys: Collection[Any]) -> RowsByKey:
        """Return the rows of some of these keys, in columns of their own."""
        chosen = np.array([number for number, name in enumerate(self.names) if name in keys], np.int64)
        if len(chosen) == len(self):
            return self
        places, starts = self.places_of(chosen)
        return RowsByKey(
            [self.names[number] for number in chosen.tolist()],
            starts,
            np.arange(len(places)),
            sequence=self.sequence[places],
            X=self.X[places],
            codes=self.codes[places],
            words=self.words,
        )

    def state(self) -> State:
        """Return the rows as flat entries, without ids."""
        return {
            "names": json.dumps(self.names),
            "starts": self.starts,
            "order": np.asarray(self.order, np.int64),
            "sequence": self.sequence,
            "X": self.X,
            "codes": np.asarray(self.codes, np.int64),
            "words": json.dumps(self.words),
        }

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Return the rows that ``state()`` was taken from; StateError if they do not fit together."""
        known = FIELDS.read(state)
        return cls(**{name: known[name] for name in FIELDS.entries})


def _plain_list(values: Any) -> list[Any]:
    """Return a list of plain values; ValueError if it is none."""
    if not isinstance(values, list) or not all(isinstance(value, bool | int | float | str) for value in values):
        raise ValueError("it is not a list of plain values")
    return values


FIELDS = Fields(
    {
        "names": Json(_plain_list),
        "words": Json(_plain_list),
        "sequence": Array(np.int64, ("rows",)),
        "X": Array(np.float64, ("rows", "columns"), missing=True),
        "codes": Array(np.int64, ("rows",), least=-1),
        "order": Array(np.int64, ("used",), least=0),
        "starts": Array(np.int64, ("*",), least=0, most="used"),
    },
    rules=[
        FieldRule("names", "must differ", lambda known: len(set(known["names"])) == len(known["names"])),
        FieldRule("codes", "must be places of words", lambda known: (known["codes"] < len(known["words"])).all()),
        FieldRule("order", "must be places of rows", lambda known: (known["order"] < len(known["sequence"])).all()),
        FieldRule("starts", "must be one for each key", lambda known: len(known["starts"]) == len(known["names"]) + 1),
        FieldRule(
            "starts",
            "must grow from 0 to the end of the rows",
            lambda known: (
                known["starts"][0] == 0
                and known["starts"][-1] == len(known["order"])
                and (np.diff(known["starts"]) >= 0).all()
            ),
        ),
    ],
)
"""Saved entries of rows by key: compiled code reads rows at these places."""


@dataclass(frozen=True, slots=True, eq=False)
class ColumnMeans:
    """The mean of each column over the rows that a key has taken.

    Values are added one after the other, so that rounding does not depend on how rows are spread over visits. A column
    without a value so far, or with values too large to be added, has the mean 0.
    """

    totals: FloatArray
    """The number of values of each column, and their sum: shape (2, columns)."""

    @classmethod
    def empty(cls, columns: int) -> Self:
        """Return the means of a key without rows."""
        return cls(np.zeros((2, columns)))

    def filled(self, X: DenseRows) -> DenseRows:
        """Return rows whose gaps are filled with the mean of all values before each row, those of ``X`` included."""
        gaps = np.isnan(X)
        return np.where(gaps, _means(self._after_each(X)[:-1]), X) if gaps.any() else X

    def filled_alike(self, X: DenseRows) -> DenseRows:
        """Return rows in which each gap is filled with the mean as it is now."""
        return np.where(np.isnan(X), _means(self.totals), X)

    def fill_as_they_come(self, rows: KeyRows, *, late: bool) -> KeyRows:
        """Fill each gap with the mean of all values before its row, those of ``rows`` included."""
        gaps = find_gaps(rows, late=late)
        if not gaps.any():
            return rows
        return _filled(rows, gaps, _means(self._after_each(rows.X)[:-1]))

    def fill(self, rows: KeyRows, *, late: bool) -> KeyRows:
        """Fill each gap with the mean as it is now; rows that are not learned do not change the means."""
        gaps = find_gaps(rows, late=late)
        return _filled(rows, gaps, _means(self.totals)) if gaps.any() else rows

    def after(self, X: DenseRows) -> ColumnMeans:
        """Return the means after these rows; values that are not finite are left out."""
        return ColumnMeans(self._after_each(X)[-1])

    def _after_each(self, X: DenseRows) -> FloatArray:
        """Return the totals before the first row and after each row: shape (rows + 1, 2, columns)."""
        totals = np.empty((len(X) + 1, *self.totals.shape))
        totals[0] = self.totals
        totals[1:, 0] = there = np.isfinite(X)
        totals[1:, 1] = X if there.all() else np.where(there, X, 0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.cumsum(totals, axis=0, out=totals)


def find_gaps(rows: KeyRows, *, late: bool) -> npt.NDArray[np.bool_]:
    """Return which cells have no value. With late labels, a row with a label and no values at all has no gaps."""
    gaps = np.isnan(rows.X)
    if late and gaps.any():
        labelled = np.array([label is not None for label in rows.y])
        gaps[gaps.all(axis=1) & labelled] = False
    return gaps


def _means(totals: FloatArray) -> FloatArray:
    counts, sums = totals[..., 0, :], totals[..., 1, :]
    with np.errstate(invalid="ignore"):
        means = sums / np.maximum(counts, 1.0)
    return np.where(np.isfinite(means), means, 0.0)


def _filled(rows: KeyRows, gaps: npt.NDArray[np.bool_], means: FloatArray) -> KeyRows:
    """Return the rows with these means in place of gaps."""
    return replace(rows, X=np.where(gaps, means, rows.X))
