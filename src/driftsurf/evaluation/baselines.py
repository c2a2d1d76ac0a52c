"""What anybody could predict without a model, from the columns of a trace alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from driftsurf.evaluation.trace import OTHER, Trace

__all__ = ["Baselines", "baselines"]


@dataclass(frozen=True, slots=True)
class Baselines:
    """The error of a model over the rows that the trace counts, and those of simple rules over the same rows."""

    measure: str
    """What the numbers are."""
    own: float
    others: dict[str, float]


def baselines(trace: Trace, model: str) -> Baselines:
    """The share of wrong rows (of values the root mean squared error) of a model, and of simple rules.

    *majority* predicts in each step the class, of those that the trace counts by name, that was most frequent before it
    (in the first the one whose name is the smallest, as an untrained model does), *mean* the mean of all values before
    it; *persistence* predicts the label or value of the row before.

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
    return Baselines("error", int(counted["errors"].sum()) / total, others)
