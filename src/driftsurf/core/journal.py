"""The journal: a record of every decision of a strategy, bounded in memory and complete in a sink."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from driftsurf.core.decisions import Decision, ModelRecord, Transition
from driftsurf.visible import escape

__all__ = ["Journal", "RecentPredictions"]

SHOWN = 20
"""Number of transitions that a notebook shows."""
MOST_ROWS = 100_000
"""Number of predicted rows that a journal holds in memory: 4 MB with two classes."""
MOST_SCORES = 20
"""Scores of a row that are held; with more classes there are none."""
MOST_CALLS = 256
"""Number of calls whose predictions are held apart before they are joined."""
PREDICTED = "row", "true", "predicted", "log_loss"
"""Columns of the predictions that a journal holds, beside their scores."""
_Call: TypeAlias = tuple[
    int, npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[np.float64], Callable[[], npt.NDArray[np.float64]]
]
"""Next row, true and predicted codes, scores, and a function that returns log losses."""


class RecentPredictions:
    """The last predictions that were made before their rows were learned.

    They take the memory of ``limit`` rows with one score each, so there are fewer rows with more scores.

    Examples
    --------
    >>> recent = RecentPredictions(limit=3)
    >>> for row in (0, 2):
    ...     recent.add(row + 2, np.array([1, 0]), np.array([1, 1]), np.array([2.2, 0.4]), lambda: np.array([0.1, 0.9]))
    >>> recent.table()["row"].tolist(), recent.table()["scores"].shape
    ([1.0, 2.0, 3.0], (3, 1))
    """

    def __init__(self, limit: int = MOST_ROWS) -> None:
        self.limit = limit
        self._waiting = 0
        self._joined: npt.NDArray[np.float64] = np.zeros((len(PREDICTED), 0))
        self._scores: npt.NDArray[np.float64] = np.zeros((0, 1))
        self._calls: list[_Call] = []

    def add(
        self,
        next_row: int,
        true: npt.NDArray[Any],
        predicted: npt.NDArray[Any],
        scores: npt.NDArray[np.float64],
        log_losses: Callable[[], npt.NDArray[np.float64]],
    ) -> None:
        """Add the rows before ``next_row``: codes of classes, or numbers. Log losses are computed later."""
        self._calls.append((next_row, true, predicted, scores, log_losses))
        self._waiting += len(true)
        if len(self._calls) >= MOST_CALLS or self._waiting >= self.limit:
            self._join()

    def __reduce__(self) -> tuple[type[RecentPredictions], tuple[int]]:
        """Leave the predictions out of pickles and copies."""
        return type(self), (self.limit,)

    def table(self) -> dict[str, npt.NDArray[np.float64]]:
        """Return the columns ``row`` (its number), ``true``, ``predicted`` and ``log_loss``, oldest row first.

        ``scores`` has one column with margins, or a column of log-probabilities for each class; no column if there are
        too many classes.
        """
        self._join()
        return {**dict(zip(PREDICTED, self._joined, strict=True)), "scores": self._scores}

    def _join(self) -> None:
        """Join the calls to one table, and forget the oldest rows."""
        if not self._calls:
            return
        stops, true, predicted, scores, log_losses = zip(*self._calls, strict=True)
        rows = [np.arange(stop - len(part), stop) for stop, part in zip(stops, true, strict=True)]
        columns = rows, true, predicted, [compute() for compute in log_losses]
        new = np.stack([np.concatenate(parts) for parts in columns])
        before = self._scores[:, 0] if self._scores.shape[1] == 1 else self._scores
        width = max(1 if part.ndim == 1 else max(2, part.shape[1]) for part in (before, *scores))
        width = 0 if width > MOST_SCORES or not self._scores.shape[1] else width
        kept = self.limit * (len(PREDICTED) + 1) // (len(PREDICTED) + max(width, 1))
        self._joined = np.concatenate([self._joined, new], axis=1)[:, -kept:]
        self._scores = np.concatenate([_widened(part, width) for part in (before, *scores)])[-kept:]
        self._calls.clear()
        self._waiting = 0


def _widened(scores: npt.NDArray[np.float64], width: int) -> npt.NDArray[np.float64]:
    """Return scores with this many columns: margins become log-probabilities, and an unknown class has none."""
    if width <= 1:
        return scores[:, None] if width else np.zeros((len(scores), 0))
    logs = -np.logaddexp(0.0, np.column_stack([scores, -scores])) if scores.ndim == 1 else scores
    return np.pad(logs, ((0, 0), (0, width - logs.shape[1])), constant_values=-np.inf)


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
        self._decisions: deque[Decision] = deque(maxlen=limit)
        self._transitions: deque[Transition] = deque(maxlen=limit)

    def record(self, decision: Decision) -> None:
        """Add a decision and its transitions."""
        self._decisions.append(decision)
        self._transitions.extend(decision.transitions)
        self.steps_recorded += 1
        if self.sink is not None:
            self.sink(decision)

    @property
    def transitions(self) -> list[Transition]:
        """Transitions in memory, oldest first."""
        return list(self._transitions)

    def __len__(self) -> int:
        return len(self._decisions)

    def __iter__(self) -> Iterator[Decision]:
        return iter(self._decisions)

    def __getitem__(self, index: int) -> Decision:
        return self._decisions[index]

    def __repr__(self) -> str:
        return f"<Journal: {self.steps_recorded} steps, {len(self._transitions)} transitions>"

    def _repr_html_(self) -> str:
        """Return a table of the last transitions, for notebooks."""
        count = len(self._transitions)
        head = f"{self.steps_recorded:,} steps, {count:,} transition{'s' * (count != 1)}"
        if not count:
            return f"<p>Journal: {head}</p>"
        last = list(self._transitions)[-SHOWN:]
        lines = [(str(one.step), one.phrase, one.reason) for one in last]
        left = ' style="text-align:left"'
        rows = "".join("<tr>" + "".join(f"<td{left}>{escape(cell)}</td>" for cell in line) + "</tr>" for line in lines)
        shown = "" if count == len(last) else f"; the last {len(last)} are shown"
        return (
            f"<table><caption>Journal: {head}{shown}</caption>"
            f"<thead><tr><th{left}>step</th><th{left}>what happened</th><th{left}>reason</th></tr></thead>"
            f"<tbody>{rows}</tbody></table>"
        )

    def explain(self) -> str:
        """Describe every transition in words, one per line."""
        return "\n".join(transition.describe() for transition in self._transitions)

    def to_jsonl(self) -> str:
        """Return the decisions in memory as JSON lines, each step followed by its transitions."""
        return "".join(json_lines(self._decisions))


def json_lines(decisions: Iterable[Decision]) -> Iterator[str]:
    """Yield a line of JSON for each step and each transition, in order."""
    for decision in decisions:
        yield _line(decision.to_dict())
        for transition in decision.transition_dicts():
            yield _line(transition)


def read_lines(text: str) -> list[Decision]:
    """Return the decisions that were written as these lines; other kinds of lines are skipped.

    Numbers that were not finite are read as None.
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
