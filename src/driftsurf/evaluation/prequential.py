"""Prequential evaluation: predict each batch, score it, then learn it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from driftsurf._options import whole
from driftsurf.decisions import Decision
from driftsurf.errors import OptionError
from driftsurf.evaluation.scoring import Scorebook
from driftsurf.evaluation.trace import Trace, TraceBuilder
from driftsurf.runtime.run import StepReport
from driftsurf.runtime.session import Observation
from driftsurf.streams.base import Stream

__all__ = ["StepReport", "prequential"]


class Observable(Protocol):
    """A model of this package: a session or a classifier."""

    def observe(self, X: Any, y: Any, *, classes: Any = None) -> Observation:
        """Predict, then learn."""
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
        Where the batches come from. One without ``classes`` has values to predict: the trace then has squared and
        absolute errors.
    models
        One model, or a dictionary of names to models. A model has ``observe`` (all of this package
        do), or ``predict`` and ``partial_fit`` as in scikit-learn. Such a one cannot predict before its
        first batch; there it is given the first class (the value 0) for every row, like that of a fresh model.
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
    if isinstance(stream, type) or not all(hasattr(stream, name) for name in ("batches", "n_rows", "classes")):
        raise OptionError(f"stream is {stream!r}; give a stream, such as driftsurf.streams.ArrayStream(X, y)")
    named: Mapping[str, Any] = models if isinstance(models, Mapping) else {"model": models}
    if not named:
        raise OptionError("models is empty: give at least one model to evaluate")
    if len({id(model) for model in named.values()}) < len(named):
        raise OptionError("the same model stands under two names: it would learn every batch twice. Give copies.")
    size = max(1, stream.n_rows // 100) if batch_size is None else whole("batch_size", batch_size, at_least=1)
    labels = tuple(stream.classes)
    builder, book = TraceBuilder(labels), Scorebook(labels)
    seconds = dict.fromkeys(named, 0.0)
    for step, (X, y) in enumerate(stream.batches(size)):
        book.step(y)
        for name, model in named.items():
            begin = clock()
            predicted, losses, decisions = _test_then_train(model, X, y, labels)
            seconds[name] += clock() - begin
            row = book.row(name, y, predicted, losses, decisions)
            builder.add(row)
            if on_step is not None:
                on_step(step, name, row["error" if labels else "squared_error"], decisions)
    return builder.build(stream.name, size, tuple(stream.drifts), seconds)


def _test_then_train(
    model: Any, X: Any, y: npt.NDArray[Any], labels: tuple[Any, ...]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64] | None, tuple[Decision, ...]]:
    if hasattr(model, "observe"):
        seen: Observation = model.observe(X, y, classes=labels) if labels else model.observe(X, y)
        return seen.labels, seen.log_losses() if labels else None, seen.decisions
    if not hasattr(model, "partial_fit"):
        raise OptionError(
            f"{model!r} has neither observe nor partial_fit: it cannot learn from a stream. A strategy learns in a "
            "session: driftsurf.runtime.session.Session(strategy)"
        )
    losses = None
    predicted: npt.NDArray[Any] = np.full(len(y), labels[0] if labels else 0.0)
    if hasattr(model, "classes_" if labels else "n_features_in_"):
        predicted = model.predict(X)
        if labels and hasattr(model, "predict_proba"):
            share = model.predict_proba(X)[np.arange(len(y)), np.searchsorted(model.classes_, y)]
            losses = -np.log(np.clip(share, 1e-15, 1.0))
    model.partial_fit(X, y, **({"classes": np.array(labels)} if labels else {}))
    return predicted, losses, ()
