"""A face that takes rows one at a time, for libraries that know no batches: rows wait until they make a time step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import clone

from driftsurf._face import Adaptive
from driftsurf.base import CSR, FloatArray, Rows, n_rows
from driftsurf.errors import CapabilityError, LabelError, NonFiniteError, OptionError
from driftsurf.validation import read_weights
from driftsurf.vocabulary import RowBuffer, Vocabulary, one_row

BINARY = 2
"""The classes that a learner without the task 'multiclass' tells apart."""


class Table(Protocol):
    """Many rows at once."""

    @property
    def names(self) -> list[Any]:
        """Of the columns."""
        ...

    def __len__(self) -> int: ...

    def rows(self) -> Iterator[dict[Any, Any]]:
        """Row by row."""
        ...

    def numbers(self) -> FloatArray | None:
        """All values (rows, columns), if they are finite numbers without a gap."""
        ...


class Online:
    """A model in service, one row at a time.

    Parameters
    ----------
    model
        The face, never changed: a copy learns.
    batch_size
        Rows of a time step.
    words
        Where names become columns. A model that takes no sparse rows closes it with the first time step.
    seed
        The ``random_state`` of the copy; None leaves it as it is.
    """

    def __init__(self, model: Adaptive, batch_size: int, words: Vocabulary, seed: int | None) -> None:
        if not isinstance(model, Adaptive):
            raise OptionError(
                f"model is {model!r}; give an estimator of driftsurf or driftsurf.baselines, such as "
                "DriftSurfClassifier(), around any learner"
            )
        self.face: Any = clone(model)
        self.face.set_params(batch_size=None)
        if seed is not None:
            self.face.set_params(random_state=seed)
        self.words = words
        self.waiting = RowBuffer(batch_size)
        self.capabilities = self.face._template().capabilities
        self.met: dict[Any, int] = {}
        """How often each label came."""
        self.names: list[Any] = []
        """The labels that the model was taught, in the order of its probabilities."""

    @property
    def taught(self) -> bool:
        """Whether there was a time step."""
        return bool(self.face.__sklearn_is_fitted__())

    # -------------------------------------------------------------------- learning

    def learn(self, row: Mapping[Any, Any], target: Any, weight: float = 1.0) -> None:
        """Take a row; the one that completes a time step is learnt with all that wait."""
        target = self._checked(target)
        if weight != 1.0:
            self._check_weight(weight)
        self.waiting.add(self.words.learnt(row), target, weight)
        self._count(target)
        if self.waiting.full:
            self.step()

    def learn_table(self, table: Table, targets: list[Any]) -> None:
        """Take many rows, as ``learn`` takes each of them."""
        values = table.numbers()
        if values is not None:
            self.words.learnt(dict.fromkeys(table.names, 1.0))
        places = self.words.places(table.names)
        if values is None or places is None:
            for row, target in zip(table.rows(), targets, strict=True):
                self.learn(row, target)
            return
        start = 0
        while start < len(targets):
            taken = list[Any]()
            try:
                for target in targets[start : start + self.waiting.size - len(self.waiting)]:
                    taken.append(self._count(self._checked(target)))
            finally:  # the rows before a bad one are taken
                self.waiting.extend(places, values[start : start + len(taken)], taken)
            if self.waiting.full:
                self.step()
            start += len(taken)

    def _count(self, target: Any) -> Any:
        if not self.capabilities.values:
            self.met[target] = self.met.get(target, 0) + 1
        return target

    def step(self) -> None:
        """Learn what waits. If that fails, those rows are let go: the next ones must not fail with them."""
        if len(self.waiting) == 0:
            return
        if not self.taught and not self.capabilities.sparse:
            self.words.close()
        X: Any = self._rows(self.waiting)
        if isinstance(X, CSR):
            X = csr_array((X.data, X.indices, X.indptr), shape=(len(self.waiting), X.n_features))
        weights = self.waiting.weights[: len(self.waiting)]
        weighted = {} if (weights == 1.0).all() else {"sample_weight": weights}
        try:
            self.face.partial_fit(X, self.waiting.targets, **weighted)
        finally:
            self.waiting.clear()
        if not self.capabilities.values:
            self.names = self.face.classes_.tolist()

    def _check_weight(self, weight: float) -> None:
        if not self.capabilities.weights:
            raise CapabilityError(f"{self.face._template()!r} has not the capability 'weights': leave w out")
        read_weights([weight], 1)

    def _checked(self, target: Any) -> Any:
        if self.capabilities.values:
            if not np.isfinite(target):
                raise NonFiniteError(f"the target is {target!r}; give a finite number")
            return float(target)
        limited = "multiclass" not in self.capabilities.tasks
        if limited and target not in self.met and len(self.met) == BINARY:
            raise LabelError(
                f"the label {target!r} is the third one after {', '.join(map(repr, self.met))}, and the learner has "
                "not the task 'multiclass': use one that has, such as SoftmaxRegression"
            )
        return target

    # -------------------------------------------------------------------- predicting

    def shares(self, rows: Rows) -> list[dict[Any, float]]:
        """The probability of every label met so far, for each row."""
        if self.taught:
            known = self.face._shares(self.face._session.scores_of(rows)).tolist()
            found = [dict(zip(self.names, row, strict=True)) for row in known]
            if len(self.names) == len(self.met) >= BINARY:
                return found
        else:
            total = sum(self.met.values())
            found = [{label: count / total for label, count in self.met.items()} for _ in range(n_rows(rows))]
        others = dict.fromkeys((label for label in self.met if label not in self.names), 0.0)
        others |= dict.fromkeys((label for label in self._binary if label not in self.met), 0.0)
        if not self.met and others:
            others = dict.fromkeys(others, 1.0 / len(others))
        return [others | row for row in found]

    @property
    def _binary(self) -> tuple[bool, ...]:
        """What a binary classifier tells apart before it knows better."""
        plain = "multiclass" not in self.capabilities.tasks and all(isinstance(y, bool | np.bool_) for y in self.met)
        return (False, True) if plain else ()

    def predicted(self, rows: Rows) -> list[Any]:
        """Labels, or values. Before the first time step: the most frequent label, or the mean of what waits."""
        if self.taught:
            known = self.face._session.targets
            chosen: list[Any] = known.decoded(known.chosen(self.face._session.scores_of(rows))).tolist()
            return chosen
        if self.capabilities.values:
            usual: Any = float(np.mean(self.waiting.targets)) if len(self.waiting) else 0.0
        else:
            usual = max(self.met, key=lambda label: self.met[label]) if self.met else None
        return [usual] * n_rows(rows)

    def row(self, row: Mapping[Any, Any]) -> Rows:
        """One row as the model takes it."""
        rows = one_row(self.words.known(row), self.words.width)
        return rows if self.capabilities.sparse else _dense(rows)

    def table(self, table: Table) -> Rows:
        """Many rows likewise."""
        read = RowBuffer(max(1, len(table)))
        values, places = table.numbers(), self.words.places(table.names)
        if values is None or places is None:
            for row in table.rows():
                read.add(self.words.known(row), None)
        else:
            read.extend(places, values, [None] * len(values))
        return self._rows(read)

    def _rows(self, rows: RowBuffer) -> Rows:
        made = rows.rows(self.words.width)
        return made if self.capabilities.sparse else _dense(made)


def _dense(rows: CSR) -> FloatArray:
    dense = np.zeros((n_rows(rows), rows.n_features))
    dense[np.repeat(np.arange(len(dense)), np.diff(rows.indptr)), rows.indices] = rows.data
    return dense
