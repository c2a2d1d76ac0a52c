"""Numbers of steps, rows, models and drifts in a run, which continue when a model is rolled back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Self

from driftsurf.core.decisions import Decision, ModelRecord, Transition
from driftsurf.core.drifts import MARKS, Drift, DriftMark, Drifts, InputChange

KEPT = 100
"""Drifts that a running run remembers at most: the newest ones. Its journal has all of them."""


@dataclass(slots=True)
class RunDrifts:
    """Translates the numbers of drifts that a model counts to those of its run, from 1, and keeps their marks.

    Examples
    --------
    >>> drifts = RunDrifts()
    >>> drift = Drift(0, 600, 6, 620, "harm", "error", error_before=0.1, error_peak=0.3)
    >>> drifts.of(drift).number
    1
    >>> drifts.roll_back(RunDrifts(), row=900)
    >>> drifts.of(drift).number, [one.ended_at_row for one in drifts.known]
    (2, [900, None])
    """

    count: int = 0
    """Number of drifts so far."""
    numbers: tuple[tuple[int, int], ...] = ()
    """Pairs of the number that the model counts and that of the run."""
    known: tuple[Drift, ...] = ()
    """The newest drifts as they are now, oldest first; replaced as a whole, so that other threads may read it."""
    changed: list[Drift] = field(default_factory=list)
    """Drifts that the order under way has changed, which are not in the journal yet."""
    lost: tuple[Drift, ...] = ()
    """Drifts that ended with the model that saw them, which listeners hear of with the next decision."""
    changes: tuple[InputChange, ...] = ()
    """The newest moves of the inputs alone, oldest first; replaced as a whole, too."""

    @property
    def drifting(self) -> bool:
        """Whether a drift goes on, from which the model has not recovered."""
        return Drifts(self.known).open is not None

    def of(self, drift: Drift) -> Drift:
        """Return an update of a drift of the model with the number of the run and with its mark, and remember it."""
        number = dict(self.numbers).get(drift.number)
        if number is None:
            number = self.count = self.count + 1
            self.numbers = (*self.numbers, (drift.number, number))[-KEPT:]
        before = self._find(number)
        if before is not None:  # a model that was rolled back or promoted counts otherwise than when the drift began
            kept = "row", "step", "detected_at_row", "mark"
            drift = replace(drift, **{name: getattr(before, name) for name in kept})
        return self._changed(replace(drift, number=number))

    def shared_by(self, own: Drifts) -> RunDrifts:
        """Return what is known of drifts to a model that learned the same rows: it also sees the one that goes on."""
        here, there = ([one for one in known if not one.ended] for known in (self.known, own))
        return RunDrifts(numbers=((there[-1].number, here[-1].number),) if here and there else ())

    def of_change(self, change: InputChange) -> InputChange:
        """Remember a move of the inputs, and return it."""
        self.changes = (*self.changes, change)[-KEPT:]
        return change

    def roll_back(self, earlier: RunDrifts, row: int) -> None:
        """Note that the model now is that of an earlier moment, or another one, whose first row is ``row``.

        Drifts that go on, and that this model does not know, end.
        """
        self.numbers = earlier.numbers
        followed = {number for _, number in self.numbers}
        lost = [one for one in self.known if not one.ended and one.number not in followed]
        ended = [self._changed(replace(one, ended_at_row=row)) for one in lost]
        self.changed, self.lost = [*self.changed, *ended], (*self.lost, *ended)

    def mark(self, number: int | None, mark: str) -> tuple[str, Literal["", "no-such-drift"]]:
        """Note what a person says about a drift, the newest one for None; return what was done, or why it was not.

        This changes the record of the drift, and nothing that is learned.
        """
        drift = self._find(number)
        if drift is None:
            choices = ", ".join(str(one.number) for one in self.known) or "none"
            return f"there is no such drift; choices: {choices}", "no-such-drift"
        said: DriftMark = next((one for one in MARKS if one == mark), "")
        self.changed.append(self._changed(replace(drift, mark=said)))
        words = f"is marked as {said}" if said else "has no mark any more"
        return f"drift {drift.number}, from row {drift.row:,} on, {words}", ""

    def changed_lines(self, step: int) -> str:
        """Return the lines of the journal about drifts that an order has changed."""
        changed, self.changed = self.changed, []
        return "".join(f"{json.dumps(one.record(step), separators=(',', ':'))}\n" for one in changed)

    def _find(self, number: int | None) -> Drift | None:
        return next((one for one in reversed(self.known) if number in (None, one.number)), None)

    def _changed(self, drift: Drift) -> Drift:
        others = {one.number: one for one in self.known} | {drift.number: drift}
        self.known = tuple(others.values())[-KEPT:]
        return drift

    def to_dict(self) -> dict[str, Any]:
        """Return the drifts as plain values for JSON."""
        known = [one.to_dict() for one in self.known]
        found = {"count": self.count, "numbers": list(map(list, self.numbers)), "known": known}
        found |= {"lost": [one.to_dict() for one in self.lost]} if self.lost else {}
        return found | ({"changes": list(map(asdict, self.changes))} if self.changes else {})

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Self:
        """Return what ``to_dict`` was called on; ValueError, KeyError or TypeError if it is not valid."""
        numbers = tuple((int(own), int(number)) for own, number in saved["numbers"])
        known, lost = (tuple(map(Drift.from_dict, saved.get(name, ()))) for name in ("known", "lost"))
        changes = tuple(map(InputChange.from_dict, saved.get("changes", ())))
        return cls(int(saved["count"]), numbers, known, lost=lost, changes=changes)


@dataclass(slots=True)
class Numbering:
    """Translates the numbers that a model counts by itself to those of its run.

    A model that returns to an earlier state counts again from there, so that the same step, row and model numbers would
    mean two things. In the run, steps and rows therefore continue, and the model gets a new number. Rows that it had
    learned before the earlier state keep their numbers.

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
    """Number to add to the steps that the model counts."""
    identities: int = 0
    """Number to add to the numbers of models."""
    rows: tuple[tuple[int, int], ...] = ((0, 0),)
    """Pairs of a row, as the model counts it, and what to add from that row on, in order."""
    since: int = 0
    """The first step of the model in the run, or the first one after it was rolled back."""
    begins: bool = False
    """Whether the model was rolled back and has decided nothing since."""
    next_step: int = 0
    next_row: int = 0
    next_identity: int = 0
    drifts: RunDrifts = field(default_factory=RunDrifts)

    @classmethod
    def following(cls) -> Self:
        """Return the numbering of a model that begins a run with what it has learned in another one.

        Steps and rows of the run start at 0, and rows from before it have negative numbers: -1 is the last of them.
        Models keep their numbers.
        """
        return cls(rows=(), begins=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the numbering that ``to_json`` was called on."""
        saved = json.loads(text)
        drifts = RunDrifts.from_dict(saved.pop("drifts")) if "drifts" in saved else RunDrifts()
        rows = tuple((int(first), int(shift)) for first, shift in saved["rows"])
        found = cls(**saved | {"rows": rows, "drifts": drifts})
        others = ((name, default) for name, default in asdict(cls()).items() if name not in ("rows", "drifts"))
        if not all(type(saved[name]) is type(default) for name, default in others):
            raise ValueError("a number of the saved numbering has another type")
        return found

    def to_json(self) -> str:
        """Return the numbering as JSON."""
        saved = asdict(replace(self, drifts=RunDrifts()))
        del saved["drifts"]
        return json.dumps(saved | ({"drifts": self.drifts.to_dict()} if self.drifts != RunDrifts() else {}))

    def roll_back(self, earlier: Numbering) -> None:
        """Note that the model returns to the state that it had when the numbering was ``earlier``."""
        self.rows, self.begins = earlier.rows, True
        self.drifts.roll_back(earlier.drifts, self.next_row)

    def of(self, decisions: Iterable[Decision]) -> tuple[Decision, ...]:
        """Return the next decisions with the numbers of the run."""
        return tuple(map(self._numbered, decisions))

    def _numbered(self, decision: Decision) -> Decision:
        """Return a decision with the numbers of the run; the first one after a rollback fixes the differences."""
        if self.begins:
            first = decision.first_row
            known = tuple((start, shift) for start, shift in self.rows if start < first)
            known = known or ((0, -first),)  # rows from before the run
            self.rows = (*known, (first, self.next_row - first))
            self.steps, self.identities = self.next_step - decision.step, self.next_identity
            self.since, self.begins = self.next_step, False
        if len(self.rows) > 1:
            decision = replace(
                decision,
                step=decision.step + self.steps,
                first_row=self._row(decision.first_row),
                predicted_by=self._identity(decision.predicted_by),
                trained_from=self._row(decision.trained_from),
                predicts_next=self._identity(decision.predicts_next),
                models=tuple(self._model(record, decision.step + self.steps) for record in decision.models),
                others=tuple(self._model(record, decision.step + self.steps) for record in decision.others),
                transitions=tuple(map(self.of_transition, decision.transitions)),
            )
        if decision.drifts:
            decision = replace(decision, drifts=tuple(map(self._of_drift, decision.drifts)))
        if self.drifts.lost:
            decision = replace(decision, drifts=(*self.drifts.lost, *decision.drifts))
            self.drifts.lost = ()
        if decision.changes:
            decision = replace(decision, changes=tuple(map(self._of_change, decision.changes)))
        made = (record.id for record in (*decision.models, *decision.others))
        newest = max([decision.predicted_by, decision.predicts_next, *made])
        self.next_step, self.next_row = decision.step + 1, decision.rows_seen
        self.next_identity = max(self.next_identity, newest + 1)
        return decision

    def _row(self, number: int) -> int:
        return number + next((shift for first, shift in reversed(self.rows) if first <= number), 0)

    def _identity(self, number: int) -> int:
        return number + self.identities if number >= 0 else number  # -1 means no model

    def _model(self, record: ModelRecord, step: int) -> ModelRecord:
        age = min(record.age, step - self.since)
        return replace(record, id=self._identity(record.id), age=age, first_row=self._row(record.first_row))

    def of_transition(self, change: Transition) -> Transition:
        """Return a transition with the numbers of the run."""
        old, new = self._identity(change.old), self._identity(change.new)
        return replace(change, step=change.step + self.steps, old=old, new=new)

    def _of_change(self, change: InputChange) -> InputChange:
        return self.drifts.of_change(replace(change, row=self._event_row(change.row), step=change.step + self.steps))

    def _event_row(self, number: int) -> int:
        """Return the row of an event; a model that was promoted has learned earlier rows of the run beside another."""
        row = self._row(number)
        first, shift = self.rows[-1] if self.rows else (0, 0)
        return row if row >= 0 else row + first + shift

    def _of_drift(self, drift: Drift) -> Drift:
        over = None if drift.ended_at_row is None else self._event_row(drift.ended_at_row)
        row, detected = self._event_row(drift.row), self._event_row(drift.detected_at_row)
        own = replace(drift, row=row, step=drift.step + self.steps, detected_at_row=detected, ended_at_row=over)
        return self.drifts.of(own)
