"""Scores of each step and model: the rows of a trace."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import State
from driftsurf.core.decisions import Decision
from driftsurf.core.fields import Fields, Json, Real, Whole
from driftsurf.evaluation.trace import (
    ESTIMATE_COLUMNS,
    KIND_SEPARATOR,
    LATE_COLUMNS,
    LATER,
    OTHER,
    PER_CLASS,
    TIME,
    column_names,
    csv_head,
)
from driftsurf.session.observation import Observation, Origin
from driftsurf.streams.base import DriftSpan

MOST_CLASSES = 50
"""Classes that are counted one by one, if more may appear; all others are counted together."""
MOST_PAST = 1000
"""Steps after which it is remembered what the trivial rules predicted then, for rows whose labels come late."""
_NOTHING: dict[str, Any] = {"state": "", "predicted_by": -1, "trained_from": -1}
"""What a row says of a model that has not decided anything."""
_TRIVIAL = {
    True: (("majority_errors", "persistence_errors"), 0),
    False: (("constant_error", "persistence_error"), float("nan")),
}
"""Columns with the errors of trivial predictions, and their value where no row was scored, for classes and numbers."""
RULES = {True: ("majority", "persistence"), False: ("mean", "persistence")}
"""Names of the rules, in the order of these columns."""


class Scorebook:
    """Score batches and make the rows of a trace. Only what the next rows need is kept in memory.

    Parameters
    ----------
    labels
        The classes; empty for regression. If more classes may appear later, ``OTHER`` is among them.

    Examples
    --------
    >>> book = Scorebook(labels=(-1, 1))
    >>> y, predicted = np.array([1, 1, -1]), np.array([1, -1, -1])
    >>> book.step(y)
    >>> row = book.row("model", y, predicted, None, ())
    >>> row["errors"], row["persistence_errors"], row["predicted:-1"]
    (1, 2, 2)

    The trivial rules know the labels of the steps before this one, as the models do; of rows whose labels came late,
    those of the steps that were learned when the row was predicted. Before the first label they predict what an
    untrained model does: the first class, or 0.
    """

    def __init__(self, labels: tuple[Any, ...]) -> None:
        self.labels = labels
        self.step_number: int = -1
        self.first_row: int = 0
        self._next_row = 0
        self._previous: Any = None
        """The target of the last row; None before the first one."""
        self._past: dict[int, tuple[Any, Any]] = {}
        """What the trivial rules predicted before each of the last steps, where labels come late."""
        self._named = [label for label in labels if label != OTHER]
        """Classes that are counted one by one: those known at the beginning, then others in order of appearance."""
        self._open = len(self._named) < len(labels)
        self._known = len(self._named)
        """Number of classes known at the beginning."""
        self._before: dict[Any, int] = dict.fromkeys(self._named, 0)
        """Rows of each class before this batch."""
        self._true: dict[Any, int] = {}
        """Rows of each class in this batch."""
        self._seen = 0.0, 0
        """Regression: sum and number of all targets before this batch."""
        self._trivial: dict[str, float] = {}
        """Errors of the trivial predictions on this batch."""
        self._latest: dict[str, dict[str, Any]] = {}

    def step(
        self, y: npt.NDArray[Any], origin: Origin | None = None, lags: npt.NDArray[np.int64] | None = None
    ) -> None:
        """Begin a batch with these true targets; ``origin`` has its number and its first row if they came late.

        ``lags`` counts the steps that were learned between the prediction of each row and its label.
        """
        number, first = (self.step_number + 1, self._next_row) if origin is None else (origin.step, origin.first_row)
        self.step_number, self.first_row, self._next_row = number, first, first + len(y)
        self._true = self._tally(y) if self.labels else {}
        self._trivial = self._trivial_errors(y, lags)
        self._count(y)
        if origin is not None and len(origin.unscored):
            self._count(origin.unscored)

    def _trivial_errors(self, y: npt.NDArray[Any], lags: npt.NDArray[np.int64] | None) -> dict[str, float]:
        """Return the errors of the trivial rules, which know what had been learned when each row was predicted."""
        now = self._rules()
        groups = [(y, now)]
        if lags is not None:
            self._past[self.step_number] = now
            self._past = dict(list(self._past.items())[-MOST_PAST:])
            known = np.maximum(self.step_number - lags, next(iter(self._past)))
            groups = [(y[known == one], self._past.get(one, now)) for one in np.unique(known).tolist()]
        names, nothing = _TRIVIAL[bool(self.labels)]
        if not len(y):
            return dict.fromkeys(names, nothing)
        if self.labels:
            return {
                name: sum(int(np.count_nonzero(rows != made[k])) for rows, made in groups)
                for k, name in enumerate(names)
            }
        return {
            name: sum(float(np.sum(np.square(rows - made[k]))) for rows, made in groups) / len(y)
            for k, name in enumerate(names)
        }

    def _rules(self) -> tuple[Any, Any]:
        """Return what the two trivial rules predict now: the most frequent class or the mean, and the last label."""
        constant = self._majority() if self.labels else self._seen[0] / max(self._seen[1], 1)
        return constant, constant if self._previous is None else self._previous

    def _count(self, y: npt.NDArray[Any]) -> None:
        """Let the trivial rules learn targets."""
        if not len(y):
            return
        if self.labels:
            for label, count in self._tally(y).items():
                self._before[label] = self._before.get(label, 0) + count
        else:
            self._seen = self._seen[0] + float(np.sum(y)), self._seen[1] + len(y)
        self._previous = y[-1].item()

    @property
    def trivial_errors(self) -> dict[str, float]:
        """Mean error of each trivial rule on this batch: a share of rows, or a mean squared error for regression."""
        rows = sum(self._true.values()) if self.labels else 1
        found = zip(RULES[bool(self.labels)], self._trivial.values(), strict=True)
        return {name: error / rows if rows else float("nan") for name, error in found}

    def row(
        self,
        model: str,
        y: npt.NDArray[Any],
        predicted: npt.NDArray[Any],
        losses: npt.NDArray[np.float64] | None,
        decisions: Sequence[Decision],
        origin: Origin | None = None,
    ) -> dict[str, Any]:
        """Return the row of one model for the batch; ``origin`` names the model behind predictions made before."""
        before = self._latest.get(model, _NOTHING)
        # A call may complete several time steps. The model of the first one predicted the batch, because predictions
        # are made before anything is learned; the state is that after the last one.
        first = _standing(decisions[0]) if decisions else before
        if origin is not None:
            first = asdict(origin)
        self._latest[model] = latest = _standing(decisions[-1]) if decisions else before
        row = {
            "step": self.step_number,
            "model": model,
            "first_row": self.first_row,
            "rows": len(y),
            "state": latest["state"],
            "transition": KIND_SEPARATOR.join(t.kind for d in decisions for t in d.transitions),
            "predicted_by": first["predicted_by"],
            "trained_from": first["trained_from"],
            "gradients": sum(d.gradients for d in decisions),
        }
        row |= {} if origin is None else {name: first[name] for name in LATE_COLUMNS}
        return row | (self._classification(y, predicted, losses) if self.labels else self._regression(y, predicted))

    def _classification(
        self, y: npt.NDArray[Any], predicted: npt.NDArray[Any], losses: npt.NDArray[np.float64] | None
    ) -> dict[str, Any]:
        missed = predicted != y
        wrong = int(np.count_nonzero(missed))
        row: dict[str, Any] = {
            "errors": wrong,
            "error": wrong / len(y) if len(y) else float("nan"),
            "log_loss": float(np.mean(losses)) if losses is not None and len(y) else float("nan"),
            **self._trivial,
        }
        tallies = self._true, self._tally(predicted), self._tally(y[missed])
        named, later = self._named[: self._known], self._named[self._known :]
        row |= {
            f"{what}:{label}": tally[label] for what, tally in zip(PER_CLASS, tallies, strict=True) for label in named
        }
        if self._open:
            counts = [(label, *(tally.get(label, 0) for tally in tallies)) for label in later]
            together = [sum(n for label, n in tally.items() if label not in self._named) for tally in tallies]
            row[LATER] = [one for one in (*counts, (OTHER, *together)) if any(one[1:])]
        return row

    def _tally(self, labels: npt.NDArray[Any]) -> dict[Any, int]:
        """Return how often each class appears; a class that was not known gets a name, as long as there are names."""
        tally = {label: int(np.count_nonzero(labels == label)) for label in self._named}
        if sum(tally.values()) < len(labels):
            strange = labels[~np.isin(labels, self._named)] if self._named else labels
            found, counts = np.unique(strange, return_counts=True)
            tally |= dict(zip(found.tolist(), counts.tolist(), strict=True))
            if self._open:
                new = [label for label in found.tolist() if label != OTHER]
                self._named += new[: max(0, MOST_CLASSES - len(self._named))]
        return tally

    def _majority(self) -> Any:
        """Return the most frequent class before this batch; of equally frequent ones the first in order.

        Before the first row it is the class that an untrained model predicts: the first of those that are known.
        """
        known = self._before or self._true
        return max(sorted(known) if self._open else known, key=lambda label: self._before.get(label, 0))

    def _regression(self, y: npt.NDArray[Any], predicted: npt.NDArray[Any]) -> dict[str, Any]:
        error = predicted - y if len(y) else np.full(1, np.nan)
        return {
            "squared_error": float(np.mean(np.square(error))),
            "absolute_error": float(np.mean(np.abs(error))),
            **self._trivial,
        }

    def state(self) -> State:
        """Return what the next rows need, for a checkpoint."""
        return {
            "step": self.step_number,
            "next_row": self._next_row,
            "previous": json.dumps(self._previous),
            "named": json.dumps(self._named),
            "before": json.dumps(list(self._before.items())),
            "sum": self._seen[0],
            "count": self._seen[1],
            "latest": json.dumps(self._latest),
            **({"past": json.dumps(list(self._past.items()))} if self._past else {}),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Resume from what :meth:`state` returned."""
        known = FIELDS.read(state)
        self.step_number, self._next_row = known["step"], known["next_row"]
        self._named, self._before = known["named"], known["before"]
        self._seen = known["sum"], known["count"]
        self._previous, self._latest = known["previous"], known["latest"]
        self._past = known.get("past", {})


