"""Versions of a served model: frozen values that any thread predicts with while the next one is learned."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftsurf.data.encoding import TableEncoder
from driftsurf.data.log.records import ColumnKind
from driftsurf.data.tables import Table
from driftsurf.data.target import Task
from driftsurf.runs.predictions import shares
from driftsurf.service.columns import conform
from driftsurf.service.contract import Answer, ServedColumn
from driftsurf.session.session import Session
from driftsurf.session.snapshot import Snapshot

__all__ = ["Version"]


@dataclass(frozen=True)
class Version:
    """A version of a served model; before the first step it knows at most the columns."""

    columns: tuple[ServedColumn, ...] = ()
    task: Task | None = None
    categorical: Collection[str] = ()
    encoder: TableEncoder | None = None
    session: Session | None = None
    """The session whose version this is; it has gone on since."""
    now: Snapshot | None = None
    """The session as it was after the step."""

    @property
    def version(self) -> int:
        """Number of time steps learned."""
        return 0 if self.now is None else self.now.steps

    @property
    def classes(self) -> tuple[Any, ...]:
        """The classes that can be predicted, in the order of ``Answer.probabilities``; empty for regression."""
        if self.now is None or self.task == "regression":
            return ()
        return tuple(self.now.targets.labels[: self.now.n_classes_learned])

    @property
    def slow(self) -> bool:
        """Whether predicting may take long or wait for learning."""
        if self.session is None:
            return False
        can = self.session.strategy.learner.capabilities
        return self.now is None or self.now.scorer is None or can.state_kind != "arrays"

    def predict(self, table: Table) -> Answer:
        """Predict rows and log nothing."""
        return self.answer(table if not self.columns else conform(table, self.kinds, self.categorical))

    @property
    def kinds(self) -> tuple[ColumnKind, ...]:
        """The columns with their kinds."""
        return tuple(ColumnKind(one.name, one.kind) for one in self.columns)

    def answer(self, table: Table) -> Answer:
        """Predict rows whose columns have been checked."""
        now, session = self.now, self.session
        if now is None or session is None or self.encoder is None or not now.steps:
            return Answer(0, None)
        scores = session.scores_as_of(now, self.encoder.transform(table))
        targets = now.targets
        labels = targets.decode(targets.predicted(scores))
        probabilities = None
        classes = self.classes
        if classes and session.strategy.learner.capabilities.probabilities:
            probabilities = shares(scores)[:, : len(classes)] if len(classes) > 1 else np.ones((len(scores), 1))
        return Answer(now.steps, labels, classes, probabilities)
