"""Errors of trivial predictions, worked out from the columns of a trace: no model is needed for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from driftsurf.evaluation.trace import OTHER, Trace

__all__ = ["Baselines", "baselines"]


@dataclass(frozen=True, slots=True)
class Baselines:
    """The error of a model and those of trivial predictions for the same rows."""

    measure: str
    """Name of the error: "mean error" or "root mean squared error"."""
    own: float
    """The error of the model."""
    others: dict[str, float]
    """The errors of the trivial predictions, by name."""


def baselines(trace: Trace, model: str) -> Baselines:
    """Compare a model with trivial predictions: by the share of wrong rows, or by the root mean squared error.

    *majority* predicts in each step the class that was most frequent before it; in the first step, the class that an
    untrained model predicts. Classes that the trace counts together are not candidates. *mean* predicts the mean
    target of all rows before the step. *persistence* repeats the label or target of the row before.

    Examples
    --------
    >>> from driftsurf import DriftSurfClassifier, prequential
    >>> from driftsurf.streams import Mixed
    >>> found = baselines(prequential(Mixed(n_rows=10_000), DriftSurfClassifier(random_state=0)), "model")
    >>> {name: round(value, 2) for name, value in found.others.items()}
    {'majority': 0.5, 'persistence': 0.5}
    """
    run, counted = trace.of(model), trace.counted(model)
    rows = counted["rows"]
    if not trace.labels:
        own, persistence, constant = (
            float(np.sqrt(np.average(counted[name], weights=rows)))
            for name in ("squared_error", "persistence_error", "constant_error")
        )
        return Baselines("root mean squared error", own, {"mean": constant, "persistence": persistence})
    total = int(rows.sum())
    others = dict[str, float]()
    named = [run[f"true:{label}"] for label in trace.labels if label != OTHER]
    if named:
        counts = np.column_stack(named)
        before = np.vstack([np.zeros(counts.shape[1], np.int64), counts.cumsum(axis=0)[:-1]])
        right = counts[np.arange(len(counts)), before.argmax(axis=1)]
        others["majority"] = 1.0 - int(right[-len(rows) :].sum()) / total
    others["persistence"] = int(counted["persistence_errors"].sum()) / total
    return Baselines("mean error", int(counted["errors"].sum()) / total, others)
