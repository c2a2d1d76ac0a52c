"""What a served model keeps besides its sessions: encoding, waiting rows, request keys, challengers, restore points."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from driftsurf.core.contracts import IncrementalState, State
from driftsurf.core.fields import Fields, Json, Whole
from driftsurf.core.measures import rare_class
from driftsurf.core.state import nest, pick
from driftsurf.data.encoding import TableEncoder
from driftsurf.data.log.records import ColumnKind, Record, read_rows
from driftsurf.data.source import Position
from driftsurf.data.target import Task
from driftsurf.evaluation.baselines import Baselines
from driftsurf.evaluation.rare import RareClass
from driftsurf.service.contest import Contest
from driftsurf.service.joining import Joiner
from driftsurf.service.request_keys import RequestKeys
from driftsurf.session.session import Session

__all__ = ["AnswerErrors", "Challenger", "Fold", "SavedPoint", "saved_order"]

RECENT_STEPS, RECENT_ROWS = 5, 500
"""The status reports the error of the answers over the last steps: five, or as many as have this number of rows."""


@dataclass(slots=True)
class Challenger:
    """How a challenger was made, and whether it still learns."""

    options: dict[str, Any] = field(default_factory=dict)
    failed: str = ""


class SavedPoint(NamedTuple):
    """A checkpoint to which the leading model can return."""

    number: int
    position: int
    version: int
    time: float


class StepError(NamedTuple):
    """Error of the answers to the rows of a step, and that of the trivial rule; mean squared errors for regression."""

    rows: int
    error: float
    trivial: float


class ErrorFigures(NamedTuple):
    """Errors as the status reports them."""

    rows: int = 0
    """Rows of the last steps."""
    error: float = math.nan
    usual: float = math.nan
    trivial: float = math.nan


@dataclass(frozen=True, slots=True)
class AnswerErrors:
    """Errors of the answers of the last steps and of all steps, and those of trivial rules, after one step.

    A row that came with its label, or was answered before there was a model, counts by its prediction just before it
    was learned. The first step of a model that has learned nothing does not count.
    """

    last: Sequence[StepError] = ()
    """The last steps that are reported."""
    rows: int = 0
    """Number of rows learned."""
    scored: int = 0
    total: float = 0.0
    """Number of the rows that count, and the sum of their errors."""
    rules: Mapping[str, float] = field(default_factory=dict)
    """For each trivial rule, the sum of its errors on the rows that count."""
    classes: Mapping[Any, Sequence[int]] = field(default_factory=dict)
    """For each class, of the rows that count: its rows, those predicted as it, and those of them that are right."""

    def after(
        self,
        rows: int,
        error: float,
        trivial: Mapping[str, float],
        *,
        counts: bool = True,
        true: Any = (),
        predicted: Any = (),
    ) -> AnswerErrors:
        """Return the errors after a step; one that was predicted before anything was learned does not count.

        ``trivial`` has the error of each trivial rule, that of the most frequent class or the mean first; ``true`` and
        ``predicted`` are the classes of the rows, empty for regression.
        """
        if not counts:
            return replace(self, rows=self.rows + rows)
        classes = {label: list(found) for label, found in self.classes.items()}
        for place, labels in enumerate((true, predicted, true[true == predicted] if len(true) else ())):
            for label, count in Counter(np.asarray(labels).tolist()).items():
                classes.setdefault(label, [0, 0, 0])[place] += count
        return AnswerErrors(
            _recent([*self.last, StepError(rows, error, next(iter(trivial.values())))]),
            self.rows + rows,
            self.scored + rows,
            self.total + rows * error,
            {name: self.rules.get(name, 0.0) + rows * one for name, one in trivial.items()},
            classes,
        )

    def baselines(self, rare: RareClass | None, *, regression: bool) -> Baselines:
        """Return the error over all rows that count beside those of the trivial rules, in the unit of the label."""
        measure = "root mean squared error" if regression else "mean error"
        if not self.scored:
            return Baselines(measure, math.nan, dict.fromkeys(self.rules, math.nan), learned=False)
        means = {name: _in_unit(total / self.scored, regression) for name, total in self.rules.items()}
        return Baselines(measure, _in_unit(self.total / self.scored, regression), means, rare=rare)

    def rare(self, average_precision: Callable[[Any], float] = lambda label: math.nan) -> RareClass | None:
        """Return how well the rare class is found; None if labels are not imbalanced."""
        classes = self.classes
        label = rare_class({label: rows for label, (rows, _, _) in classes.items()})
        if label is None:
            return None
        rows, predicted, right = classes[label]
        share = rows / sum(found[0] for found in classes.values())
        precision = right / predicted if predicted else math.nan
        return RareClass(label, share, right / rows, precision, average_precision(label))

    def figures(self, *, regression: bool = False) -> ErrorFigures:
        """Return the errors over the last steps and over all, in the unit of the label; NaN without any."""
        last = self.last
        rows = sum(one.rows for one in last)
        if not rows:
            return ErrorFigures()
        own, trivial = (sum(one.rows * one[place] for one in last) / rows for place in (1, 2))
        found = own, self.total / self.scored, trivial
        return ErrorFigures(rows, *(_in_unit(one, regression) for one in found))


def _in_unit(error: float, regression: bool) -> float:
    """Return a share of rows as it is, or the root of a mean squared error."""
    return math.sqrt(error) if regression else error


def _recent(steps: list[StepError]) -> list[StepError]:
    """Return the last steps of these that are reported."""
    rows = 0
    for count, step in enumerate(reversed(steps), 1):
        rows += step.rows
        if count >= RECENT_STEPS and rows >= RECENT_ROWS:
            return steps[-count:]
    return steps


@dataclass(slots=True)
class Fold:
    """Everything besides the sessions that follows from the log, as a source whose rows are pushed.

    ``labels``, ``skipped`` and ``batches`` are those of a source that has nothing to be pulled.
    """

    columns: tuple[ColumnKind, ...]
    task: Task
    encoder: TableEncoder
    joiner: Joiner
    keys: RequestKeys
    contest: Contest = field(default_factory=Contest)
    errors: AnswerErrors = field(default_factory=AnswerErrors)
    challengers: dict[str, Challenger] = field(default_factory=dict)
    dismissed: set[str] = field(default_factory=set)
    """Names of challengers that were dismissed, and not ordered again since."""
    order: list[str] = field(default_factory=list)
    """Names of the models, the leading one first."""
    points: list[SavedPoint] = field(default_factory=list)
    lines: int = 0
    """Number of lines of the journal at the last checkpoint."""
    step_time: float = 0.0
    """Time of the record that completed the step that is learned."""
    leading: Callable[[], Session] = lambda: None  # type: ignore[return-value,assignment]
    """Returns the session of the leading model; set by its run."""
    labels: tuple[Any, ...] = ()
    skipped: int = 0

    def join(self, records: Sequence[Record], joiner: Joiner | None = None) -> None:
        """Apply records of rows, labels and ticks to the joiner, or to another one."""
        blocks = [record.rows for record in records if record.rows is not None]
        X = self.encoder.transform(read_rows(blocks, self.columns)) if blocks else None
        (self.joiner if joiner is None else joiner).join(records, X)

    def batches(self, position: Position = None) -> Iterator[tuple[Any, Any, Position]]:
        """Yield nothing."""
        return iter(())

    def committed(self, position: Position) -> None:
        """Do nothing: the log of the service is its own."""

    def bad_rows(self) -> str:
        """Return "": bad rows are refused before they are logged."""
        return ""

    def state(self) -> IncrementalState:
        """Return everything, for a checkpoint."""
        state: IncrementalState = {
            "challengers": json.dumps({name: asdict(one) for name, one in self.challengers.items()}),
            "order": json.dumps(self.order),
            "points": json.dumps(self.points),
            "lines": self.lines,
            "errors": json.dumps(asdict(self.errors) | {"classes": list(self.errors.classes.items())}),
        }
        if self.dismissed:
            state["dismissed"] = json.dumps(sorted(self.dismissed))
        state |= nest("encoder", self.encoder.state())
        parts: dict[str, Mapping[str, Any]] = {
            "joiner": self.joiner.state(),
            "keys": self.keys.state(),
            "contest": self.contest.state(),
        }
        for name, part in parts.items():
            state |= nest(name, part)
        return state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state()`` returned."""
        known = FIELDS.read(state)
        self.challengers, self.order, self.points, self.lines, self.errors = (
            known[name] for name in ("challengers", "order", "points", "lines", "errors")
        )
        self.dismissed = set(known.get("dismissed", ()))
        self.encoder = TableEncoder.from_state(pick("encoder", state))
        self.joiner.restore(pick("joiner", state))
        self.keys.restore(pick("keys", state))
        self.contest.restore(pick("contest", state))


