"""Time of a step of two models, one much older than the other; age must not matter."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.harness import Contender, Contest
from driftsurf.learners import LogisticRegression
from driftsurf.session.session import Session
from driftsurf.strategies import DriftSurf

COLUMNS, BATCH_ROWS, STEPS = 10, 1_000, 50
YOUNG, OLD = 200_000, 10_000_000
"""Rows learned before the first round; the sample set of the young model has been full for 100,000 rows."""
TURNED = 4


def contests(quick: bool, note: Callable[[str], None]) -> Iterator[Contest]:
    """Yield the contest."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((BATCH_ROWS, COLUMNS))
    y = (X[:, 0] + rng.standard_normal(BATCH_ROWS) > 0).astype(np.int64)
    contenders = []
    for rows in (YOUNG, OLD // (20 if quick else 1)):
        session = Session(DriftSurf(LogisticRegression(), seed=1), classes=(0, 1))
        for step in range(rows // BATCH_ROWS):
            session.learn(X, y if step >= TURNED else 1 - y)
        name = f"aged by {rows:,} rows"
        note(f"{name}: {_about(session, X, y)}")
        run = lambda _, session=session: [session.learn(X, y) for _ in range(STEPS)]  # noqa: E731
        contenders.append(Contender(name, STEPS * BATCH_ROWS, lambda: None, run))
    yield Contest(f"DriftSurf, {COLUMNS} columns, batches of {BATCH_ROWS:,}", "row", contenders[0].name, contenders)


def _about(session: Session, X: Any, y: Any) -> str:
    """Describe one more step: its gradients, the memory held, and the peak memory allocated during it."""
    session.journal.sink = None
    tracemalloc.start()
    session.learn(X, y)  # what tracing itself keeps
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    (decision,) = session.learn(X, y)
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    held = session.strategy.nbytes
    return f"{decision.gradients} gradients a step, {held:,} bytes held, {peak:,} bytes allocated at most in a step"
