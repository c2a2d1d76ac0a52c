"""Steps of a run whose labels come late: which rows were scored in each, and which model had predicted them."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from driftsurf.core.contracts import State
from driftsurf.core.decisions import Decision
from driftsurf.core.fields import Fields, Json
from driftsurf.runs.late_session import LateObservation, LateSession, ScoredRow, scored_rows
from driftsurf.runs.numbering import Numbering
from driftsurf.runs.steps import Step
from driftsurf.session.late import Joined
from driftsurf.session.observation import Origin

__all__ = ["LateSteps"]


class _Predictor(NamedTuple):
    """A model, by the numbers of the run."""

    id: int
    trained_from: int


UNKNOWN = _Predictor(-1, -1)


class LateSteps:
    """Puts scored rows into the steps that learn them, so that a step is the same in the journal and in the trace.

    A step of such a run is a decision of the model. A row is predicted in the middle of an earlier step, and scored in
    the step that learns it. Between both, the model may have changed; therefore it is noted which model predicted
    which rows. Rows whose labels have come while their step is not full are kept until it is.

    Parameters
    ----------
    name
        Name of the model.
    model
        The model whose labels come late.
    """

    def __init__(self, name: str, model: LateSession) -> None:
        self.name = name
        self.model = model
        self._scored: list[ScoredRow] = []
        """Rows that were scored since the last step."""
        self._unscored: list[Any] = []
        """Labels since the last step whose rows came before there was a model."""
        self._predictors: list[tuple[int, _Predictor | None]] = []
        """Rows, in the order in which they came, from which on a model predicted. The last one may not be known
        yet: the next decision names it."""
        self._next = UNKNOWN
        """The model that the last decision put in use."""

    def take(self, seen: LateObservation, numbering: Numbering, first_row: int) -> Iterator[Step]:
        """Yield the steps that the labels of a call have completed, with the numbers of the run.

        ``first_row`` is the number of the first row that came with the call.
        """
        for joined in seen.before:
            yield from self._learned(joined, numbering)
        if seen.rows and (not self._predictors or self._predictors[-1][1] is not None):
            self._predictors.append((first_row, None))
        for joined in seen.after:
            yield from self._learned(joined, numbering)
        self._forget()

    def _learned(self, joined: Joined, numbering: Numbering) -> Iterator[Step]:
        for place, (own, decision) in enumerate(zip(joined.decisions, numbering.of(joined.decisions), strict=True)):
            self._name_predictor(_Predictor(decision.predicted_by, decision.trained_from))
            self._take(joined, place)
            yield self._step(decision.step, decision.first_row, own.step, (decision,))
            self._next = _following(decision)
        self._take(joined, len(joined.decisions))

    def _take(self, joined: Joined, place: int) -> None:
        """Keep the rows that the decision at this place has learned."""
        self._scored += scored_rows(joined, place)
        self._unscored += joined.true[(joined.learned_by == place) & (joined.versions == 0)].tolist()

    def unfinished(self, numbering: Numbering) -> Iterator[Step]:
        """Yield the rows that were scored since the last step, if there are any, as the step that would learn them."""
        if self._scored:
            self._name_predictor(self._next)
            yield self._step(numbering.next_step, numbering.next_row, self.model.steps, ())

    def changed(self) -> None:
        """Note that an operator has changed the model: rows that came until now were predicted by the one before."""
        self._name_predictor(self._next)
        self._next = UNKNOWN

    def _name_predictor(self, model: _Predictor) -> None:
        """Name the model that has predicted the newest rows."""
        if self._predictors and self._predictors[-1][1] is None:
            first, _ = self._predictors.pop()
            if not self._predictors or self._predictors[-1][1] != model:
                self._predictors.append((first, model))

    def _forget(self) -> None:
        """Forget the models behind rows that neither wait for their label nor for their step."""
        oldest = min([self.model.delayed.first_row, *(row.row for row in self._scored)])
        while len(self._predictors) > 1 and self._predictors[1][0] <= oldest:
            del self._predictors[0]

    def _step(self, step: int, first_row: int, version: int, decisions: tuple[Decision, ...]) -> Step:
        """Return the rows since the last step as one; before it, the model had the number ``version``."""
        rows, learned = self._scored, sum(decision.rows for decision in decisions)
        origin = Origin(step, first_row, learned, unscored=np.array(self._unscored))
        self._scored, self._unscored = [], []
        if rows:
            counts = Counter(self._predictor(row.row) for row in rows)
            most = max(counts, key=lambda model: (counts[model], model))
            versions = [row.version for row in rows]
            origin = replace(
                origin,
                predicted_by=most.id,
                trained_from=most.trained_from,
                oldest_version=min(versions),
                newest_version=max(versions),
            )
        true = [row.true for row in rows]
        lags = np.array([max(0, version - row.version) for row in rows], np.int64)
        compared = self.model.compared(true, [row.predicted for row in rows])
        seen = replace(compared, decisions=decisions, origin=origin, lags=lags)
        return Step(step, None, np.array(true), {self.name: seen})

    def _predictor(self, row: int) -> _Predictor:
        place = bisect_right(self._predictors, row, key=lambda entry: entry[0])
        return (self._predictors[place - 1][1] if place else None) or UNKNOWN

    # -------------------------------------------------------------------- state

    def state(self) -> State:
        """Return what the next steps need, for a checkpoint."""
        return {
            "scored": json.dumps(self._scored),
            "predictors": json.dumps(self._predictors),
            "next": json.dumps(self._next),
            **({"unscored": json.dumps(self._unscored)} if self._unscored else {}),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Resume from what :meth:`state` returned."""
        known = FIELDS.read(state)
        self._scored, self._predictors, self._next = (known[name] for name in ("scored", "predictors", "next"))
        self._unscored = known.get("unscored", [])


