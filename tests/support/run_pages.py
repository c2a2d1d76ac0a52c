"""Runs whose pages are hard to write: hostile names, and targets of any unit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from driftsurf import DriftSurfClassifier, DriftSurfRegressor, Trace, prequential
from driftsurf.core.decisions import Decision
from driftsurf.learners import SoftmaxRegression
from driftsurf.report.run_page import render
from driftsurf.report.sections import RunView
from driftsurf.streams import Drift

HOSTILE = "</script><img src=x onerror=hacked=1>\u2028'\"&<b>"


class Made:
    """A stream of three columns whose targets are a function of the rows and the step."""

    n_rows = 3000

    def __init__(self, targets: Callable[[Any, int], Any], *, name: str, classes: Any = (), drifts: Any = ()) -> None:
        self.targets, self.name, self.classes, self.drifts = targets, name, classes, drifts

    def batches(self, size: int) -> Iterator[tuple[Any, Any]]:
        rng = np.random.default_rng(0)
        for step in range(self.n_rows // size):
            X = rng.normal(size=(size, 3))
            yield X, self.targets(X, step)


def hostile_run() -> tuple[Trace, list[Decision]]:
    names = np.array([HOSTILE, "a", "b"])
    drifts = (Drift(1000, 1900),)
    stream: Any = Made(
        lambda X, step: names[(X if step < 15 else -X).argmax(axis=1)],
        name=HOSTILE,
        classes=tuple(names.tolist()),
        drifts=drifts,
    )
    model = DriftSurfClassifier(SoftmaxRegression(), random_state=0)
    trace = prequential(stream, {HOSTILE: model}, batch_size=100)
    return trace, list(model.journal_)


def uneven_run() -> tuple[Trace, list[Decision]]:
    """Return a run of 60 steps, the first 40 with 10 rows and the others with 200, whose concept changes at step 45."""

    class Uneven(Made):
        def batches(self, size: int) -> Iterator[tuple[Any, Any]]:
            rng = np.random.default_rng(0)
            for step in range(60):
                X = rng.normal(size=(10 if step < 40 else size, 3))
                yield X, self.targets(X, step)

    stream: Any = Uneven(
        lambda X, step: np.where((X[:, 0] > 0) == (step < 45), 1, -1),
        name="uneven",
        classes=(-1, 1),
        drifts=(Drift(400 + 5 * 200, 400 + 5 * 200),),
    )
    model = DriftSurfClassifier(random_state=0)
    trace = prequential(stream, model, batch_size=200)
    return trace, list(model.journal_)


def regression_in(unit: float) -> tuple[str, str]:
    """Return the page of a run whose targets have such a unit, and the reason of its first change."""
    stream: Any = Made(lambda X, step: unit * (X[:, step // 15] + 0.1 * X[:, 2]), name="numbers")
    model = DriftSurfRegressor(random_state=0)
    trace = replace(prequential(stream, model, batch_size=100), warmup_steps=1)
    return render(RunView(trace, list(model.journal_), "model")), model.journal_.explain().splitlines()[0]
