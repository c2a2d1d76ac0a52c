"""One trial of a stream of the paper with five of its algorithms, compared with their plain Python twins."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Contender, Contest
from driftsurf.comparison.models import ALGORITHMS, Setting
from driftsurf.core.contracts import Strategy
from driftsurf.learners import paper_learner
from driftsurf.reproduction.published import settings_of
from driftsurf.reproduction.trials import encoded, prepared, test_then_train
from driftsurf.session.session import Session
from driftsurf.streams.arrays import ArrayStream

DATASET = "sine1"
NAMES = "aware", "mddm-g", "aue", "candor", "driftsurf"
SEED = 1

Errors = dict[str, float]


def contests(quick: bool, note: Callable[[str], None]) -> Iterator[Contest]:
    """Yield one contest, whose unit of work is all five algorithms."""
    stream, size, drifts = prepared(DATASET)
    X, y = stream.arrays()
    rows = len(y) // (10 if quick else 1)
    X, y, drifts = X[:rows], y[:rows], tuple(step for step in drifts if step * size < rows)
    title = f"{DATASET}, {rows:,} rows in batches of {size}: Aware, MDDM-G, AUE, Candor, DriftSurf; predict, then learn"
    contenders = [
        Contender("driftsurf", rows, lambda: None, lambda _: _sessions(X, y, size, drifts), _remark),
        Contender("driftsurf without sessions", rows, lambda: None, lambda _: _trials(X, y, size, drifts), _remark),
        Contender("the same in plain Python", rows, lambda: None, lambda _: _twins(X, y, size, drifts), _remark),
    ]
    yield Contest(title, "row", contenders[0].name, contenders)


def _remark(errors: Errors) -> str:
    return "error " + ", ".join(f"{name} {error:.4f}" for name, error in errors.items())


def _strategies(size: int, drifts: tuple[int, ...]) -> Iterator[tuple[str, Strategy]]:
    setting = settings_of(DATASET)
    learner = paper_learner(setting.step_size, setting.l2)
    for name in NAMES:
        yield name, ALGORITHMS[name].make(learner, Setting(drifts, size, seed=SEED))


def _trials(X: Any, y: Any, size: int, drifts: tuple[int, ...]) -> Errors:
    """Run the strategies as the trials of the reproduction do, like the plain versions on rows checked before."""
    batches = encoded(ArrayStream(X, y), size)
    return {name: sum(test_then_train(one, batches)[0]) / len(y) for name, one in _strategies(size, drifts)}


def _sessions(X: Any, y: Any, size: int, drifts: tuple[int, ...]) -> Errors:
    """Run the strategies in sessions, which check each batch and can go back to before it."""
    errors = {}
    for name, strategy in _strategies(size, drifts):
        session = Session(strategy, classes=(-1, 1), guard=None)
        starts = range(0, len(y), size)
        predicted = [session.observe(X[a : a + size], y[a : a + size]).labels for a in starts]
        errors[name] = float(np.mean(np.concatenate(predicted) != y))
    return errors


def _twins(X: Any, y: Any, size: int, drifts: tuple[int, ...]) -> Errors:
    """Run the plain Python versions that the tests compare every algorithm with."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
    try:
        baselines, strategies = (importlib.import_module(f"reference_{name}") for name in ("baselines", "strategies"))
    finally:
        del sys.path[0]
    setting = settings_of(DATASET)
    how = {"eta": setting.step_size, "mu": setting.l2, "seed": SEED}
    rows = np.column_stack([X, np.ones(len(y))]), (y > 0).astype(float), np.ones(len(y))
    kinds = {
        "aware": type("Aware", (baselines.PlainAware,), {"drifts": drifts}),
        "mddm-g": baselines.PlainMDDM,
        "aue": baselines.PlainAUE,
        "candor": baselines.PlainCandor,
    }
    batches = [range(start, min(start + size, len(y))) for start in range(0, len(y), size)]
    errors = {}
    for name, kind in kinds.items():
        twin, wrong = kind(rows, **how), 0
        for batch in batches:
            wrong += int(np.sum(twin.predict(batch) != rows[1][batch.start : batch.stop]))
            twin.step(batch)
        errors[name] = wrong / len(y)
    surf, wrong = strategies.PlainDriftSurf(X.shape[1], rho=2 * size, **how), 0
    given = strategies.with_constant(X, y)
    for batch in batches:
        part = given[batch.start : batch.stop]
        wrong += sum(surf.predict(x) != label for x, label in part)
        surf.step(part)
    errors["driftsurf"] = wrong / len(y)
    return errors
