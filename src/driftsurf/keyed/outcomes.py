"""The scored predictions of a keyed run, key by key, and the errors of trivial rules on the same rows.

The table of predictions is read part by part: memory holds one part of it, and a few numbers for each key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import IntArray
from driftsurf.keyed.folder import KeyedFolder
from driftsurf.keyed.rules import NOTHING, KeyScore, RunningScores, is_known

__all__ = ["KeyOutcomes", "Outcomes"]

COLUMNS = "key", "sequence", "prediction", "true"
DATES = 10**14, 4_102_444_800_000_000
"""Sequence numbers between these are shown as dates: microseconds from March 1973 to the end of 2099."""


class KeyOutcomes(NamedTuple):
    """The rows of one key whose true label is known, in the order in which their labels came."""

    sequence: IntArray
    predicted: npt.NDArray[Any]
    """Codes of classes, ``NOTHING`` without a prediction; for regression numbers, NaN without a prediction."""
    true: npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Outcomes:
    """How the predictions of a run turned out.

    This does not depend on the engine: keys are in order, and the rows of a key are taken in the order in which it saw
    them.
    """

    folder: KeyedFolder
    labels: tuple[Any, ...]
    """The classes: those that the run was given, then others in order. Empty for regression."""
    batch_size: int | None
    """Rows of a key that make a time step; None for the rows of each epoch."""
    regression: bool
    late: bool
    """Whether labels may come later than their rows."""
    scores: dict[Any, KeyScore]
    """The errors of each key of which at least one row was scored."""
    first: int | None
    """The smallest sequence number of all rows, also of those without a label."""
    last: int | None

    @classmethod
    def read(cls, folder: KeyedFolder) -> Self:
        """Read the complete epochs of a run."""
        about, regression = folder.about().get("learner", {}), folder.regression
        given, batch_size = tuple(about.get("classes") or ()), about.get("batch_size")
        keys, labels, ends = dict[Any, int](), dict[Any, int](), list[int]()
        running = RunningScores(batch_size, regression)
        for epoch, part in folder.parts("predictions", COLUMNS):
            key, sequence = _codes(part["key"], keys), part["sequence"].to_numpy()
            predicted, true = (_cells(part[name], None if regression else labels) for name in COLUMNS[2:])
            if len(sequence):
                ends = [min([*ends, int(sequence.min())]), max([*ends, int(sequence.max())])]
            known, ranked = is_known(true), [labels[label] for label in _ranked(labels, given)]
            running.add(epoch, key[known], sequence[known], predicted[known], true[known], len(keys), ranked)
        found = {key: running.score(keys[key]) for key in _ranked(keys, ())}
        return cls(
            folder=folder,
            labels=tuple(_plain(label) for label in _ranked(labels, given)),
            batch_size=batch_size,
            regression=regression,
            late=about.get("delay") is not None,
            scores={key: score for key, score in found.items() if score.rows},
            first=ends[0] if ends else None,
            last=ends[-1] if ends else None,
        )

    @property
    def dates(self) -> bool:
        """Whether sequence numbers are dates, as microseconds."""
        return self.first is not None and self.last is not None and DATES[0] < self.first <= self.last < DATES[1]

    def of(self, keys: Collection[Any]) -> dict[Any, KeyOutcomes]:
        """Return the rows of these keys; none for a key that is not known."""
        kind = np.float64 if self.regression else np.int64
        found = {key: [(np.zeros(0, np.int64), np.zeros(0, kind), np.zeros(0, kind))] for key in keys}
        for _, part in self.folder.parts("predictions", COLUMNS, keys=keys):
            names = dict[Any, int]()
            key, sequence = _codes(part["key"], names), part["sequence"].to_numpy()
            predicted, true = self._labels(part)
            for name, code in names.items():
                own = np.flatnonzero(is_known(true) & (key == code))
                own = own[np.argsort(sequence[own], kind="stable")]
                found[name].append((sequence[own], predicted[own], true[own]))
        return {
            key: KeyOutcomes(*(np.concatenate(column) for column in zip(*rows, strict=True)))
            for key, rows in found.items()
        }

    def curve(self, points: int) -> list[float]:
        """Return mean errors over time, of all keys together, in at most so many equal spans of the sequence."""
        if self.first is None or self.last is None:
            return []
        errors, rows = np.zeros(points), np.zeros(points, np.int64)
        for _, part in self.folder.parts("predictions", COLUMNS):
            predicted, true = self._labels(part)
            scored = is_known(predicted) & is_known(true)
            after = part["sequence"].to_numpy()[scored] - self.first
            place = (after * (points / (self.last - self.first + 1))).astype(np.int64)
            place = np.minimum(place, points - 1)  # the product of the last row may be rounded up
            wrong = np.abs(predicted - true) if self.regression else predicted != true
            np.add.at(errors, place, wrong[scored])
            np.add.at(rows, place, 1)
        return [error / count for error, count in zip(errors.tolist(), rows.tolist(), strict=True) if count]

    def _labels(self, part: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return the predictions and the true labels of a part: numbers, or codes of classes."""
        codes = None if self.regression else {label: code for code, label in enumerate(self.labels)}
        return _cells(part["prediction"], codes), _cells(part["true"], codes)


def _cells(column: Any, labels: dict[Any, int] | None) -> npt.NDArray[Any]:
    """Return labels as the codes of classes; as numbers, if there are no ``labels``."""
    if labels is not None:
        return _codes(column, labels)
    return np.asarray(column.cast("float64").to_numpy(zero_copy_only=False), np.float64)


def _codes(column: Any, known: dict[Any, int]) -> IntArray:
    """Return a code for each value, ``NOTHING`` for a missing one; new values are added to ``known``."""
    encoded = column.combine_chunks().dictionary_encode()
    names = encoded.dictionary.to_pylist()
    codes = np.array([*(known.setdefault(name, len(known)) for name in names), NOTHING], np.int64)
    found: IntArray = codes[encoded.indices.fill_null(len(names)).to_numpy(zero_copy_only=False)]
    return found


def _ranked(values: Collection[Any], given: Iterable[Any]) -> list[Any]:
    """Return values in order, ``given`` ones first."""
    first = [value for value in given if value in values]
    return [*first, *sorted((value for value in values if value not in first), key=_order)]


def _plain(label: Any) -> Any:
    """Return a class as people write it: classes that are whole numbers are stored as floats."""
    return int(label) if isinstance(label, float) and label.is_integer() else label


def _order(value: Any) -> tuple[bool, Any]:
    return isinstance(value, str), value
