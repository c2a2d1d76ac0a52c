"""Growth curves: nanoseconds per row against rows seen, columns, non-zeros and number of models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.harness import Contender, Contest
from driftsurf.learners import LogisticRegression
from driftsurf.session.session import Session
from driftsurf.strategies import AUE, DriftSurf

BATCH_ROWS = 1_000
SEEN = 10_000, 30_000, 100_000, 300_000, 1_000_000
COLUMNS = 1, 3, 10, 30, 100, 300
NONZEROS = 10, 30, 100, 300
MODELS = 1, 2, 5, 10, 20
STEPS = 10


def contests(quick: bool, note: Callable[[str], None]) -> Iterator[Contest]:
    """Yield a contest for each curve; its first point is the anchor."""
    seen = SEEN[:3] if quick else SEEN
    yield _curve("rows seen, 10 columns", [(f"{n:,} rows", _dense(10), _driftsurf, n) for n in seen])
    yield _curve("columns", [(f"{d} columns", _dense(d), _driftsurf, 20_000) for d in COLUMNS])
    yield _curve(
        "non-zeros a row of 47,000 columns", [(f"{k} non-zeros", _sparse(k), _driftsurf, 5_000) for k in NONZEROS]
    )
    yield _curve("models of AUE, 10 columns", [(f"{k} models", _dense(10), _aue(k), 30_000) for k in MODELS])


def _curve(against: str, points: list[tuple[str, Any, Callable[[], Session], int]]) -> Contest:
    contenders = []
    for name, (X, y), make, rows in points:
        session = make()
        for step in range(rows // BATCH_ROWS):
            session.learn(X, y if step >= 4 else 1 - y)
        run = lambda _, session=session, X=X, y=y: [session.learn(X, y) for _ in range(STEPS)]  # noqa: E731
        contenders.append(Contender(name, STEPS * BATCH_ROWS, lambda: None, run))
    return Contest(f"cost a row against {against}", "row", contenders[0].name, contenders)


def _driftsurf() -> Session:
    return Session(DriftSurf(LogisticRegression(), seed=1), classes=(0, 1))


def _aue(models: int) -> Callable[[], Session]:
    return lambda: Session(AUE(LogisticRegression(), experts=models, seed=1), classes=(0, 1))


def _dense(columns: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((BATCH_ROWS, columns))
    return X, (X[:, 0] + rng.standard_normal(BATCH_ROWS) > 0).astype(np.int64)


def _sparse(nonzeros: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    columns = np.sort(rng.integers(47_000, size=(BATCH_ROWS, nonzeros)), axis=1).ravel()
    rows = np.repeat(np.arange(BATCH_ROWS), nonzeros)
    X = sparse.csr_array((rng.random(len(rows)), (rows, columns)), shape=(BATCH_ROWS, 47_000))
    return X, rng.integers(2, size=BATCH_ROWS)