def _read_named(saved: Any) -> list[Any]:
    """Return the saved labels that are counted one by one; ValueError if they are not valid."""
    if not (isinstance(saved, list) and len(set(saved)) == len(saved)):
        raise ValueError("must be a list of labels")
    return saved


def _read_before(saved: Any) -> dict[Any, int]:
    """Return how often each label was seen; ValueError if that is not what was saved."""
    if not all(type(count) is int and count >= 0 for _, count in saved):
        raise ValueError("must be labels with counts")
    return dict(saved)


def _read_previous(value: Any) -> Any:
    """Return the saved target of the last row; ValueError if it is not valid."""
    if not isinstance(value, str | int | float | None):
        raise ValueError(f"{value!r} is not a target")
    return value


def _read_past(saved: Any) -> dict[int, tuple[Any, Any]]:
    """Return what the trivial rules predicted before the last steps; ValueError if that is not what was saved."""
    past = {step: (_read_previous(constant), _read_previous(last)) for step, (constant, last) in saved}
    if not all(type(step) is int for step in past):
        raise ValueError("must be steps with two predictions each")
    return past


def _read_latest(saved: Any) -> dict[str, dict[str, Any]]:
    """Return what the rows say of each model; ValueError if that is not what was saved."""
    if not all(one.keys() == _NOTHING.keys() for one in saved.values()):
        raise ValueError("each model must have " + ", ".join(_NOTHING))
    return dict(saved)


