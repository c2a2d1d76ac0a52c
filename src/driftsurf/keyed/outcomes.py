"""The scored predictions of a keyed run, key by key, and the errors of trivial rules on the same rows.

The table of predictions is read part by part: memory holds one part of it, and a few numbers for each key.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray, IntArray
from driftsurf.core.drifts import DRIFT_RISK, SMALLEST_RISE, Drifts
from driftsurf.core.options import number
from driftsurf.core.wording import HARDLY_BETTER
from driftsurf.keyed.drifts import LEAST_ROWS, JudgedRows, KeyDrifts, RunningDrifts, drifts_of_key, replaced_rows
from driftsurf.keyed.folder import KeyedFolder

NOTHING = -1
"""The code of a class that is not known."""


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
    """The error of repeating, in each time step, the last label before it; in the first one as *majority*."""

    @property
    def trivial(self) -> float:
        """The error of the better one of the two rules."""
        return min(self.constant, self.persistence)

    @property
    def no_better(self) -> bool:
        """Whether the model has learned, makes errors, and is no better, or hardly better, than one of the rules."""
        return self.learned > 0 and self.model > 0.0 and self.model >= HARDLY_BETTER * self.trivial


def is_known(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which labels are known: numbers that are not NaN, or codes of classes."""
    return np.asarray(~np.isnan(values) if values.dtype.kind == "f" else values != NOTHING, np.bool_)


class _Steps(NamedTuple):
    """The time steps to which the rows of a part belong. Rows are sorted by key; a step may have begun before."""

    step: IntArray
    """The step of each row."""
    key: IntArray
    """The key of each step."""
    begins: IntArray
    """The first row of each step in this part."""
    before: IntArray
    """Rows of the key before each step."""
    opened: npt.NDArray[np.bool_]
    """Whether the step began in an earlier part."""
    heads: npt.NDArray[np.bool_]
    """Whether it is the first step of its key in this part."""


