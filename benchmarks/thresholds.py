"""Meaning of a threshold of 0.1 for regression: the same streams as a regression and as two classes.

``python -m benchmarks.thresholds`` prints the table of docs/learners.md. The two classes are targets
above and below the median. A stream without drift shows false reactions, the others the cost of a threshold. Real
streams are read from the folder in DRIFTSURF_DATA, if it is set.
"""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from driftsurf import DriftSurfClassifier, DriftSurfRegressor
from driftsurf.core.contracts import FloatArray

STEPS = 100
DELTAS = 0.02, 0.05, 0.1, 0.2, 0.4
Stream = tuple[FloatArray, FloatArray]


def made(noise: float, drifts: tuple[int, ...], angle: float, size: int = 200) -> Stream:
    """Return targets that are linear in two of five columns; at each drift the direction changes."""
    random, turn, X, y = np.random.default_rng(0), 0.0, [], []
    for step in range(STEPS):
        turn += angle if step in drifts else 0.0
        rows = random.normal(size=(size, 5))
        X.append(rows)
        y.append(np.cos(turn) * rows[:, 0] + np.sin(turn) * rows[:, 1] + noise * random.normal(size=size))
    return np.concatenate(X), 1e4 + 300.0 * np.concatenate(y)


def real(folder: Path) -> Iterator[tuple[str, Stream]]:
    """Return a column of a file as the target, and all other numeric columns as rows."""
    files = {
        "Electricity, price": ("elec2", "nswprice", ("date", "class")),
        "NOAA, temperature": ("noaa_weather", "feat_1", ("target",)),
        "PowerSupply, load": ("powersupply", "attribute0", ()),
        "Airline, delay": ("airline_2007_first50482", "ArrDelay", ("UniqueCarrier", "Origin", "Dest", "Year")),
    }
    for name, (file, target, left_out) in files.items():
        with gzip.open(folder / f"{file}.csv.gz", "rt") as lines:
            table = list(csv.DictReader(lines))
        columns = [column for column in table[0] if column != target and column not in left_out]
        X = np.array([[float(row[column]) for column in columns] for row in table])
        yield name, (X, np.array([float(row[target]) for row in table]))


def streams() -> Iterator[tuple[str, Stream]]:
    for noise in (0.3, 1.0):
        yield f"no drift, noise {noise:g}", made(noise, (), 0.0)
        yield f"turns by 90 degrees, noise {noise:g}", made(noise, (25, 50, 75), np.pi / 2)
        yield f"turns by 30 degrees, noise {noise:g}", made(noise, (25, 50, 75), np.pi / 6)
    folder = os.environ.get("DRIFTSURF_DATA")
    if folder:
        yield from real(Path(folder))


def run(model: Any, X: FloatArray, y: Any) -> tuple[float, int]:
    """Return the mean error over steps (error rate, or absolute error relative to the median) and the reactions."""
    size, errors = len(y) // STEPS, []
    scale = 1.0 if y.dtype == bool else float(np.mean(np.abs(y - np.median(y))))
    for step in range(STEPS):
        part = slice(step * size, (step + 1) * size)
        seen = model.observe(X[part], y[part])
        wrong = seen.errors / size if y.dtype == bool else float(np.mean(np.abs(seen.predicted - y[part])))
        errors.append(wrong / scale)
    return float(np.mean(errors[1:])), sum(t.kind == "entered" for t in model.journal_.transitions)


def main() -> None:
    print(f"| stream | task | {' | '.join(f'{delta:g}' for delta in DELTAS)} |\n|---|---|{'---:|' * len(DELTAS)}")
    for name, (X, y) in streams():
        for task, face, target in (
            ("values", DriftSurfRegressor, y),
            ("classes", DriftSurfClassifier, y > np.median(y)),
        ):
            cells = [run(face(threshold=delta, random_state=0), X, target) for delta in DELTAS]
            shown = " | ".join(f"{error:.3f} ({reactions})" for error, reactions in cells)
            print(f"| {name} | {task} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