def _read_challengers(saved: Any) -> dict[str, Challenger]:
    """Return saved challengers; ValueError or TypeError if they are not valid."""
    return {name: Challenger(dict(one["options"]), str(one["failed"])) for name, one in saved.items()}


def _read_points(saved: Any) -> list[SavedPoint]:
    """Return saved restore points; ValueError or TypeError if they are not valid."""
    points = [SavedPoint(*point) for point in saved]
    if not all(type(one.number) is int and type(one.position) is int for one in points):
        raise ValueError("must be checkpoints and positions")
    return points


def _read_errors(saved: Any) -> AnswerErrors:
    """Return saved errors; ValueError or TypeError if they are not valid."""
    last = [StepError(int(rows), float(error), float(trivial)) for rows, error, trivial in saved["last"]]
    rows = int(saved["rows"])
    classes = {label: [int(count) for count in counts] for label, counts in saved.get("classes", ())}
    if not all(len(counts) == len(("rows", "predicted", "right")) for counts in classes.values()):
        raise ValueError("each class must have three counts")
    rules = {str(name): float(total) for name, total in saved.get("rules", {}).items()}
    return AnswerErrors(_recent(last), rows, int(saved.get("scored", rows)), float(saved["total"]), rules, classes)


def _read_names(saved: Any) -> list[str]:
    """Return saved names of models; ValueError if they are not valid."""
    if not (isinstance(saved, list) and saved and all(isinstance(name, str) for name in saved)):
        raise ValueError("must be names of models")
    return saved


FIELDS = Fields(
    {
        "challengers": Json(_read_challengers),
        "order": Json(_read_names),
        "dismissed": Json(_read_names),
        "points": Json(_read_points),
        "lines": Whole(),
        "errors": Json(_read_errors),
    },
    optional=["dismissed"],
    parts=["encoder", "joiner", "keys", "contest"],
)
"""Saved entries besides the models; the parts declare their own."""


def saved_order(state: State) -> tuple[list[str], dict[str, Challenger]]:
    """Return the names of the models in a checkpoint, the leading one first, and its challengers."""
    part = pick("source", state)
    known = Fields({name: FIELDS.entries[name] for name in ("challengers", "order")}).take(part)[0]
    return known["order"], known["challengers"]
