"""The errors of each key beside those of trivial rules, added up part by part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray, IntArray
from driftsurf.core.trivial import HARDLY_BETTER

__all__ = ["NOTHING", "KeyScore", "RunningScores", "is_known"]

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
