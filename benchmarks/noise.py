"""Keys with noisy labels: how often models are replaced without a drift, what that costs, and which drifts are found.

``python -m benchmarks.noise`` prints the tables of docs/evidence.md. Each key has its own stream, cut into time steps
of 32 rows: 5,000 rows without drift, and as many with all labels flipped after about 2,000. The settings were chosen
with keys of 3 and 10 independent columns (``--chosen``). The tables have other keys, which were held aside: 6 and 15
correlated columns of different sizes, and other seeds. If DRIFTSURF_DATA is set, flights by carrier follow; they were
looked at when the threshold was chosen.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from driftsurf.core.contracts import Batch, FloatArray
from driftsurf.keyed import KeyedOptions
from driftsurf.learners import LogisticRegression
from driftsurf.strategies import DriftSurf, Oblivious

SIZE, ROWS, WITHIN = 32, 5_000, 10
NOISES = 0.1, 0.2, 0.3, 0.4
Stream = tuple[FloatArray, FloatArray]


def key(width: int, noise: float, seed: int, flip: int | None = None, *, plain: bool = False) -> Stream:
    """Return rows and labels of a key: a linear boundary, wrong labels, and all labels flipped from row ``flip`` on."""
    random = np.random.default_rng([seed, width, round(100 * noise)])
    X, direction = random.normal(size=(ROWS, width)), random.normal(size=width)
    y = X @ direction > 0.0
    if not plain:
        X = (X @ (np.eye(width) + 0.3 * random.normal(size=(width, width)))) * np.exp(random.normal(size=width)) + 3.0
    if flip is not None:
        y[flip:] = ~y[flip:]
    return X.astype(np.float32), (y ^ (random.random(ROWS) < noise)).astype(float)


def strategies(width: int) -> dict[str, Any]:
    """Return what learns a key: a model that is never replaced, the former default, and the default."""
    return {
        "never replaced": Oblivious(LogisticRegression(), max_rows=None, dtype="float32"),
        "before": DriftSurf(LogisticRegression(), threshold=0.3, max_rows=128, dtype="float32"),
        "now": KeyedOptions().learner([f"x{i}" for i in range(width)]).strategy,
    }


def learn(template: Any, X: FloatArray, y: FloatArray, seed: int) -> tuple[float, list[tuple[str, int]]]:
    """Return the test-then-train error after the first step, and the kinds and steps of transitions."""
    strategy = template.fresh(seed)
    strategy.begin(X.shape[1], sparse=False, n_classes=2)
    wrong, found = 0, list[tuple[str, int]]()
    steps = len(y) // SIZE
    for step in range(steps):
        part = slice(step * SIZE, (step + 1) * SIZE)
        wrong += int(((strategy.scores(X[part]).reshape(-1) > 0.0) != y[part]).sum()) if step else 0
        decision = strategy.step(Batch(X[part], y[part], np.ones(SIZE)))
        found += [(transition.kind, step) for transition in decision.transitions]
    return wrong / (SIZE * max(1, steps - 1)), found


def interval(values: FloatArray) -> str:
    """Return a mean with its 95 % interval."""
    return f"{values.mean():.3f} ± {1.96 * values.std(ddof=1) / np.sqrt(len(values)):.3f}"


def table(widths: tuple[int, ...], seeds: range, *, plain: bool) -> Iterator[str]:
    """Yield the lines of the table."""
    head = f"switches in {ROWS:,} rows: mean, most | all transitions | error over that of a model never replaced"
    yield f"| wrong labels | default | {head} | flips found in {WITHIN} steps | median steps |"
    yield "|---:|---|---:|---:|---:|---:|---:|"
    for noise in NOISES:
        results: dict[str, list[tuple[float, ...]]] = {"before": [], "now": []}
        for width in widths:
            templates = strategies(width)
            for seed in seeds:
                X, y = key(width, noise, seed, plain=plain)
                flip = SIZE * (62 + seed % 7)
                drifting = key(width, noise, seed + 10_000, flip, plain=plain)
                never, _ = learn(templates["never replaced"], X, y, seed)
                for name, own in results.items():
                    error, changes = learn(templates[name], X, y, seed)
                    switches = sum(kind == "switched" for kind, _ in changes)
                    _, reaction = learn(templates[name], *drifting, seed)
                    after = [at - flip // SIZE + 1 for kind, at in reaction if kind == "switched" and at * SIZE >= flip]
                    own.append((error / never, switches, len(changes), min(after, default=10_000)))
        for name, own in results.items():
            ratio, switches, transitions, delay = np.array(own).T
            middle = np.median(delay)
            yield (
                f"| {noise:.0%} | {name} | {switches.mean():.2f}, {switches.max():.0f} | {transitions.mean():.0f} | "
                f"{interval(ratio)} | {(delay <= WITHIN).sum()} of {len(delay)} | "
                f"{'not found' if middle >= 10_000 else f'{middle:.0f}'} |"
            )


def flights(folder: Path) -> Iterator[str]:
    """Yield the lines of the table of flights: late or not, by carrier."""
    with gzip.open(folder / "airline_2007_first50482.csv.gz", "rt") as lines:
        rows = list(csv.DictReader(lines))
    names = [name for name in rows[0] if name not in ("ArrDelay", "UniqueCarrier", "Origin", "Dest", "Year")]
    X = np.array([[float(row[name]) for name in names] for row in rows], np.float32)
    y = np.array([float(float(row["ArrDelay"]) > 0.0) for row in rows])
    carrier = np.array([row["UniqueCarrier"] for row in rows])
    yield f"| {len(y):,} flights, {len(set(carrier))} carriers | error | switches | all transitions |"
    yield "|---|---:|---:|---:|"
    for name, template in strategies(X.shape[1]).items():
        wrong, total, kinds = 0.0, 0, Counter[str]()
        for one in np.unique(carrier):
            own = carrier == one
            error, changes = learn(template, X[own], y[own], 0)
            count = own.sum() // SIZE * SIZE - SIZE
            wrong, total = wrong + error * count, total + count
            kinds.update(kind for kind, _ in changes)
        yield f"| {name} | {wrong / total:.4f} | {kinds['switched']} | {kinds.total()} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.noise", description=__doc__)
    parser.add_argument("--chosen", action="store_true", help="use the keys that the settings were chosen with")
    parser.add_argument(
        "--seeds", type=int, default=15, help="keys of each width and share of wrong labels (default: 15)"
    )
    options = parser.parse_args()
    widths, first = ((3, 10), 40) if options.chosen else ((6, 15), 1_000)
    for line in table(widths, range(first, first + options.seeds), plain=options.chosen):
        print(line, flush=True)
    folder = os.environ.get("DRIFTSURF_DATA")
    if folder:
        print()
        for line in flights(Path(folder)):
            print(line, flush=True)


if __name__ == "__main__":
    main()
