"""Error of the default model on small tables, by the number of rows in a batch.

``python -m benchmarks.batch_sizes`` reads the real streams from the folder in DRIFTSURF_DATA. Every batch is predicted
before it is learned. The rows after the first 1,000 count, so that all sizes are judged by the same rows.
"""

from __future__ import annotations

import numpy as np

from driftsurf import recommended
from driftsurf.comparison.inputs import Input, load

TABLES = {"luxembourg": None, "outdoor": None, "electricity": 5_000, "phishing": None}
"""Streams, and how many of their first rows are used."""
SIZES = 1_000, 500, 200, 100, 50
FIRST = 1_000
"""Rows that do not count."""


def error(name: str, rows: int | None, size: int) -> float:
    """Return the share of rows that were predicted wrongly."""
    table = load(Input(name))
    X, y = table.X[:rows], np.asarray(table.y)[:rows]
    model = recommended(random_state=0)
    wrong = np.zeros(len(y))
    for start in range(0, len(y), size):
        batch = slice(start, start + size)
        wrong[batch] = model.test_then_train(X[batch], y[batch]) != y[batch]
    return float(wrong[FIRST:].mean())


def main() -> None:
    """Print a line for each table."""
    print("table", *SIZES, sep="\t")
    for name, rows in TABLES.items():
        print(name, *(f"{error(name, rows, size):.3f}" for size in SIZES), sep="\t", flush=True)


if __name__ == "__main__":
    main()
