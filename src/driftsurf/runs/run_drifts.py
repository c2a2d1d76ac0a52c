"""Drifts of a run, whose numbers continue when its model returns to an earlier state or is replaced."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Self

from driftsurf.core.drifts import MARKS, Drift, DriftMark, Drifts, InputChange

__all__ = ["KEPT", "RunDrifts"]

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

    def told(self, step: int) -> str:
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
