"""Strategies, batches and a fast disk for tests of checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from tests.reliability.workload import Workload

from driftsurf.core import disk
from driftsurf.core.contracts import Strategy
from driftsurf.detectors import DDM
from driftsurf.learners import LinearSVM, LogisticRegression, SoftmaxRegression
from driftsurf.strategies import (
    AUE,
    DTEL,
    DWM,
    DWMIL,
    PERM,
    AuthorsDriftSurf,
    Aware,
    Candor,
    DiversityPool,
    DriftSurf,
    LearnNSE,
    Oblivious,
    OnePass,
    PairedLearners,
    ResetOnDrift,
    SlidingWindow,
)

WORK = Workload(steps=12, rows=15, every=2, max_rows=60)


class Unflushed(disk.Disk):
    """A disk that does not flush: faster, and equivalent as long as no power loss is simulated."""

    def sync(self, handle: int) -> None: ...

    def sync_data(self, handle: int) -> None: ...

    def sync_folder(self, path: Path) -> None: ...


def batches(count: int, *, sparse: bool = False, rows: int = 20) -> Iterator[tuple[Any, Any]]:
    """Yield batches with a drift every eight steps."""
    generator = np.random.default_rng(0)
    for step in range(count):
        X = generator.normal(size=(rows, 4)) * (generator.random((rows, 4)) < 0.6)
        y = np.where((X[:, 0] > 0) == (step // 8 % 2 == 0), 1, -1)
        yield (sp.csr_array(X) if sparse else X), y


LEARNER = LogisticRegression()
STRATEGIES: dict[str, Callable[[], Strategy]] = {
    "driftsurf": lambda: DriftSurf(LEARNER, max_rows=150),
    "authors": lambda: AuthorsDriftSurf(LEARNER, max_rows=None),
    "few steps": lambda: DriftSurf(LogisticRegression(steps_per_row=0.7), max_rows=90),
    "saga": lambda: DriftSurf(LogisticRegression(optimizer="saga"), max_rows=90),
    "float32": lambda: DriftSurf(LEARNER, max_rows=90, dtype="float32"),
    "aware": lambda: Aware(LEARNER, (8, 16), max_rows=100),
    "aue": lambda: AUE(LEARNER),
    "candor": lambda: Candor(LEARNER),
    "oblivious": lambda: Oblivious(LEARNER, max_rows=50),
    "one pass": lambda: OnePass(LEARNER),
    "reset": lambda: ResetOnDrift(LEARNER, DDM(), max_rows=100),
    "perm": lambda: PERM(LEARNER, window=60, permutations=19, significance=0.05),
    "window": lambda: SlidingWindow(LEARNER, window=70),
    "paired": lambda: PairedLearners(LEARNER, window=50),
    "dwm": lambda: DWM(LEARNER, period=5, experts=3),
    "learn++.nse": lambda: LearnNSE(LEARNER, experts=4),
    "dwmil": lambda: DWMIL(LEARNER, bags=3, experts=3),
    "dtel": lambda: DTEL(LEARNER, experts=3),
    "diversity pool": lambda: DiversityPool(LEARNER, DDM(), test_rows=30, max_rows=100),
    "softmax": lambda: DriftSurf(SoftmaxRegression(), max_rows=150),
    "prequential judge": lambda: DriftSurf(SoftmaxRegression(), max_rows=150, judge="prequential"),
    "svm": lambda: AUE(LinearSVM(), experts=3),
}
