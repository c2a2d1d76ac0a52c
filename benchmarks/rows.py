"""What a row costs in river: ours beside river's own, one after the other in each round.

python -m benchmarks.rows
"""

from __future__ import annotations

import statistics
import time
from typing import Any

from river import linear_model, preprocessing, tree
from river.datasets import synth

from driftsurf import DriftSurfClassifier
from driftsurf.learners import LogisticRegression
from driftsurf.river import OnlineClassifier

WARM, ROWS, ROUNDS = 1_000, 4_000, 5


def seconds_a_row(model: Any, rows: list[tuple[dict[str, float], Any]]) -> tuple[float, float]:
    for x, y in rows[:WARM]:
        model.learn_one(x, y)
    rest = rows[WARM:]
    start = time.perf_counter()
    for x, _ in rest:
        model.predict_proba_one(x)
    between = time.perf_counter()
    for x, y in rest:
        model.learn_one(x, y)
    return (between - start) / len(rest), (time.perf_counter() - between) / len(rest)


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
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in models}
    for _ in range(ROUNDS):
        for name, make in models.items():
            times[name].append(seconds_a_row(make(), rows))
    print("| model, 9 columns | predict_proba_one, us | learn_one, us |\n|---|---:|---:|")
    for name, found in times.items():
        predict, learn = (statistics.median(pair[k] for pair in found) * 1e6 for k in (0, 1))
        print(f"| {name} | {predict:.1f} | {learn:.1f} |")


if __name__ == "__main__":
    main()
