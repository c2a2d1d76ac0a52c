"""The journal: a record of every decision of a strategy, bounded in memory and complete in a sink."""

from __future__ import annotations

import itertools
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from driftsurf.core import numeric
from driftsurf.core.changes import RenewedLock
from driftsurf.core.contracts import FloatArray
from driftsurf.core.decisions import TOLD, Decision, ModelRecord, Transition, plain_expert
from driftsurf.core.drifts import Drift, Drifts, InputChange, InputChanges
from driftsurf.core.files import parse_json
from driftsurf.core.frames import html_table
from driftsurf.core.views import Transitions
from driftsurf.core.wording import counted
from driftsurf.native import maths

LEAST_PROBABILITY = 1e-15
"""Smallest probability in log loss, which keeps it finite."""
MOST_ROWS = 100_000
"""Number of predicted rows that are held in memory: 4 MB with two classes."""
MOST_SCORES = 20
"""Scores of a row that are held; with more classes there are none."""
MOST_CALLS = 1_000
"""Number of calls whose predictions are held apart; those of many small calls are joined to one table."""
PREDICTED = "row", "true", "predicted", "log_loss"
"""Columns of the predictions that are held, beside their scores."""


def log_losses(scores: FloatArray, true: npt.NDArray[Any]) -> FloatArray:
    """Return -log p(true class) of each row, with p of at least 1e-15.

    ``scores`` are log-odds (n,) of the class with code 1, or log-probabilities (n, K) by code.

    >>> log_losses(np.log([[0.2, 0.8], [0.5, 0.5]]), np.array([1, 0])).round(2)
    array([0.22, 0.69])
    """
    if scores.ndim == 1:
        margins = np.where(true == 1, -scores, scores)
        return np.maximum(margins, 0.0) + numeric.log1p(numeric.exp(-np.abs(margins)))
    logs = scores[np.arange(len(true)), true]
    return np.asarray(-np.maximum(logs, maths.log(LEAST_PROBABILITY)))


class _Call(NamedTuple):
    """Predictions of one call, or of several in a row."""

    rows: Any
    """Number of the row after those of one call, or the numbers of all rows."""
    true: npt.NDArray[Any]
    predicted: npt.NDArray[Any]
    scores: FloatArray
    probabilities: bool

    @property
    def kind(self) -> object:
        """Calls of the same kind have scores whose losses can be computed together."""
        return self.probabilities, self.scores.shape[1:]


