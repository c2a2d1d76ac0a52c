"""An estimator for rows of named values, one at a time: rows are buffered until they make a time step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np
from scipy.sparse import csr_array

from driftsurf.core.contracts import CSR, Capabilities, FloatArray, Rows, n_rows
from driftsurf.core.input import read_weights
from driftsurf.data.vocabulary import RowBuffer, Vocabulary, one_row
from driftsurf.errors import CapabilityError, LabelError, NonFiniteError, OptionError
from driftsurf.estimators._sklearn import clone
from driftsurf.estimators.base import AdaptiveEstimator

BINARY = 2
"""Number of classes of a learner without the task 'multiclass'."""


class NamedRows(Protocol):
    """Many rows with named columns."""

    @property
    def names(self) -> list[Any]:
        """Names of the columns."""
        ...

    def __len__(self) -> int: ...

    def rows(self) -> Iterator[dict[Any, Any]]:
        """Yield each row as a dictionary."""
        ...

    def numbers(self) -> FloatArray | None:
        """Return all values, (rows, columns), if they are finite numbers; else None."""
        ...


class OnlineEstimator:
    """A model that learns and predicts rows of named values.

    Parameters
    ----------
    model
        The estimator. It is never changed: a copy learns.
    batch_size
        Number of rows in a time step.
    vocabulary
        Assigns a column to each name. A model that takes no sparse rows closes it with the first time step.
    seed
        The ``random_state`` of the copy; None leaves it as it is.
    """

    def __init__(self, model: AdaptiveEstimator, batch_size: int, vocabulary: Vocabulary, seed: int | None) -> None:
        if not isinstance(model, AdaptiveEstimator):
            raise OptionError(
                f"model is {model!r}; pass an estimator of driftsurf or driftsurf.estimators, such as "
                "DriftSurfClassifier(), around any learner"
            )
        self.estimator: Any = clone(model)
        self.estimator.set_params(batch_size=None)
        if seed is not None:
            self.estimator.set_params(random_state=seed)
        self.vocabulary = vocabulary
        self.waiting: RowBuffer = RowBuffer(batch_size)
        self.capabilities: Capabilities = self.estimator._template().capabilities
        self.label_counts: dict[Any, int] = {}
        """How often each label has come, whether learned or still waiting."""
        self.learned_labels: list[Any] = []
        """Labels that the model has learned, in the order of its probabilities."""

    @property
    def has_learned(self) -> bool:
        """Whether there has been a time step."""
        return bool(self.estimator.__sklearn_is_fitted__())

    # -------------------------------------------------------------------- learning

    def learn(self, row: Mapping[Any, Any], target: Any, weight: float = 1.0) -> None:
        """Buffer a row; the row that completes a time step is learned with all that wait."""
        target = self._checked(target)
        if weight != 1.0:
            self._check_weight(weight)
        self.waiting.add(self.vocabulary.learn(row), target, weight)
        self._count(target)
        if self.waiting.full:
            self.step()

    def learn_table(self, table: NamedRows, targets: list[Any]) -> None:
        """Buffer many rows, with the same result as ``learn`` of each in turn."""
        values = table.numbers()
        if values is not None:
            self.vocabulary.learn(dict.fromkeys(table.names, 1.0))
        places = self.vocabulary.places(table.names)
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
            finally:  # the rows before a bad target are buffered
                self.waiting.extend(places, values[start : start + len(taken)], taken)
            if self.waiting.full:
                self.step()
            start += len(taken)

    def _count(self, target: Any) -> Any:
        if not self.capabilities.regression:
            self.label_counts[target] = self.label_counts.get(target, 0) + 1
        return target

    def step(self) -> None:
        """Learn the rows that wait. They are dropped if that fails, so that later rows do not fail with them."""
        if len(self.waiting) == 0:
            return
        if not self.has_learned and not self.capabilities.sparse:
            self.vocabulary.close()
        X: Any = self._rows(self.waiting)
        if isinstance(X, CSR):
            X = csr_array((X.data, X.indices, X.indptr), shape=(len(self.waiting), X.n_features))
        weights = self.waiting.weights[: len(self.waiting)]
        weighted = {} if (weights == 1.0).all() else {"sample_weight": weights}
        try:
            self.estimator.partial_fit(X, self.waiting.targets, **weighted)
        finally:
            self.waiting.clear()
        if not self.capabilities.regression:
            self.learned_labels = self.estimator.classes_.tolist()

    def _check_weight(self, weight: float) -> None:
        if not self.capabilities.weights:
            raise CapabilityError(
                f"{self.estimator._template()!r} does not support weights (capability 'weights'); leave w out"
            )
        read_weights([weight], 1)

    def _checked(self, target: Any) -> Any:
        """Return a target that can be learned; an error names one that cannot."""
        if self.capabilities.regression:
            if not np.isfinite(target):
                raise NonFiniteError(f"the target is {target!r}; pass a finite number")
            return float(target)
        limited = "multiclass" not in self.capabilities.tasks
        if limited and target not in self.label_counts and len(self.label_counts) == BINARY:
            raise LabelError(
                f"{target!r} is a third label after {', '.join(map(repr, self.label_counts))}, and the learner does "
                "not support the task 'multiclass'; use one that does, such as SoftmaxRegression"
            )
        return target

    # -------------------------------------------------------------------- predicting

    def probabilities(self, rows: Rows) -> list[dict[Any, float]]:
        """Return for each row the probability of every label so far."""
        if self.has_learned:
            session = self.estimator._session
            known = self.estimator._probabilities(session.now, session.scores_of(rows)).tolist()
            found = [dict(zip(self.learned_labels, row, strict=True)) for row in known]
            if len(self.learned_labels) == len(self.label_counts) >= BINARY:
                return found
        else:
            total = sum(self.label_counts.values())
            found = [{label: count / total for label, count in self.label_counts.items()} for _ in range(n_rows(rows))]
        # Labels that wait in the buffer, and the two of a binary classifier, have a probability from the start.
        others = dict.fromkeys((label for label in self.label_counts if label not in self.learned_labels), 0.0)
        others |= dict.fromkeys((label for label in self._binary if label not in self.label_counts), 0.0)
        if not self.label_counts and others:
            others = dict.fromkeys(others, 1.0 / len(others))
        return [others | row for row in found]

    @property
    def _binary(self) -> tuple[bool, ...]:
        """The labels of a binary classifier that has seen no others."""
        booleans = "multiclass" not in self.capabilities.tasks and all(
            isinstance(y, bool | np.bool_) for y in self.label_counts
        )
        return (False, True) if booleans else ()

    def predict(self, rows: Rows) -> list[Any]:
        """Predict each row; before the first time step by the most frequent label, or the mean of buffered targets."""
        if self.has_learned:
            session = self.estimator._session
            targets = session.targets
            predicted: list[Any] = targets.decode(targets.predicted(session.scores_of(rows))).tolist()
            return predicted
        if self.capabilities.regression:
            usual: Any = float(np.mean(self.waiting.targets)) if len(self.waiting) else 0.0
        else:
            usual = max(self.label_counts, key=lambda label: self.label_counts[label]) if self.label_counts else None
        return [usual] * n_rows(rows)

    def row(self, row: Mapping[Any, Any]) -> Rows:
        """Return one row in the layout of the model."""
        rows = one_row(self.vocabulary.lookup(row), self.vocabulary.width)
        return rows if self.capabilities.sparse else _dense(rows)

    def table(self, table: NamedRows) -> Rows:
        """Return many rows in the layout of the model."""
        read = RowBuffer(max(1, len(table)))
        values, places = table.numbers(), self.vocabulary.places(table.names)
        if values is None or places is None:
            for row in table.rows():
                read.add(self.vocabulary.lookup(row), None)
        else:
            read.extend(places, values, [None] * len(values))
        return self._rows(read)

    def _rows(self, rows: RowBuffer) -> Rows:
        made = rows.rows(self.vocabulary.width)
        return made if self.capabilities.sparse else _dense(made)


def _dense(rows: CSR) -> FloatArray:
    dense = np.zeros((n_rows(rows), rows.n_features))
    dense[np.repeat(np.arange(len(dense)), np.diff(rows.indptr)), rows.indices] = rows.data
    return dense