def _following(decision: Decision) -> _Predictor:
    """Return the model that predicts after a decision; -1 where models vote, as in decisions."""
    first_rows = {record.id: record.first_row for record in decision.models}
    return _Predictor(decision.predicts_next, first_rows.get(decision.predicts_next, decision.rows_seen))


def _read_scored(saved: Any) -> list[ScoredRow]:
    """Return saved rows that were scored; ValueError if they are not valid."""
    rows = [ScoredRow(*row) for row in saved]
    for one in rows:
        labels = one.true, one.predicted
        if not all(isinstance(label, str | int | float) for label in labels) or not _are_whole(one.version, one.row):
            raise ValueError(f"{one!r} is not a row that was scored")
    return rows


def _read_unscored(saved: Any) -> list[Any]:
    """Return saved labels; ValueError if they are not valid."""
    if not all(isinstance(label, str | int | float) for label in saved):
        raise ValueError("must be labels")
    return list(saved)


def _read_predictors(saved: Any) -> list[tuple[int, _Predictor | None]]:
    """Return the saved models behind predictions; ValueError if they are not valid."""
    found = [(first, None if model is None else _read_predictor(model)) for first, model in saved]
    rows = [first for first, _ in found]
    if not _are_whole(*rows) or rows != sorted(set(rows)) or any(model is None for _, model in found[:-1]):
        raise ValueError("must be rows in order, each with the model that predicted from there on")
    return found


def _read_predictor(saved: Any) -> _Predictor:
    """Return a saved model; ValueError if it is not valid."""
    model = _Predictor(*saved)
    if not all(type(number) is int for number in model):
        raise ValueError(f"{saved!r} is not a model and its first row")
    return model


def _are_whole(*numbers: Any) -> bool:
    return all(type(number) is int and number >= 0 for number in numbers)


FIELDS = Fields(
    {
        "scored": Json(_read_scored),
        "predictors": Json(_read_predictors),
        "next": Json(_read_predictor),
        "unscored": Json(_read_unscored),
    },
    optional=["unscored"],
)
"""Saved entries of the steps of a run whose labels come late."""
