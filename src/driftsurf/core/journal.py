"""The journal: a record of every decision of a strategy, bounded in memory and complete in a sink."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Protocol

from driftsurf.core.decisions import TOLD, Decision, ModelRecord, Transition
from driftsurf.core.drifts import Drift, Drifts, InputChange, InputChanges
from driftsurf.core.expert_names import plain_expert
from driftsurf.core.frames import html_table
from driftsurf.core.json_text import parse_json
from driftsurf.core.predictions import RecentPredictions
from driftsurf.core.views import Transitions
from driftsurf.core.wording import counted

__all__ = ["Journal"]

SHOWN = 20
"""Number of transitions that a notebook shows."""


class Outcome(Protocol):
    """A step whose decision is made when somebody asks for it."""

    @property
    def transitions(self) -> int:
        """Number of transitions."""
        ...

    @property
    def rows_seen(self) -> int:
        """Number of rows up to and including this step."""
        ...

    def decision(self) -> Decision:
        """Return the decision."""
        ...


class Decided:
    """The outcome of a step whose decision has been made."""

    __slots__ = ("_decision",)

    def __init__(self, decision: Decision) -> None:
        self._decision = decision

    @property
    def transitions(self) -> int:
        """Number of transitions."""
        return len(self._decision.transitions)

    @property
    def rows_seen(self) -> int:
        """Number of rows up to and including this step."""
        return self._decision.rows_seen

    def decision(self) -> Decision:
        """Return the decision."""
        return self._decision


class Journal:
    """Record of the last ``limit`` decisions and the last ``limit`` transitions.

    The journal is not part of the saved state of a model. To keep it across restarts, pass a sink that writes it.

    Parameters
    ----------
    limit
        Number of decisions, and of transitions, to hold in memory.
    sink
        Called with every decision.

    Examples
    --------
    >>> journal = Journal(limit=2)
    >>> for step in range(3):
    ...     journal.record(Decision(step, 10 * step, 10, "stable", 0, 0, 0, models=()))
    >>> [decision.step for decision in journal], journal.steps_recorded
    ([1, 2], 3)
    """

    def __init__(self, limit: int = 10_000, sink: Callable[[Decision], None] | None = None) -> None:
        self.limit = limit
        self.sink = sink
        self.steps_recorded: int = 0
        self.predictions: RecentPredictions = RecentPredictions()
        self._decisions: deque[Decision | Outcome] = deque(maxlen=limit)
        self._known: deque[Transition] = deque(maxlen=limit)
        self._unread: deque[Outcome] = deque(maxlen=limit)
        """Steps with transitions that nobody has asked for yet."""

    @property
    def _transitions(self) -> deque[Transition]:
        while self._unread:
            self._known.extend(self._unread[0].decision().transitions)
            self._unread.popleft()
        return self._known

    def record(self, decision: Decision) -> None:
        """Add a decision and its transitions."""
        self._decisions.append(decision)
        if decision.transitions:
            self._transitions.extend(decision.transitions)
        self.steps_recorded += 1
        if self.sink is not None:
            self.sink(decision)

    def record_later(self, outcome: Outcome) -> None:
        """Add a step whose decision is made when somebody reads it."""
        if self.sink is not None:
            self.record(outcome.decision())
            return
        self._decisions.append(outcome)
        if outcome.transitions:
            self._unread.append(outcome)
        self.steps_recorded += 1

    @property
    def rows_seen(self) -> int:
        """Number of rows up to and including the last step in memory; 0 if there is none."""
        return self._decisions[-1].rows_seen if self._decisions else 0

    @property
    def transitions(self) -> Transitions:
        """Transitions in memory, oldest first."""
        return Transitions(self._transitions)

    @property
    def drifts(self) -> Drifts:
        """Drifts of the decisions in memory, oldest first."""
        return drifts_of(self)

    def __len__(self) -> int:
        return len(self._decisions)

    def __iter__(self) -> Iterator[Decision]:
        return map(_made, self._decisions)

    def __getitem__(self, index: int) -> Decision:
        return _made(self._decisions[index])

    def __repr__(self) -> str:
        return f"<Journal: {self.steps_recorded} steps, {len(self._transitions)} transitions>"

    def _repr_html_(self) -> str:
        """Return a table of the last transitions, for notebooks."""
        count = len(self._transitions)
        head = f"{self.steps_recorded:,} steps, {counted(count, 'transition')}"
        if not count:
            return f"<p>Journal: {head}</p>"
        last = list(self._transitions)[-SHOWN:]
        named = any(one.expert for one in last)
        lines = [(str(one.step), one.phrase, one.reason, *[plain_expert(one.expert)] * named) for one in last]
        shown = "" if count == len(last) else f"; the last {len(last)} are shown"
        return html_table(("step", "what happened", "reason", *["expert"] * named), lines, f"Journal: {head}{shown}")

    def explain(self) -> str:
        """Describe every transition in words, one per line."""
        return "\n".join(transition.describe() for transition in self._transitions)

    def to_jsonl(self) -> str:
        """Return the decisions in memory as JSON lines, each step followed by its transitions."""
        return "".join(json_lines(self))


def _made(one: Decision | Outcome) -> Decision:
    return one if isinstance(one, Decision) else one.decision()


def json_lines(decisions: Iterable[Decision]) -> Iterator[str]:
    """Yield a line of JSON for each step, each transition, each drift and each move of the inputs, in order."""
    for decision in decisions:
        yield _line(decision.to_dict())
        for record in (*decision.transition_dicts(), *decision.drift_dicts()):
            yield _line(record)


def drifts_of(decisions: Iterable[Decision]) -> Drifts:
    """Return the drifts that decisions recorded, each as the last of them has it."""
    return Drifts.merged(drift for decision in decisions for drift in decision.drifts)


def changes_of(decisions: Iterable[Decision]) -> InputChanges:
    """Return the moves of the inputs alone that decisions recorded."""
    return InputChanges(change for decision in decisions for change in decision.changes)


def read_lines(text: str) -> list[Decision]:
    """Return the decisions that were written as these lines; other kinds of lines are skipped.

    Numbers that were not finite are read as None.
    """
    decisions: list[Decision] = []
    for line in text.splitlines():
        record = parse_json(line)
        kind = record.pop("type")
        if kind == "step":
            del record["rows_seen"]
            for each in ("models", "others"):
                record[each] = tuple(ModelRecord(**model) for model in record.get(each, ()))
            decisions.append(Decision(**record | {"reacting": tuple(record.get("reacting", ()))}))
        elif kind == "transition":
            del record["text"]
            last = decisions[-1]
            if last.experts and record["kind"] not in TOLD:  # journals of earlier versions do not name the expert
                record.setdefault("expert", last.experts[record["new"] % len(last.experts)])
            decisions[-1] = replace(last, transitions=(*last.transitions, Transition(**record)))
        elif kind == "drift" and decisions:  # an order may have changed it after the last step of a file that is gone
            last = decisions[-1]
            decisions[-1] = replace(last, drifts=(*last.drifts, Drift.from_dict(record)))
        elif kind == "inputs":
            last = decisions[-1]
            decisions[-1] = replace(last, changes=(*last.changes, InputChange.from_dict(record)))
    return decisions


def _line(record: dict[str, Any]) -> str:
    return json.dumps(record, separators=(",", ":"), allow_nan=False) + "\n"
