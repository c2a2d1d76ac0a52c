"""The scored predictions of a keyed run, key by key, and the errors of trivial rules on the same rows."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import IntArray
from driftsurf.keyed.folder import KeyedFolder, arrow

__all__ = ["KeyOutcomes", "KeyScore", "Outcomes"]

DATES = 10**14, 4_102_444_800_000_000
"""Sequence numbers between these are shown as dates: microseconds from March 1973 to the end of 2099."""
NOTHING = -1
"""The code of a class that is not known."""


class KeyOutcomes(NamedTuple):
    """The rows of one key whose true label is known, in the order in which their labels came."""

    sequence: IntArray
    predicted: npt.NDArray[Any]
    """Codes of classes, ``NOTHING`` without a prediction; for regression numbers, NaN without a prediction."""
    true: npt.NDArray[Any]


class KeyScore(NamedTuple):
    """The error of a key's model beside those of trivial rules, on the same rows.

    Errors are means over rows: the share of wrong rows, or the absolute error. The rules predict for one key at a time,
    from its own earlier rows.
    """

    rows: int
    """Rows that the model predicted and whose label is known."""
    learned: int
    """Those of them that came after the key's first time step, so that its model had learned something."""
    model: float
    constant: float
    """The error of *majority* (for numbers *mean*): in each time step it predicts the class that was most frequent, or
    the mean label, in the rows before it; in the first time step it predicts what the model did."""
    persistence: float
    """The error of repeating the label of the row before. The first row counts as wrong, if it was scored."""

    @property
    def trivial(self) -> float:
        """The error of the better one of the two rules."""
        return min(self.constant, self.persistence)

    @property
    def no_better(self) -> bool:
        """Whether the model has learned, and is still no better than one of the rules."""
        return self.learned > 0 and self.model >= self.trivial


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The rows of all keys whose true label is known, read from the table of predictions.

    They do not depend on the engine: keys are in order, and the rows of a key are in the order in which it saw them.
    """

    keys: tuple[Any, ...]
    """The keys in order."""
    labels: tuple[Any, ...]
    """The classes: those that the run was given, then others in order. Empty for regression."""
    batch_size: int | None
    """Rows of a key that make a time step; None for the rows of each epoch."""
    regression: bool
    key: IntArray
    """The place of the key of each row in ``keys``; it never falls."""
    epoch: IntArray
    sequence: IntArray
    predicted: npt.NDArray[Any]
    true: npt.NDArray[Any]
    first: int | None
    """The smallest sequence number of all rows, also of those without a label."""
    last: int | None

    @classmethod
    def read(cls, folder: KeyedFolder, *, regression: bool) -> Self:
        """Read the complete epochs of a run."""
        about = folder.about().get("learner", {})
        keys, labels = dict[Any, int](), dict[Any, int]()
        kinds = (float, float) if regression else (labels, labels)
        columns: list[list[npt.NDArray[Any]]] = [[], [], [], [], []]
        ends = list[int]()
        for epoch, part in _parts(folder):
            found = [_codes(part["key"], keys), np.full(len(part), epoch), part["sequence"].to_numpy()]
            found += [_cells(part[name], kind) for name, kind in zip(("prediction", "true"), kinds, strict=True)]
            ends += [int(found[2].min()), int(found[2].max())] if len(part) else []
            known = _is_known(found[4])
            for column, values in zip(columns, found, strict=True):
                column.append(values[known])
        key, epochs, sequence, predicted, true = (
            np.concatenate([*column, np.zeros(0, np.int64)]) for column in columns
        )
        if regression:
            predicted, true = predicted.astype(np.float64), true.astype(np.float64)
        key_names, places = _ranked(keys, ())
        label_names, codes = _ranked(labels, about.get("classes") or ())
        key = places[key]
        order = np.lexsort((sequence, epochs, key))
        if not regression:
            predicted, true = codes[predicted], codes[true]
        return cls(
            keys=key_names,
            labels=() if regression else tuple(map(_plain, label_names)),
            batch_size=about.get("batch_size"),
            regression=regression,
            key=key[order],
            epoch=epochs[order],
            sequence=sequence[order],
            predicted=predicted[order],
            true=true[order],
            first=min(ends, default=None),
            last=max(ends, default=None),
        )

    @property
    def dates(self) -> bool:
        """Whether sequence numbers are dates, as microseconds."""
        return self.first is not None and self.last is not None and DATES[0] < self.first <= self.last < DATES[1]

    @functools.cached_property
    def _places(self) -> dict[Any, int]:
        return {key: place for place, key in enumerate(self.keys)}

    def of(self, key: Any) -> KeyOutcomes:
        """Return the rows of one key; none if it is not known."""
        place = self._places.get(key, len(self.keys))
        start, stop = np.searchsorted(self.key, (place, place + 1))
        return KeyOutcomes(self.sequence[start:stop], self.predicted[start:stop], self.true[start:stop])

    def scores(self) -> dict[Any, KeyScore]:
        """Return the errors of each key of which at least one row was scored."""
        scored = np.flatnonzero(_is_known(self.predicted))
        key, n_keys = self.key[scored], len(self.keys)
        step, first_step = self._steps()

        def means(guess: npt.NDArray[Any]) -> list[float]:
            sums = np.bincount(key, weights=self._errors(guess)[scored], minlength=n_keys)
            return [total / max(count, 1) for total, count in zip(sums.tolist(), rows, strict=True)]

        rows = np.bincount(key, minlength=n_keys).tolist()
        learned = np.bincount(key[~first_step[step[scored]]], minlength=n_keys).tolist()
        columns = rows, learned, means(self.predicted), means(self._constant(step, first_step)), means(self._previous())
        found = zip(self.keys, *columns, strict=True)
        return {key: KeyScore(count, *more) for key, count, *more in found if count}

    def errors_in_order(self) -> npt.NDArray[np.float64]:
        """Return the errors of all scored rows of all keys, in the order of their sequence numbers."""
        scored = np.flatnonzero(_is_known(self.predicted))
        order = scored[np.argsort(self.sequence[scored], kind="stable")]
        found: npt.NDArray[np.float64] = self._errors(self.predicted)[order]
        return found

    def _errors(self, guess: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        errors = np.abs(guess - self.true) if self.regression else guess != self.true
        return np.asarray(errors, np.float64)

    def _is_first(self) -> npt.NDArray[np.bool_]:
        """Return which rows are the first ones of their keys."""
        return np.append(True, self.key[1:] != self.key[:-1])[: len(self.key)]

    def _previous(self) -> npt.NDArray[Any]:
        """Return the label of the row before of the same key; for a first row a wrong class, or what was predicted."""
        at_first = self.predicted if self.regression else np.full(len(self.true), NOTHING)
        return np.where(self._is_first(), at_first, np.roll(self.true, 1))

    def _steps(self) -> tuple[IntArray, npt.NDArray[np.bool_]]:
        """Return the number of the time step of each row, over all keys, and which steps are the first of a key."""
        first, rows = self._is_first(), np.arange(len(self.key))
        starts = np.flatnonzero(first)
        since = rows - np.repeat(starts, np.diff(np.append(starts, len(rows))))
        step = self.epoch if self.batch_size is None else since // self.batch_size
        new = first | np.append(True, step[1:] != step[:-1])[: len(rows)]
        return np.cumsum(new) - 1, first[new]

    def _constant(self, step: IntArray, first_step: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
        """Return for each row the most frequent class, or the mean, of the key's rows before its time step."""
        if self.regression:
            starts = np.flatnonzero(np.append(True, step[1:] != step[:-1])[: len(step)])
            sums = np.add.reduceat(self.true, starts) if len(starts) else self.true
            guess: npt.NDArray[Any] = _means_before(sums, np.bincount(step), first_step)
        else:
            guess = _majority_before(step, self.true, first_step, len(self.labels))
        return np.where(first_step[step], self.predicted, guess[step])


