"""Cost of a row in river's interface: our models compared with river's, one after the other in each round.

python -m benchmarks.rows
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import pandas as pd
from river import linear_model, preprocessing, tree
from river.datasets import synth

from driftsurf import DriftSurfClassifier
from driftsurf.estimators.river import OnlineClassifier
from driftsurf.learners import LogisticRegression

WARM, ROWS, ROUNDS = 1_000, 4_000, 5


def seconds_a_row(model: Any, rows: list[tuple[dict[str, float], Any]]) -> tuple[float, float, float]:
    for x, y in rows[:WARM]:
        model.learn_one(x, y)
    rest = rows[WARM:]
    start = time.perf_counter()
    for x, _ in rest:
        model.predict_proba_one(x)
    between = time.perf_counter()
    for x, y in rest:
        model.learn_one(x, y)
    learned = time.perf_counter()
    many = learned
    if hasattr(model, "learn_many"):
        X, y = pd.DataFrame([x for x, _ in rest]), pd.Series([label for _, label in rest])
        many_start = time.perf_counter()
        for first in range(0, len(rest), 100):
            model.learn_many(X[first : first + 100], y[first : first + 100])
        many = learned + time.perf_counter() - many_start
    return tuple(part / len(rest) for part in (between - start, learned - between, many - learned))  # type: ignore[return-value]


def main() -> None:
    rows = [
        ({f"column {k}": value for k, value in enumerate(list(x.values()) * 3)}, y)
        for x, y in synth.SEA(seed=1).take(WARM + ROWS)
    ]
    models: dict[str, Any] = {
        "OnlineClassifier (softmax)": lambda: OnlineClassifier(seed=0),
        "OnlineClassifier (logistic)": lambda: OnlineClassifier(DriftSurfClassifier(LogisticRegression()), seed=0),
        "river: scaled LogisticRegression": lambda: preprocessing.StandardScaler() | linear_model.LogisticRegression(),
        "river: HoeffdingTreeClassifier": tree.HoeffdingTreeClassifier,
    }
    times: dict[str, list[tuple[float, float, float]]] = {name: [] for name in models}
    for _ in range(ROUNDS):
        for name, make in models.items():
            times[name].append(seconds_a_row(make(), rows))
    print("| model, 9 columns | predict_proba_one | learn_one | learn_many, 100 rows a call |\n|---|---:|---:|---:|")
    for name, found in times.items():
        microseconds = [statistics.median(row[k] for row in found) * 1e6 for k in range(3)]
        print(f"| {name} | {' | '.join(f'{value:.1f}' if value else '-' for value in microseconds)} |")


if __name__ == "__main__":
    main()
