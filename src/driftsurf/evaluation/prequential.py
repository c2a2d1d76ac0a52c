"""Prequential evaluation: predict each batch, score it, then learn it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from driftsurf._options import whole
from driftsurf.base import Decision
from driftsurf.errors import OptionError
from driftsurf.evaluation.trace import Trace, TraceBuilder
from driftsurf.runtime.session import Observation
from driftsurf.streams.base import Stream

__all__ = ["StepReport", "prequential"]


class Observable(Protocol):
    """A model of this package: a session or a classifier."""

    def observe(self, X: Any, y: Any, *, classes: Any = None) -> Observation:
        """Predict, then learn."""
        ...


class StepReport(Protocol):
    """Called after every step of every model: for progress."""

    def __call__(self, step: int, model: str, error: float, decisions: tuple[Decision, ...]) -> None:
        """Report one step."""
        ...


def prequential(
    stream: Stream,
    models: Any,
    *,
    batch_size: int | None = None,
    on_step: StepReport | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Trace:
    """Run one or many models over a stream in one pass; every model meets the same batches.

    Parameters
    ----------
    stream
        Where the batches come from.
    models
        One model, or a dictionary of names to models. A model has ``observe`` (all of this package
        do), or ``predict`` and ``partial_fit`` as in scikit-learn. Such a one cannot predict before its
        first batch; there it is given the first class for every row, a guess like that of a fresh model.
    batch_size
        Rows in a time step; by default a hundredth of the stream, and at least one.
    on_step
        Called after each step of each model.
    clock
        Measures the seconds of each model, which are kept apart from the trace's columns.

    Examples
    --------
    >>> import driftsurf
    >>> from driftsurf.streams import SEA
    >>> trace = prequential(SEA(n_rows=10_000), driftsurf.paper(1e-3, 1e-2, random_state=0))
    >>> trace.models, len(trace.columns["error"])
    (('model',), 100)
    """
    if not isinstance(stream, Stream):
        raise OptionError(f"stream is {stream!r}; give a stream, such as driftsurf.streams.ArrayStream(X, y)")
    named: Mapping[str, Any] = models if isinstance(models, Mapping) else {"model": models}
    if not named:
        raise OptionError("models is empty: give at least one model to evaluate")
    if len({id(model) for model in named.values()}) < len(named):
        raise OptionError("the same model stands under two names: it would learn every batch twice. Give copies.")
    size = max(1, stream.n_rows // 100) if batch_size is None else whole("batch_size", batch_size, at_least=1)
    labels = tuple(stream.classes)
    builder = TraceBuilder(labels)
    seconds = dict.fromkeys(named, 0.0)
    latest: dict[str, Decision | None] = dict.fromkeys(named)
    first_row, previous = 0, None
    for step, (X, y) in enumerate(stream.batches(size)):
        persistence = np.empty(len(y), bool)
        persistence[0] = previous is None or y[0] != previous
        persistence[1:] = y[1:] != y[:-1]
        previous = y[-1]
        for name, model in named.items():
            begin = clock()
            predicted, losses, decisions = _test_then_train(model, X, y, labels)
            seconds[name] += clock() - begin
            wrong = int(np.count_nonzero(predicted != y))
            first = decisions[0] if decisions else latest[name]  # the model that predicted when the rows came
            decision = latest[name] = decisions[-1] if decisions else latest[name]
            row = {
                "step": step,
                "model": name,
                "first_row": first_row,
                "rows": len(y),
                "errors": wrong,
                "error": wrong / len(y),
                "log_loss": float(np.mean(losses)) if losses is not None else float("nan"),
                "persistence_errors": int(persistence.sum()),
                "state": decision.state if decision else "",
                "transition": "+".join(t.kind for d in decisions for t in d.transitions),
                "predicted_by": first.predicted_by if first else -1,
                "trained_from": first.trained_from if first else -1,
                "gradients": sum(d.gradients for d in decisions),
            }
            row |= {f"true:{label}": int(np.count_nonzero(y == label)) for label in labels}
            row |= {f"predicted:{label}": int(np.count_nonzero(predicted == label)) for label in labels}
            builder.add(row)
            if on_step is not None:
                on_step(step, name, wrong / len(y), decisions)
        first_row += len(y)
    return builder.build(stream.name, size, tuple(stream.drifts), seconds)


def _test_then_train(
    model: Any, X: Any, y: npt.NDArray[Any], labels: tuple[Any, ...]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64] | None, tuple[Decision, ...]]:
    if hasattr(model, "observe"):
        seen: Observation = model.observe(X, y, classes=labels)
        return seen.labels, seen.log_losses(), seen.decisions
    if not hasattr(model, "partial_fit"):
        raise OptionError(
            f"{model!r} has neither observe nor partial_fit: it cannot learn from a stream. A strategy learns in a "
            "session: driftsurf.runtime.session.Session(strategy)"
        )
    begun = hasattr(model, "classes_")
    losses = None
    predicted: npt.NDArray[Any] = np.full(len(y), labels[0])
    if begun:
        predicted = model.predict(X)
        if hasattr(model, "predict_proba"):
            share = model.predict_proba(X)[np.arange(len(y)), np.searchsorted(model.classes_, y)]
            losses = -np.log(np.clip(share, 1e-15, 1.0))
    model.partial_fit(X, y, classes=np.array(labels))
    return predicted, losses, ()