def _parts(folder: KeyedFolder) -> Iterator[tuple[int, Any]]:
    """Yield the parts of the table of predictions, with their epochs."""
    parquet, names = arrow("pyarrow.parquet"), ["key", "sequence", "prediction", "true"]
    for epoch in folder.epochs():
        for path in sorted(folder.part("predictions", epoch).glob("*.parquet")):
            yield epoch, parquet.ParquetFile(path).read(columns=names)


def _cells(column: Any, kind: Any) -> npt.NDArray[Any]:
    """Return labels as numbers, or as the codes of classes."""
    if kind is not float:
        return _codes(column, kind)
    return np.asarray(column.cast("float64").to_numpy(zero_copy_only=False), np.float64)


def _codes(column: Any, known: dict[Any, int]) -> IntArray:
    """Return a code for each value, ``NOTHING`` for a missing one; new values are added to ``known``."""
    encoded = column.combine_chunks().dictionary_encode()
    names = encoded.dictionary.to_pylist()
    codes = np.array([*(known.setdefault(name, len(known)) for name in names), NOTHING], np.int64)
    found: IntArray = codes[encoded.indices.fill_null(len(names)).to_numpy(zero_copy_only=False)]
    return found


def _ranked(codes: dict[Any, int], given: Iterable[Any]) -> tuple[tuple[Any, ...], IntArray]:
    """Return the values in order, ``given`` ones first, and the place of each code; the last one is ``NOTHING``."""
    first = [value for value in given if value in codes]
    ordered = [*first, *sorted((value for value in codes if value not in first), key=_order)]
    places = np.full(len(codes) + 1, NOTHING, np.int64)
    for place, value in enumerate(ordered):
        places[codes[value]] = place
    return tuple(ordered), places


def _plain(label: Any) -> Any:
    """Return a class as people write it: classes that are whole numbers are stored as floats."""
    return int(label) if isinstance(label, float) and label.is_integer() else label


def _order(value: Any) -> tuple[bool, Any]:
    return isinstance(value, str), value


def _is_known(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    return np.asarray(~np.isnan(values) if values.dtype.kind == "f" else values != NOTHING, np.bool_)


def _majority_before(step: IntArray, true: IntArray, restart: npt.NDArray[np.bool_], n_labels: int) -> IntArray:
    """Return the most frequent class before each time step; ``restart`` marks the first one of each key."""
    n_steps = len(restart)
    best, most = np.zeros(n_steps, np.int64), np.full(n_steps, -1, np.int64)
    base = np.flatnonzero(restart)[np.cumsum(restart) - 1]
    for label in range(n_labels):
        counts = np.bincount(step[true == label], minlength=n_steps)
        total = np.append(0, counts.cumsum())[:-1]
        before = total - total[base]
        best, most = np.where(before > most, label, best), np.maximum(before, most)
    return best


def _means_before(
    sums: npt.NDArray[np.float64], counts: IntArray, restart: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float64]:
    """Return the mean before each time step; totals of a key do not depend on other keys."""
    means, total, count = np.zeros(len(sums)), 0.0, 0
    rows = zip(sums.tolist(), counts.tolist(), restart.tolist(), strict=True)
    for place, (own, rows_of_it, starts) in enumerate(rows):
        total, count = (0.0, 0) if starts else (total, count)
        means[place] = total / count if count else 0.0
        total, count = total + own, count + rows_of_it
    return means
