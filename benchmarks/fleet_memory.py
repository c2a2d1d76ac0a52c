"""Bytes of a key in a fleet, by kind of model: ``python -m benchmarks.fleet_memory``.

200 keys with ten columns and 400 rows each, in time steps of 32, of which a key keeps 128. "rows and models" is
``Fleet.bytes_per_key``; "in memory" is all that Python holds for a key, its objects included; "saved" is a share of
``Fleet.to_bytes()``.
"""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from driftsurf import DriftSurfClassifier, DriftSurfRegressor, Fleet
from driftsurf.estimators import AUEClassifier
from driftsurf.learners import LinearRegression, LinearSVM, LogisticRegression, SoftmaxRegression

N_KEYS, CALLS, ROWS = 200, 40, 10
COMPILED: dict[str, Any] = {"max_rows": 128, "dtype": "float32", "guard": None}
MODELS: dict[str, tuple[Any, int]] = {
    "compiled: no model": (None, 2),
    "compiled: LogisticRegression(), significance=1": (
        DriftSurfClassifier(LogisticRegression(), classes=[0, 1], significance=1.0, **COMPILED),
        2,
    ),
    "compiled: LinearSVM()": (DriftSurfClassifier(LinearSVM(), classes=[0, 1], **COMPILED), 2),
    "compiled: SoftmaxRegression(), 3 classes": (
        DriftSurfClassifier(SoftmaxRegression(), classes=[0, 1, 2], **COMPILED),
        3,
    ),
    "compiled: LinearRegression()": (DriftSurfRegressor(LinearRegression(), **COMPILED), 0),
    "compiled: DriftSurfClassifier(max_rows=128)": (DriftSurfClassifier(max_rows=128), 2),
    'compiled: DriftSurfClassifier(max_rows=128, dtype="float32")': (
        DriftSurfClassifier(max_rows=128, dtype="float32"),
        2,
    ),
    "compiled: DriftSurfClassifier(max_rows=128, classes=[0, 1, 2])": (
        DriftSurfClassifier(max_rows=128, classes=[0, 1, 2]),
        3,
    ),
    "compiled: DriftSurfRegressor(max_rows=128)": (DriftSurfRegressor(max_rows=128), 0),
    "DriftSurfClassifier(max_rows=128), 3 classes that are not named": (DriftSurfClassifier(max_rows=128), 3),
    "DriftSurfClassifier(DecisionTreeClassifier(max_depth=4), max_rows=128)": (
        DriftSurfClassifier(DecisionTreeClassifier(max_depth=4, random_state=0), max_rows=128),
        2,
    ),
    "AUEClassifier(max_rows=128)": (AUEClassifier(max_rows=128), 2),
}
"""Models with the number of classes; the first compiled ones keep 128 rows as float32, without a guard."""


def _filled(model: Any, classes: int, n_keys: int) -> Fleet:
    fleet, rng = Fleet(model), np.random.default_rng(0)
    for _ in range(CALLS):
        X = rng.normal(size=(n_keys * ROWS, 10))
        y = np.digitize(X[:, 0], np.linspace(-0.5, 0.5, classes - 1)) if classes else X[:, 0]
        fleet.observe(np.arange(len(X)) % n_keys, X, y)
    return fleet


def main() -> None:
    """Print a line for each kind of model."""
    print(f"{'':72}{'rows and models':>16}{'in memory':>12}{'saved':>10}")
    for name, (model, classes) in MODELS.items():
        _filled(model, classes, 2)  # compiles, and fills caches
        tracemalloc.start()
        fleet = _filled(model, classes, N_KEYS)
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        saved = len(fleet.to_bytes())
        print(f"{name:72}{fleet.bytes_per_key:16,}{held // N_KEYS:12,}{saved // N_KEYS:10,}", flush=True)


if __name__ == "__main__":
    main()
