"""A model of a run whose labels come late: it predicts rows when they come, and learns them when their labels do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import Capabilities, IncrementalState, State
from driftsurf.core.decisions import Transition
from driftsurf.core.input import Schema
from driftsurf.core.state import pick, resolved
from driftsurf.runs.label_places import LabelPlaces, naming_labels
from driftsurf.runs.predictions import PredictionBatch, predict_now
from driftsurf.session.label_counts import LabelCounts
from driftsurf.session.late import DelayedLabels, Joined
from driftsurf.session.observation import Observation
from driftsurf.session.session import Session

__all__ = [
    "Arrived",
    "ArrivedLabels",
    "LateObservation",
    "LateSession",
    "RowKeys",
    "ScoredRow",
    "scored_rows",
]

RowKeys: TypeAlias = list[str | int]
"""Keys by which labels find their rows."""


class Arrived(NamedTuple):
    """Rows that came, under their keys."""

    keys: RowKeys
    X: Any
    named: bool
    """Whether the keys come from a column; otherwise they are the numbers of the rows."""


class ArrivedLabels(NamedTuple):
    """Labels that came, under the keys of their rows."""

    keys: RowKeys
    labels: npt.NDArray[Any]
    places: LabelPlaces | None = None
    """Where they stand in their source, if it is known."""


@dataclass(frozen=True, slots=True)
class LateObservation(Observation):
    """Rows whose labels came, with the predictions made when these rows came; and the predictions made now."""

    before: tuple[Joined, ...] = ()
    """Labels that came before the new rows were predicted."""
    after: tuple[Joined, ...] = ()
    """Labels that had come before their rows, and were learned right after these were predicted."""
    given: PredictionBatch | None = None
    """Predictions of the rows that came, numbered from 0; None if only labels came."""

    @property
    def rows(self) -> int:
        """Number of rows that came."""
        return 0 if self.given is None else len(self.given)


class LateSession:
    """A session behind :class:`~driftsurf.session.late.DelayedLabels`, as a model of a run.

    Parameters
    ----------
    session
        The model that learns.
    max_pending, timeout
        As for :class:`~driftsurf.session.late.DelayedLabels`.
    shown_classes
        Classes whose probabilities predictions have; none for that of the predicted class alone.
    """

    def __init__(
        self,
        session: Session,
        *,
        max_pending: int = 100_000,
        timeout: float | None = None,
        shown_classes: Sequence[Any] = (),
    ) -> None:
        self.session = session
        self.shown_classes = shown_classes
        self.delayed: DelayedLabels = DelayedLabels(session, max_pending=max_pending, timeout=timeout)

    @property
    def _capabilities(self) -> Capabilities:
        return self.session.strategy.learner.capabilities

    @property
    def schema(self) -> Schema | None:
        """Columns of the rows; None before the first rows were learned."""
        return self.session.schema

    @property
    def steps(self) -> int:
        """Number of time steps so far."""
        return self.session.steps

    @property
    def rows_pending(self) -> int:
        """Number of rows that wait for their label, or for a time step to become full."""
        return len(self.delayed) + self.session.rows_pending

    @property
    def label_counts(self) -> LabelCounts:
        """Counts of the rows and labels so far, by what was done with them."""
        return self.delayed.counts

    def observe(self, X: Arrived | None, y: Sequence[Any], *, classes: Any = None) -> LateObservation:
        """Learn the rows whose labels came, predict the rows that came, and learn those whose label came before.

        Each entry of ``y`` is an :class:`ArrivedLabels`, or a pair of keys and labels.
        """
        before, after = list[Joined](), list[Joined]()
        for keys, labels, places in (ArrivedLabels(*one) for one in y):
            if len(keys):
                with naming_labels(labels, places):
                    before.append(self.delayed.label(keys, labels))
        given = None
        if X is not None:
            given = self._predict(X)
            after.append(self.delayed.label([], []))
        joined = *before, *after
        scored = [row for one in joined for row in scored_rows(one)]
        seen = self.compared([row.true for row in scored], [row.predicted for row in scored])
        decisions = tuple(decision for one in joined for decision in one.decisions)
        shown = seen.labels, seen.predicted, seen.true, seen.scores
        return LateObservation(*shown, decisions, False, before=tuple(before), after=tuple(after), given=given)

    def compared(self, true: Sequence[Any], predicted: Sequence[Any]) -> Observation:
        """Return true labels beside the predictions that were made of them before."""
        labels, targets = np.array(predicted), self.session.targets
        true_codes = codes = np.zeros(0)
        if len(true):
            true_codes, codes = targets.read(np.array(true), len(true))[1], targets.read(labels, len(labels))[1]
        if not self._capabilities.regression:
            true_codes, codes = true_codes.astype(np.int64), codes.astype(np.int64)
        return Observation(labels, codes, true_codes, np.zeros(0), (), False)

    def _predict(self, arrived: Arrived) -> PredictionBatch:
        self.delayed.predict(arrived.keys, arrived.X)
        found = predict_now(self.session, arrived.X, self.shown_classes)
        probability = None if self._capabilities.regression else found.probability
        ids = arrived.keys if arrived.named else None
        versions = [found.version] * len(arrived.keys)
        return PredictionBatch(0, versions, found.labels, probability, ids=ids, by_class=found.by_class)

    def reset(self, why: str) -> Transition | None:
        """Start again with fresh models; None if nothing has been learned yet."""
        return self.session.reset(why)

    def state(self) -> State:
        """Return everything that decides what comes next."""
        return resolved(self.incremental_state())

    def incremental_state(self) -> IncrementalState:
        """Return ``state()`` with the arrays that grow with the rows as ``AppendOnlyArray``."""
        return self.delayed.incremental_state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state()`` returned."""
        self.delayed.restore(state)

    def return_to(self, state: Mapping[str, Any]) -> None:
        """Restore what had been learned, and keep the rows that wait and the counts."""
        self.session.restore(pick("model", state))


class ScoredRow(NamedTuple):
    """A row whose label came, with the prediction that was made before."""

    true: Any
    predicted: Any
    version: int
    """Number of time steps that the model behind the prediction had learned."""
    row: int
    """Number of the row, from 0 in the order in which rows came."""


def scored_rows(joined: Joined, decision: int | None = None) -> list[ScoredRow]:
    """Return the rows that had a prediction: all of them, or those that the decision at this place has learned."""
    rows = zip(
        joined.true.tolist(), joined.predicted, joined.versions.tolist(), joined.rows.tolist(), joined.learned_by,
        strict=True,
    )  # fmt: skip
    return [ScoredRow(*row) for *row, place in rows if row[2] and place == (place if decision is None else decision)]