class RecentPredictions:
    """The last predictions that were made before their rows were learned.

    They take the memory of ``limit`` rows with one score each, so there are fewer rows with more scores. Adding a call
    costs next to nothing: tables are put together, and losses computed, when somebody asks, from any thread.

    Examples
    --------
    >>> recent = RecentPredictions(limit=3)
    >>> for row in (0, 2):
    ...     recent.add(row + 2, np.array([1, 0]), np.array([1, 1]), np.array([2.2, 0.4]), probabilities=True)
    >>> recent.table()["row"].tolist(), recent.table()["scores"].shape
    ([1.0, 2.0, 3.0], (3, 1))
    """

    def __init__(self, limit: int = MOST_ROWS) -> None:
        self.limit = limit
        self._joined: FloatArray = np.zeros((len(PREDICTED), 0))
        self._scores: FloatArray = np.zeros((0, 1))
        self._packed: deque[_Call] = deque()
        """Predictions of many calls each, which are older than ..."""
        self._calls: deque[_Call] = deque()
        """... those of single calls."""
        self._waiting = 0
        """Number of rows in both."""
        self._lock = RenewedLock()

    def add(
        self,
        next_row: int,
        true: npt.NDArray[Any],
        predicted: npt.NDArray[Any],
        scores: FloatArray,
        probabilities: bool,
    ) -> None:
        """Add the rows before ``next_row``: codes of classes, or numbers, and their scores.

        ``probabilities`` says whether the scores are log-odds or log-probabilities.
        """
        with self._lock:
            self._calls.append(_Call(next_row, true, predicted, scores, probabilities))
            self._waiting += len(true)
            if len(self._calls) >= MOST_CALLS:
                self._pack()
            oldest = self._packed or self._calls
            while self._waiting - len(oldest[0].true) >= self.limit:  # the later ones are enough
                self._waiting -= len(oldest.popleft().true)
                oldest = self._packed or self._calls

    def __reduce__(self) -> tuple[type[RecentPredictions], tuple[int]]:
        """Leave the predictions out of pickles and copies."""
        return type(self), (self.limit,)

    def table(self) -> dict[str, FloatArray]:
        """Return the columns ``row`` (its number), ``true``, ``predicted`` and ``log_loss``, oldest row first.

        ``scores`` has one column with margins, or a column of log-probabilities for each class; no column if there are
        too many classes.
        """
        with self._lock:
            self._join()
            return {**dict(zip(PREDICTED, self._joined, strict=True)), "scores": self._scores}

    def _pack(self) -> None:
        """Put the predictions of single calls together; their losses are computed when somebody asks."""
        for _, group in itertools.groupby(self._calls, key=lambda call: call.kind):
            self._packed.append(_packed(list(group)))
        self._calls.clear()

    def _join(self) -> None:
        """Join the calls to one table, and forget the oldest rows."""
        self._pack()
        if not self._packed:
            return
        before = self._scores[:, 0] if self._scores.shape[1] == 1 else self._scores
        scores = before, *(call.scores for call in self._packed)
        width = max(1 if part.ndim == 1 else max(2, part.shape[1]) for part in scores)
        width = 0 if width > MOST_SCORES or not self._scores.shape[1] else width
        kept = self.limit * (len(PREDICTED) + 1) // (len(PREDICTED) + max(width, 1))
        self._joined = np.concatenate([self._joined, *map(_columns, self._packed)], axis=1)[:, -kept:]
        self._scores = np.concatenate([_widened(part, width) for part in scores])[-kept:]
        self._packed.clear()
        self._waiting = 0


def _packed(calls: list[_Call]) -> _Call:
    """Return the predictions of calls of the same kind as those of one."""
    rows = np.concatenate([np.arange(call.rows - len(call.true), call.rows) for call in calls])
    true, predicted, scores = (np.concatenate([call[place] for call in calls]) for place in range(1, 4))
    return _Call(rows, true, predicted, scores, calls[0].probabilities)


def _columns(call: _Call) -> FloatArray:
    """Return the columns of a table, without the scores."""
    losses = log_losses(call.scores, call.true) if call.probabilities else np.full(len(call.true), np.nan)
    return np.stack([call.rows, call.true, call.predicted, losses])


def _widened(scores: FloatArray, width: int) -> FloatArray:
    """Return scores with this many columns: margins become log-probabilities, and an unknown class has none."""
    if width <= 1:
        return scores[:, None] if width else np.zeros((len(scores), 0))
    logs = -np.logaddexp(0.0, np.column_stack([scores, -scores])) if scores.ndim == 1 else scores
    if logs.shape[1] == width:  # np.pad is slow, and calls may have a row each
        return logs
    return np.pad(logs, ((0, 0), (0, width - logs.shape[1])), constant_values=-np.inf)


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


class Noted(NamedTuple):
    """A step with the names of classes, which its transitions may be about, and what a drift monitor has noticed."""

    outcome: Outcome
    labels: Sequence[Any]
    drifts: tuple[Drift, ...] = ()
    """Drifts that were detected, changed or ended."""
    changes: tuple[InputChange, ...] = ()
    """Moves of the inputs alone."""

    @property
    def transitions(self) -> int:
        """Number of events that are reported at once."""
        return self.outcome.transitions + len(self.drifts) + len(self.changes)

    @property
    def rows_seen(self) -> int:
        """Number of rows up to and including this step."""
        return self.outcome.rows_seen

    def decision(self) -> Decision:
        """Return the decision."""
        made = self.outcome.decision().named(self.labels)
        if self.drifts or self.changes:
            made = replace(made, drifts=self.drifts, changes=self.changes)
        return made


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
        return map(_made, self._decisions.copy())  # another thread may learn meanwhile

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
