"""Versions of a served model: frozen values that any thread predicts with while the next one is learned."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.abilities import CategoryTold
from driftsurf.core.contracts import FloatArray
from driftsurf.data.encoding import TableEncoder
from driftsurf.data.log.records import ColumnKind
from driftsurf.data.row_encoder import Task
from driftsurf.data.tables import Table
from driftsurf.runs.predictions import shares
from driftsurf.service.admission import conform
from driftsurf.service.contract import Answer, ServedColumn
from driftsurf.session.session import Session
from driftsurf.session.snapshot import Snapshot


@dataclass(frozen=True)
class Version:
    """A version of a served model; before the first step it knows at most the columns."""

    columns: tuple[ServedColumn, ...] = ()
    task: Task | None = None
    categorical: Collection[str] = ()
    encoder: TableEncoder | None = None
    session: Session | None = None
    """The session whose version this is; it may have learned more since."""
    now: Snapshot | None = None
    """The session as it was after the step."""
    guess: Callable[[], npt.NDArray[Any] | None] = lambda: None
    """Returns what is predicted for every row before the first step: the most frequent label, or the mean, so far."""

    @property
    def version(self) -> int:
        """Number of time steps learned."""
        return 0 if self.now is None else self.now.steps

    @cached_property
    def classes(self) -> tuple[Any, ...]:
        """The classes that can be predicted, in the order of ``Answer.probabilities``; empty for regression."""
        if self.now is None or self.task == "regression":
            return ()
        return tuple(self.now.targets.labels[: self.now.n_classes_learned])

    @cached_property
    def slow(self) -> bool:
        """Whether predicting may take long or wait for learning.

        Only models that are plain arrays, which compiled code of this package scores, are surely fast: not trees, not
        a portfolio, which has trees of its own, and no class of another package.
        """
        if self.session is None:
            return False
        strategy = self.session.strategy
        learner = strategy.learner
        foreign = any(not type(one).__module__.startswith("driftsurf.") for one in (strategy, learner))
        waits = self.now is None or self.now.scorer is None
        trees = learner.capabilities.state_kind != "arrays" or isinstance(strategy, CategoryTold)
        return waits or trees or foreign

    @cached_property
    def _has_probabilities(self) -> bool:
        return self.session is not None and self.session.strategy.learner.capabilities.probabilities

    def predict(self, table: Table) -> Answer:
        """Predict rows and log nothing."""
        return self.answer(table if not self.columns else conform(table, self.kinds, self.categorical))

    @property
    def kinds(self) -> tuple[ColumnKind, ...]:
        """The columns with their kinds."""
        return tuple(ColumnKind(one.name, one.kind) for one in self.columns)

    def answer(self, table: Table) -> Answer:
        """Predict rows whose columns have been checked."""
        if self.encoder is None or not self.version:
            usual = self.guess()
            return Answer(0, None if usual is None else np.repeat(usual, len(table)))
        return self._answer(self.encoder.transform(table))

    def answer_numbers(self, numbers: FloatArray) -> Answer | None:
        """Predict rows of numbers in the order of ``columns``; None if they have to be given as a table."""
        if not self._takes_numbers or self.encoder is None:
            return None
        rows = self.encoder.number_rows(numbers)
        if rows is None or self.now is None or self.session is None:
            return None
        scores = self.session.scores_if_finite(self.now, rows)
        return None if scores is None else self._scored(self.now, scores)

    @cached_property
    def _takes_numbers(self) -> bool:
        """Whether the encoder has the columns in the same order."""
        if self.encoder is None or not self.version:
            return False
        return [one.name for one in self.encoder.layout.columns] == [one.name for one in self.columns]

    def _answer(self, rows: Any) -> Answer:
        """Predict encoded rows."""
        assert self.now is not None
        assert self.session is not None
        return self._scored(self.now, self.session.scores_as_of(self.now, rows))

    def _scored(self, now: Snapshot, scores: FloatArray) -> Answer:
        """Return what scores predict."""
        targets = now.targets
        labels = targets.decode(targets.predicted(scores))
        probabilities = None
        classes = self.classes
        if classes and self._has_probabilities:
            probabilities = shares(scores)[:, : len(classes)] if len(classes) > 1 else np.ones((len(scores), 1))
        return Answer(now.steps, labels, classes, probabilities)