FIELDS = Fields(
    {
        "step": Whole(-1),
        "next_row": Whole(),
        "previous": Json(_read_previous),
        "named": Json(_read_named),
        "before": Json(_read_before),
        "sum": Real(finite=False),
        "count": Whole(),
        "latest": Json(_read_latest),
        "past": Json(_read_past),
    },
    optional=["past"],
)
"""Saved entries of a scorebook."""


def _standing(decision: Decision) -> dict[str, Any]:
    return {
        "state": decision.state,
        "predicted_by": decision.predicted_by,
        "trained_from": decision.trained_from,
    }


def csv_line(values: Iterable[Any]) -> str:
    """Return one line of a CSV file."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(values)
    return out.getvalue()


def _estimate(seen: Observation) -> dict[str, float]:
    """Return the columns of the estimated error, NaN if there is none."""
    found = seen.estimated_error
    return dict(zip(ESTIMATE_COLUMNS, (math.nan,) * 3 if found is None else found[:3], strict=True))


def _cell(value: Any) -> Any:
    """Return a value as the cell of a file: the counts of later classes as JSON, nothing if there are none."""
    if not isinstance(value, list):
        return value
    return json.dumps(value, separators=(",", ":")) if value else ""


class StreamInfo(Protocol):
    """What a trace records about its stream."""

    @property
    def name(self) -> str:
        """Name of the stream."""
        ...

    @property
    def classes(self) -> Sequence[Any]:
        """The labels; empty for regression."""
        ...

    @property
    def drifts(self) -> Sequence[DriftSpan]:
        """The true drifts; empty if they are not known."""
        ...


class StepReport(Protocol):
    """A function called after every step of every model, such as a progress bar or a watcher."""

    def __call__(self, step: int, model: str, error: float, decisions: tuple[Decision, ...]) -> None:
        """Report one step; ``error`` is a share of rows, or a root mean squared error for regression."""
        ...


class TraceRecorder:
    """Write the trace of a run line by line, as ``Trace.load`` reads it.

    The file differs from that of ``Trace.save`` where classes may appear later: each line has the counts of such
    classes in one column, because the columns of a file cannot grow.

    ``time`` returns the time of the first row of the batch that is being scored, if rows have one. With ``late``,
    labels come late: there is a line for each step that was learned, also if none of its rows had a prediction. With
    ``estimated``, there are columns for the estimated error.
    """

    def __init__(
        self,
        stream: StreamInfo,
        batch_size: int,
        warmup_steps: int = 0,
        *,
        time: Callable[[], str] | None = None,
        late: bool = False,
        estimated: bool = False,
    ) -> None:
        self.late = late
        self._estimated = estimated
        self.time = time
        self.stream = stream
        self.batch_size = batch_size
        self.warmup_steps = warmup_steps
        self._book = Scorebook(tuple(stream.classes))

    def head(self) -> str:
        """Return the text before the first row."""
        stream = self.stream
        head = csv_head(stream.name, self.batch_size, tuple(stream.drifts), self._book.labels, self.warmup_steps)
        return head + csv_line(self._names)

    @property
    def estimated(self) -> bool:
        """Whether lines have the estimated error."""
        return self._estimated

    @estimated.setter
    def estimated(self, estimated: bool) -> None:
        self._estimated = estimated
        vars(self).pop("_names", None)

    @cached_property
    def _names(self) -> list[str]:
        beside = {"late": self.late, "estimated": self.estimated}
        return column_names(self._book.labels, timed=self.time is not None, **beside)

    def lines(self, y: npt.NDArray[Any], seen: Mapping[str, Observation]) -> str:
        """Return one line for each model; an empty string if the batch has no true targets and was not learned."""
        origin = next(iter(seen.values())).origin
        if not len(y) and origin is None:
            return ""
        self._book.step(y, origin, next(iter(seen.values())).lags)
        begun = {} if self.time is None else {TIME: self.time()}
        rows = (
            self._book.row(name, y, one.labels, one.log_losses(), one.decisions, one.origin) | _estimate(one) | begun
            for name, one in seen.items()
        )
        return "".join(csv_line([_cell(row[name]) for name in self._names]) for row in rows)

    @property
    def counts(self) -> bool:
        """Whether the last step counts in mean errors: something had been learned before it was predicted."""
        return self._book.step_number >= self.warmup_steps

    @property
    def trivial_errors(self) -> dict[str, float]:
        """Mean error of each trivial rule at the last step: a share of rows, or a mean squared error for regression."""
        return self._book.trivial_errors

    def state(self) -> State:
        """Return what the next lines need, for a checkpoint."""
        return self._book.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Resume from what :meth:`state` returned."""
        self._book.restore(state)
