"""The journal: what was seen and decided at every step, bounded in memory, complete in a sink."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from driftsurf.decisions import Decision, ModelRecord, Transition

__all__ = ["Journal"]


class Journal:
    """The last ``limit`` steps and the last ``limit`` transitions; a sink gets everything.

    The journal is a record beside the model and no part of its saved state: to keep it across
    restarts, give a sink that writes.

    Parameters
    ----------
    limit
        How many steps, and how many transitions, are held in memory.
    sink
        Called with every decision as it is made.

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
        self.steps_recorded = 0
        self._decisions: deque[Decision] = deque(maxlen=limit)
        self._transitions: deque[Transition] = deque(maxlen=limit)

    def record(self, decision: Decision) -> None:
        """Add one decision and its transitions."""
        self._decisions.append(decision)
        self._transitions.extend(decision.transitions)
        self.steps_recorded += 1
        if self.sink is not None:
            self.sink(decision)

    @property
    def transitions(self) -> list[Transition]:
        """The transitions in memory, oldest first."""
        return list(self._transitions)

    def __len__(self) -> int:
        return len(self._decisions)

    def __iter__(self) -> Iterator[Decision]:
        return iter(self._decisions)

    def __getitem__(self, index: int) -> Decision:
        return self._decisions[index]

    def __repr__(self) -> str:
        return f"<Journal: {self.steps_recorded} steps, {len(self._transitions)} transitions>"

    def explain(self) -> str:
        """Every transition in words, one a line."""
        return "\n".join(transition.describe() for transition in self._transitions)

    def to_jsonl(self) -> str:
        """The decisions in memory as JSON lines: a step, then its transitions."""
        return "".join(json_lines(self._decisions))


def json_lines(decisions: Iterable[Decision]) -> Iterator[str]:
    """One JSON object a line for each step and each transition, in order."""
    for decision in decisions:
        yield _line(decision.to_dict())
        for transition in decision.transition_dicts():
            yield _line(transition)


def read_lines(text: str) -> list[Decision]:
    """The decisions that gave these lines; lines that are neither a step nor a transition are passed over.

    What was not finite is None.
    """
    decisions: list[Decision] = []
    for line in text.splitlines():
        record = json.loads(line)
        kind = record.pop("type")
        if kind == "step":
            del record["rows_seen"]
            models = tuple(ModelRecord(**model) for model in record.pop("models"))
            decisions.append(Decision(**record, models=models))
        elif kind == "transition":
            del record["text"]
            last = decisions[-1]
            decisions[-1] = replace(last, transitions=(*last.transitions, Transition(**record)))
    return decisions


def _line(record: dict[str, Any]) -> str:
    return json.dumps(record, separators=(",", ":"), allow_nan=False) + "\n"
