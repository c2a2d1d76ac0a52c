"""A whole run compared with its own compiled loops: the cost of validation, store, guard, decisions and journal."""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.harness import Contender, Contest
from driftsurf.learners import LogisticRegression
from driftsurf.session.session import Session
from driftsurf.strategies import DriftSurf

ROWS, COLUMNS, BATCHES = 581_012, 54, 100
"""The shape of CoverType."""
TURNED = 4
"""Number of first batches with inverted labels; the drift after them leaves two models in training to the end."""
GRADIENTS = "saga_dense", "saga_both_dense", "schedule"

Call = tuple[Callable[..., Any], tuple[Any, ...]]
Batches = list[tuple[npt.NDArray[Any], npt.NDArray[Any]]]


def contests(quick: bool, note: Callable[[str], None]) -> Iterator[Contest]:
    """Yield a contest with the default limit of stored rows, and one without a limit."""
    batches = _batches(ROWS // (20 if quick else 1))
    for cap, words in ((100_000, "at most 100,000 rows kept"), (None, "all rows kept")):
        calls, gradients = _recorded(batches, cap)
        rows = sum(len(y) for _, y in batches)
        only = [call for call in calls if call[0].__name__ in GRADIENTS]
        contenders = [
            Contender("whole run", rows, functools.partial(_session, cap), functools.partial(_learn, batches)),
            Contender("all its compiled loops", rows, lambda: None, functools.partial(_replay, calls)),
            Contender("its gradient steps and draws", rows, lambda: None, functools.partial(_replay, only)),
        ]
        title = f"DriftSurf, {rows:,} x {COLUMNS} in {BATCHES} batches, {gradients:.1f} gradients a row, {words}"
        yield Contest(title, "row", "all its compiled loops", contenders)


def _batches(rows: int) -> Batches:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, COLUMNS))
    y = (X[:, 0] + rng.standard_normal(rows) > 0).astype(np.int64)
    edges = [rows * k // BATCHES for k in range(BATCHES + 1)]
    y[: edges[TURNED]] = 1 - y[: edges[TURNED]]
    return [(X[a:b], y[a:b]) for a, b in itertools.pairwise(edges)]


def _session(cap: int | None) -> Session:
    return Session(DriftSurf(LogisticRegression(), max_rows=cap, seed=1), classes=(0, 1))


def _learn(batches: Batches, session: Session) -> Session:
    for X, y in batches:
        session.learn(X, y)
    return session


def _recorded(batches: Batches, cap: int | None) -> tuple[list[Call], float]:
    """Return every call of a kernel in a run, with the run's own arrays as arguments, and the gradients per row."""
    calls: list[Call] = []

    def recording(loop: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            calls.append((loop, arguments))
            return loop(*arguments)

        vars(call).update(vars(loop))  # callers also ask whether a kernel has been compiled
        return call

    # Callers import kernels by name, so every module that holds one gets the recording version.
    holders = [
        (module, name, loop)
        for module in list(sys.modules.values())
        if module.__name__.startswith("driftsurf.")
        for name, loop in vars(module).items()
        if hasattr(loop, "compiled_for")
    ]
    recorded = {loop: recording(loop) for _, _, loop in holders}
    try:
        for module, name, loop in holders:
            setattr(module, name, recorded[loop])
        session = _session(cap)
        vars(session.strategy)["_suits"] = False  # the compiled step calls the same kernels, but not one by one
        _learn(batches, session)
    finally:
        for module, name, loop in holders:
            setattr(module, name, loop)
    spent = sum(decision.gradients for decision in session.journal)
    return calls, spent / sum(len(y) for _, y in batches)


def _replay(calls: list[Call], _: None) -> None:
    for loop, arguments in calls:
        loop(*arguments)
