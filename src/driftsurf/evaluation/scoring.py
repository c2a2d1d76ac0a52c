"""What is counted of each step and model: the rows of a trace."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from driftsurf.base import State
from driftsurf.decisions import Decision
from driftsurf.evaluation.trace import OTHER, column_names, csv_head, csv_line
from driftsurf.runtime.session import Observation
from driftsurf.streams.base import Drift

__all__ = ["Described", "Scorebook", "TraceRecorder"]

_NOTHING: dict[str, Any] = {"state": "", "predicted_by": -1, "trained_from": -1}


class Scorebook:
    """Makes the trace's rows, remembering only what the next ones need. Without labels, targets are values.

    Where more classes may come than are named, the last of ``labels`` is ``OTHER`` and counts all of those.

    Examples
    --------
    >>> book = Scorebook(labels=(-1, 1))
    >>> y, predicted = np.array([1, 1, -1]), np.array([1, -1, -1])
    >>> book.step(y)
    >>> row = book.row("model", y, predicted, None, ())
    >>> row["errors"], row["persistence_errors"], row["predicted:-1"]
    (1, 2, 2)
    """

    def __init__(self, labels: tuple[Any, ...]) -> None:
        self.labels = labels
        self.step_number = -1
        self.first_row = self._next_row = 0
        self._previous: Any = None
        """The label, or value, of the last row; None before it."""
        self._seen = 0.0, 0
        """Of values: the sum and the number of all before this batch."""
        self._simple: dict[str, float] = {}
        """Of this batch: the errors of predicting that the last label comes again, and for values the mean so far."""
        self._latest: dict[str, dict[str, Any]] = {}

    def step(self, y: npt.NDArray[Any]) -> None:
        """A new batch, with these labels."""
        self.step_number += 1
        self.first_row, self._next_row = self._next_row, self._next_row + len(y)
        if self.labels:
            wrong = self._previous is None or y[0] != self._previous
            self._simple = {"persistence_errors": int(wrong) + int(np.count_nonzero(y[1:] != y[:-1]))}
        else:
            before = y[0] if self._previous is None else self._previous
            total, count = self._seen
            self._simple = {
                "persistence_error": float(np.mean(np.square(y - np.append(before, y[:-1])))),
                "constant_error": float(np.mean(np.square(y - total / max(count, 1)))),
            }
            self._seen = total + float(np.sum(y)), count + len(y)
        self._previous = y[-1].item()

    def row(
        self,
        model: str,
        y: npt.NDArray[Any],
        predicted: npt.NDArray[Any],
        losses: npt.NDArray[np.float64] | None,
        decisions: Sequence[Decision],
    ) -> dict[str, Any]:
        """What one model did with the batch."""
        before = self._latest.get(model, _NOTHING)
        first = _kept(decisions[0]) if decisions else before  # the model that predicted when the rows came
        self._latest[model] = latest = _kept(decisions[-1]) if decisions else before
        row = {
            "step": self.step_number,
            "model": model,
            "first_row": self.first_row,
            "rows": len(y),
            "state": latest["state"],
            "transition": "+".join(t.kind for d in decisions for t in d.transitions),
            "predicted_by": first["predicted_by"],
            "trained_from": first["trained_from"],
            "gradients": sum(d.gradients for d in decisions),
        }
        return row | (self._of_classes(y, predicted, losses) if self.labels else self._of_values(y, predicted))

    def _of_classes(
        self, y: npt.NDArray[Any], predicted: npt.NDArray[Any], losses: npt.NDArray[np.float64] | None
    ) -> dict[str, Any]:
        missed = predicted != y
        wrong = int(np.count_nonzero(missed))
        row = {
            "errors": wrong,
            "error": wrong / len(y),
            "log_loss": float(np.mean(losses)) if losses is not None else float("nan"),
            **self._simple,
        }
        return row | self._counts("true", y) | self._counts("predicted", predicted) | self._counts("wrong", y[missed])

    def _counts(self, what: str, labels: npt.NDArray[Any]) -> dict[str, int]:
        named = [label for label in self.labels if label != OTHER]
        counts = {f"{what}:{label}": int(np.count_nonzero(labels == label)) for label in named}
        if len(named) < len(self.labels):
            counts[f"{what}:{OTHER}"] = len(labels) - sum(counts.values())
        return counts

    def _of_values(self, y: npt.NDArray[Any], predicted: npt.NDArray[Any]) -> dict[str, Any]:
        return {
            "squared_error": float(np.mean(np.square(predicted - y))),
            "absolute_error": float(np.mean(np.abs(predicted - y))),
            **self._simple,
        }

    def state(self) -> State:
        """What the next rows need."""
        return {
            "step": self.step_number,
            "next_row": self._next_row,
            "previous": json.dumps(self._previous),
            "sum": self._seen[0],
            "count": self._seen[1],
            "latest": json.dumps(self._latest),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state()`` gave."""
        self.step_number, self._next_row = int(state["step"]), int(state["next_row"])
        self._previous = json.loads(state["previous"])
        self._seen = float(state["sum"]), int(state["count"])
        self._latest = json.loads(state["latest"])


def _kept(decision: Decision) -> dict[str, Any]:
    return {name: getattr(decision, name) for name in _NOTHING}


class Described(Protocol):
    """What a trace says of the stream that it is of."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def classes(self) -> Sequence[Any]:
        """The labels; none where values are predicted."""
        ...

    @property
    def drifts(self) -> Sequence[Drift]:
        """The true drifts, if they are known."""
        ...


class TraceRecorder:
    """Writes the trace of a run over a stream line by line, just as ``Trace.save`` would at its end."""

    def __init__(self, stream: Described, batch_size: int, untaught: int = 0) -> None:
        self.stream = stream
        self.batch_size = batch_size
        self.untaught = untaught
        self._book = Scorebook(tuple(stream.classes))

    def head(self) -> str:
        """What stands before the first line."""
        stream = self.stream
        head = csv_head(stream.name, self.batch_size, tuple(stream.drifts), self._book.labels, self.untaught)
        return head + csv_line(column_names(self._book.labels))

    def lines(self, y: npt.NDArray[Any], seen: Mapping[str, Observation]) -> str:
        """One line for each model; none if no row could be scored."""
        if not len(y):
            return ""
        self._book.step(y)
        rows = (self._book.row(name, y, one.labels, one.log_losses(), one.decisions) for name, one in seen.items())
        names = column_names(self._book.labels)
        return "".join(csv_line(row[name] for name in names) for row in rows)

    def state(self) -> State:
        """What the next lines need."""
        return self._book.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state()`` gave."""
        self._book.restore(state)
