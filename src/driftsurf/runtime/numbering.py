"""Steps, rows and models as a run numbers them: they go on where a model that was rolled back begins again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Self

from driftsurf.decisions import Decision, ModelRecord, Transition

__all__ = ["Numbering"]


@dataclass(slots=True)
class Numbering:
    """Makes the numbers of the run of those that a model counts by itself.

    A model that returns to an earlier state counts again from there: the same steps, rows and identities would stand
    for two things. So in the run its steps and rows go on, and it is a model that was not there before. Rows that it
    learnt before the state it returned to keep the numbers that they had.

    Examples
    --------
    >>> numbering = Numbering()
    >>> decisions = [Decision(step, 10 * step, 10, "stable", 0, 0, 0, models=()) for step in range(5)]
    >>> _ = numbering.of(decisions)
    >>> numbering.roll_back(Numbering())
    >>> [(one.step, one.first_row, one.predicted_by, one.trained_from) for one in numbering.of(decisions[2:4])]
    [(5, 50, 1, 0), (6, 60, 1, 0)]
    """

    steps: int = 0
    """What to add to the model's steps."""
    identities: int = 0
    rows: tuple[tuple[int, int], ...] = ((0, 0),)
    """From which of the model's rows on what is to be added, in their order."""
    since: int = 0
    """The step with which the model began, or began again."""
    begins: bool = False
    """Whether it was rolled back and has decided nothing since."""
    next_step: int = 0
    next_row: int = 0
    next_identity: int = 0

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What ``to_json`` gave."""
        told = json.loads(text)
        return cls(**told | {"rows": tuple((int(first), int(shift)) for first, shift in told["rows"])})

    def to_json(self) -> str:
        """All of it."""
        return json.dumps(asdict(self))

    def roll_back(self, earlier: Numbering) -> None:
        """The model returns to the state that it had when the numbering was ``earlier``."""
        self.rows, self.begins = earlier.rows, True

    def of(self, decisions: Iterable[Decision]) -> tuple[Decision, ...]:
        """The next decisions, as the run numbers them."""
        return tuple(map(self._numbered, decisions))

    def _numbered(self, decision: Decision) -> Decision:
        if self.begins:
            first = decision.first_row
            known = tuple((start, shift) for start, shift in self.rows if start < first)
            self.rows = (*known, (first, self.next_row - first))
            self.steps, self.identities = self.next_step - decision.step, self.next_identity
            self.since, self.begins = self.next_step, False
        if self.since:
            decision = replace(
                decision,
                step=decision.step + self.steps,
                first_row=self._row(decision.first_row),
                predicted_by=self._identity(decision.predicted_by),
                trained_from=self._row(decision.trained_from),
                predicts_next=self._identity(decision.predicts_next),
                models=tuple(self._model(record, decision.step + self.steps) for record in decision.models),
                transitions=tuple(map(self.of_transition, decision.transitions)),
            )
        newest = max([decision.predicted_by, decision.predicts_next, *(record.id for record in decision.models)])
        self.next_step, self.next_row = decision.step + 1, decision.rows_seen
        self.next_identity = max(self.next_identity, newest + 1)
        return decision

    def _row(self, number: int) -> int:
        return number + next((shift for first, shift in reversed(self.rows) if first <= number), 0)

    def _identity(self, number: int) -> int:
        return number + self.identities if number >= 0 else number  # -1 is no model at all

    def _model(self, record: ModelRecord, step: int) -> ModelRecord:
        age = min(record.age, step - self.since)
        return replace(record, id=self._identity(record.id), age=age, first_row=self._row(record.first_row))

    def of_transition(self, change: Transition) -> Transition:
        """A transition, as the run numbers it."""
        old, new = self._identity(change.old), self._identity(change.new)
        return replace(change, step=change.step + self.steps, old=old, new=new)