class RunningScores:
    """Adds up the errors of each key over the parts of a table of predictions.

    Sums do not depend on how the rows of a key are spread over parts, not even in their last digits.

    Parameters
    ----------
    batch_size
        Rows of a key that make a time step; None for the rows of each epoch.
    regression
        Whether labels are numbers; else they are codes of classes.
    """

    def __init__(self, batch_size: int | None, regression: bool) -> None:
        self.batch_size = batch_size
        self.regression = regression
        self._counted: dict[str, IntArray] = {
            name: np.zeros(0, np.int64) for name in ("rows", "begun", "epoch", "scored", "learned", "guess")
        }
        """For each key: labelled rows, those before its last time step, the last epoch, rows that were scored, those
        of them that came after the first time step, and the most frequent class before the last time step."""
        self._summed: dict[str, FloatArray] = {
            name: np.zeros(0) for name in ("model", "constant", "persistence", "last", "before", "total", "open")
        }
        """For each key: the three errors, the last label and that before the last time step, and for numbers the sums
        of the labels before the last time step and in it."""
        self._classes = np.zeros((0, 0), np.int64)
        """How often each key had each class."""

    def score(self, key: int) -> KeyScore:
        """Return the errors of a key, by its code."""
        if key >= len(self._counted["scored"]):
            return KeyScore(0, 0, 0.0, 0.0, 0.0)
        rows, learned = (int(self._counted[name][key]) for name in ("scored", "learned"))
        errors = (float(self._summed[name][key]) / max(rows, 1) for name in ("model", "constant", "persistence"))
        return KeyScore(rows, learned, *errors)

    def add(
        self,
        epoch: int,
        key: IntArray,
        sequence: IntArray,
        predicted: npt.NDArray[Any],
        true: npt.NDArray[Any],
        n_keys: int,
        classes: Sequence[int],
    ) -> None:
        """Add the labelled rows of a part: codes of keys (below ``n_keys``), and numbers or codes of classes.

        ``classes`` has all codes of classes so far, in the order in which ties are decided.
        """
        order = np.lexsort((sequence, key))
        key, predicted, true = key[order], predicted[order], true[order]
        if not len(key):
            return
        self._grow(n_keys, len(classes))
        counted, summed = self._counted, self._summed
        steps = self._steps(epoch, key)
        ends = np.flatnonzero(np.append(key[1:] != key[:-1], True))
        own = key[ends]
        guess = self._means(steps, true) if self.regression else self._majorities(steps, true, classes)
        first_step = (steps.before == 0)[steps.step]
        last = self._last_labels(steps, true).astype(true.dtype)
        constant, previous = (np.where(first_step, predicted, made[steps.step]) for made in (guess, last))
        scored = np.flatnonzero(is_known(predicted))
        for name, made in (("model", predicted), ("constant", constant), ("persistence", previous)):
            errors = np.abs(made - true) if self.regression else made != true
            np.add.at(summed[name], key[scored], errors[scored])
        np.add.at(counted["scored"], key[scored], 1)
        np.add.at(counted["learned"], key[scored], ~first_step[scored])
        counted["rows"][own] += np.diff(np.append(-1, ends))
        counted["epoch"][own] = epoch
        counted["begun"][own] = steps.before[steps.step[ends]]
        summed["last"][own] = true[ends]

    def _grow(self, n_keys: int, n_classes: int) -> None:
        """Make room for new keys and classes, for more keys than needed so that this is rare."""
        room = len(self._counted["rows"])
        if n_keys > room:
            more = 2 * n_keys - room
            self._counted = {name: np.append(old, np.zeros(more, np.int64)) for name, old in self._counted.items()}
            self._summed = {name: np.append(old, np.zeros(more)) for name, old in self._summed.items()}
        wanted = (len(self._counted["rows"]), max(n_classes, self._classes.shape[1]))
        if not self.regression and wanted != self._classes.shape:
            grown = np.zeros(wanted, np.int64)
            grown[: self._classes.shape[0], : self._classes.shape[1]] = self._classes
            self._classes = grown

    def _steps(self, epoch: int, key: IntArray) -> _Steps:
        """Return the time steps of rows that are sorted by key."""
        head = np.append(True, key[1:] != key[:-1])
        starts = np.flatnonzero(head)
        earlier = np.repeat(self._counted["rows"][key[starts]], np.diff(np.append(starts, len(key))))
        position = earlier + np.arange(len(key)) - np.repeat(starts, np.diff(np.append(starts, len(key))))
        if self.batch_size is None:
            goes_on = (earlier > 0) & (self._counted["epoch"][key] == epoch)
            before = np.where(goes_on, self._counted["begun"][key], earlier)
        else:
            before = position - position % self.batch_size
        new = head | np.append(True, before[1:] != before[:-1])
        begins = np.flatnonzero(new)
        opened = head[begins] & (before[begins] < position[begins])
        return _Steps(np.cumsum(new) - 1, key[begins], begins, before[begins], opened, head[begins])

    def _majorities(self, steps: _Steps, true: IntArray, classes: Sequence[int]) -> IntArray:
        """Return the class that was most frequent before each time step."""
        n_steps = len(steps.key)
        best, most = np.zeros(n_steps, np.int64), np.full(n_steps, -1, np.int64)
        base = np.flatnonzero(steps.heads)[np.cumsum(steps.heads) - 1]
        for label in classes:
            total = np.append(0, np.bincount(steps.step[true == label], minlength=n_steps).cumsum())[:-1]
            seen = total - total[base] + self._classes[steps.key, label]
            best, most = np.where(seen > most, label, best), np.maximum(seen, most)
        best = np.where(steps.opened, self._counted["guess"][steps.key], best)
        self._counted["guess"][steps.key] = best  # the last step of a key comes last, and stays
        np.add.at(self._classes, (steps.key[steps.step], true), 1)
        return best

    def _last_labels(self, steps: _Steps, true: npt.NDArray[Any]) -> FloatArray:
        """Return the last label before each time step."""
        summed = self._summed
        last = np.where(steps.heads, summed["last"][steps.key], true[steps.begins - 1])
        last = np.where(steps.opened, summed["before"][steps.key], last)
        summed["before"][steps.key] = last  # the last step of a key comes last, and stays
        return np.asarray(last, np.float64)

    def _means(self, steps: _Steps, true: FloatArray) -> FloatArray:
        """Return the mean label before each time step."""
        total, opened = self._summed["total"], self._summed["open"]
        sums = np.where(steps.opened, opened[steps.key], 0.0)
        np.add.at(sums, steps.step, true)
        means = np.zeros(len(sums))
        rows = zip(steps.key.tolist(), steps.before.tolist(), steps.opened.tolist(), sums.tolist(), strict=True)
        for place, (key, before, goes_on, own) in enumerate(rows):
            if not goes_on:
                total[key] += opened[key]
            opened[key] = own
            means[place] = total[key] / before if before else 0.0
        return means


