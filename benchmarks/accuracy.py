"""Value of the automatic settings: mean error of the default classifier compared with other settings.

``python -m benchmarks.accuracy`` prints the figures that docs/decisions.md gives. The real streams are read
from the folder in DRIFTSURF_DATA; if it is not set, only the built-in ones are run.
"""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf import DriftSurfClassifier
from driftsurf.data.catalogue import CATALOGUE
from driftsurf.learners import LogisticRegression, _learner
from driftsurf.learners import _linear as sizes

Stream = tuple[npt.NDArray[Any], npt.NDArray[Any], int]
"""Rows, labels, and number of time steps."""
SEEDS = 2


def mean_error(stream: Stream, **options: Any) -> float:
    """Return the test-then-train error without the first batch, averaged over the seeds."""
    X, y, steps = stream
    size = len(y) // steps
    errors = []
    for seed in range(SEEDS):
        model = DriftSurfClassifier(LogisticRegression(**options), random_state=seed)
        for step in range(steps):
            rows = slice(step * size, (step + 1) * size)
            wrong = float(np.mean(model.test_then_train(X[rows], y[rows]) != y[rows]))
            errors += [wrong] * (step > 0)
    return float(np.mean(errors))


def built_in() -> Iterator[tuple[str, Stream]]:
    for name, entry in CATALOGUE.items():
        if entry.dataset is None and not entry.regression:
            yield name, (*entry.make().arrays(), 100)


def real(folder: Path) -> Iterator[tuple[str, Stream]]:
    """Yield the streams of the published files, without scaling."""
    files: dict[str, tuple[str, int, int, Callable[[str], bool]]] = {
        "Electricity": ("elec2", 1, 34, lambda label: label == "UP"),
        "NOAA weather": ("noaa_weather", 0, 100, lambda label: label == "1"),
        "PowerSupply": ("powersupply", 0, 100, lambda label: float(label) < 12),
        "CoverType sample": ("covtype_sample92962", 0, 100, lambda label: label == "2"),
        "phishing": ("phishing", 0, 100, lambda label: label == "1"),
        "Luxembourg": ("luxembourg", 0, 100, lambda label: label == "1"),
    }
    for name, (file, first, steps, positive) in files.items():
        with gzip.open(folder / f"{file}.csv.gz", "rt") as lines:
            table = list(csv.reader(lines))[1:]
        X = np.array([row[first:-1] for row in table], float)
        yield name, (X, np.array([positive(row[-1]) for row in table]), steps)


def table(title: str, streams: list[tuple[str, Stream]], columns: dict[str, Callable[[Stream], float]]) -> None:
    print(f"\n### {title}\n\n| stream | {' | '.join(columns)} |\n|---|{'---:|' * len(columns)}")
    cells = np.array([[run(stream) for run in columns.values()] for _, stream in streams])
    for (name, _), row in zip([*streams, ("**mean**", None)], [*cells, cells.mean(axis=0)], strict=True):
        print(f"| {name} | {' | '.join(f'{value:.3f}' for value in row)} |", flush=True)


def with_constant(module: ModuleType, name: str, value: float) -> Callable[[Stream], float]:
    """Return the mean error with another value of a constant of the package."""

    def run(stream: Stream) -> float:
        usual = getattr(module, name)
        setattr(module, name, value)
        try:
            return mean_error(stream)
        finally:
            setattr(module, name, usual)

    return run


def main() -> None:
    folder = os.environ.get("DRIFTSURF_DATA")
    streams = [*built_in(), *(real(Path(folder)) if folder else ())]
    steps = {f"{x:g} / L": with_constant(_learner, "AUTO_STEP", x) for x in (0.33, 0.1, 0.03, 0.01)}
    table("The automatic step size", streams, steps)
    scales = {
        "as they are": lambda stream: mean_error(stream, scale=False),
        "scaled and centred": mean_error,
        "in units of 1/100 of the distance": with_constant(sizes, "FARTHEST", 100.0),
    }
    table("Columns", streams, scales)


if __name__ == "__main__":
    main()