COLUMNS = "key", "sequence", "prediction", "true"
GROUP_ROWS = 2_000_000
"""Rows of keys that are in memory at a time."""
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
    drifts: KeyDrifts
    """The drifts of all keys."""

    @classmethod
    def read(cls, folder: KeyedFolder, *, smallest_rise: float = SMALLEST_RISE, drift_risk: float = DRIFT_RISK) -> Self:
        """Read the complete epochs of a run; ``drift_risk`` is that of all keys together."""
        limits = (
            number("smallest_rise", smallest_rise, at_least=0.0, below=1.0),
            number("drift_risk", drift_risk, above=0.0, below=1.0),
        )
        about, regression = folder.about().get("learner", {}), folder.regression
        given, batch_size = tuple(about.get("classes") or ()), about.get("batch_size")
        keys, labels, ends = dict[Any, int](), dict[Any, int](), list[int]()
        running, entries = RunningScores(batch_size, regression), folder.keys()
        judged = [key for key, entry in entries.items() if entry["scored"] >= LEAST_ROWS]
        place = {key: code for code, key in enumerate(judged)}
        drifting, places = RunningDrifts(len(judged), regression, *limits), list[int]()
        for epoch, part in folder.parts("predictions", COLUMNS):
            key, sequence = _codes(part["key"], keys), part["sequence"].to_numpy()
            predicted, true = (_cells(part[name], None if regression else labels) for name in COLUMNS[2:])
            if len(sequence):
                ends = [min([*ends, int(sequence.min())]), max([*ends, int(sequence.max())])]
            known, ranked = is_known(true), [labels[label] for label in _ranked(labels, given)]
            running.add(epoch, key[known], sequence[known], predicted[known], true[known], len(keys), ranked)
            places += [place.get(name, NOTHING) for name in itertools.islice(keys, len(places), None)]
            own = np.array([*places, NOTHING])[key]
            scored = known & is_known(predicted) & (own != NOTHING)
            drifting.add(*(column[scored] for column in (own, sequence, predicted, true)))
        found = {key: running.score(keys[key]) for key in _ranked(keys, ())}
        outcomes = cls(
            folder=folder,
            labels=tuple(_plain(label) for label in _ranked(labels, given)),
            batch_size=batch_size,
            regression=regression,
            late=about.get("delay") is not None,
            scores={key: score for key, score in found.items() if score.rows},
            first=ends[0] if ends else None,
            last=ends[-1] if ends else None,
            drifts=KeyDrifts({}, len(entries), len(judged)),
        )
        drifted = [judged[code] for code in drifting.drifted().tolist()]
        return replace(outcomes, drifts=outcomes._drifts_of(drifted, *limits)) if drifted else outcomes

    def _drifts_of(self, keys: Sequence[Any], smallest_rise: float, drift_risk: float) -> KeyDrifts:
        """Return the drifts of the keys that have any; a group of them is in memory at a time."""
        found, start, sizes = dict[Any, Drifts](), 0, np.cumsum([self.scores[key].rows for key in keys])
        limits = {"smallest_rise": smallest_rise, "drift_risk": drift_risk}
        while start < len(keys):
            room = (sizes[start - 1] if start else 0) + GROUP_ROWS
            stop = max(start + 1, int(np.searchsorted(sizes, room, side="right")))
            group = keys[start:stop]
            journal: dict[Any, list[tuple[int, str]]] = {key: [] for key in group}
            for _, part in self.folder.parts("journal", ("key", "sequence", "transitions"), keys=group):
                for key, at, kinds in zip(*part.to_pydict().values(), strict=True):
                    journal[key].append((at, kinds))
            for key, rows in self.of(group).items():
                ends, replaced = replaced_rows(rows.sequence, journal[key])
                scored = np.flatnonzero(is_known(rows.predicted))
                judged = JudgedRows(rows.predicted, rows.true, scored, ends, replaced, self._clock(rows.sequence))
                found[key] = drifts_of_key(judged, self.drifts.judged, regression=self.regression, **limits)
            start = stop
        return KeyDrifts(found, self.drifts.n_keys, self.drifts.judged)

    def _clock(self, sequence: IntArray) -> Callable[[int], str]:
        """Return what tells the time of a row."""
        word = "" if self.dates else "sequence "
        return lambda row: word + format_time(int(sequence[row]), self.dates)

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


def format_time(sequence: int, dates: bool, *, whole_days: bool = False) -> str:
    """Format a sequence number; if ``dates``, as the date whose microseconds it is.

    >>> format_time(1_751_191_200_000_000, dates=True), format_time(12_345, dates=False)
    ('2025-06-29 10:00', '12,345')
    """
    if not dates:
        return f"{sequence:,}"
    text = str(np.datetime64(sequence, "us").astype("datetime64[m]")).replace("T", " ")
    return text[:10] if whole_days else text
