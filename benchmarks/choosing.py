"""Effect of batch size, threshold and learner on the error: the tables of docs/choosing.md.

``python -m benchmarks.choosing`` prints them in about five minutes on one core; ``--rows 2000`` is a quick test. Errors
are error rates of rows that are predicted before they are learned. The first 2,000 rows do not count, so that all batch
sizes are compared on the same rows. Real streams are read from the folder in DRIFTSURF_DATA, if it is set. Each learner
is timed right after the default learner on the same stream, and the table shows the ratio of both times.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf import DriftSurfClassifier
from driftsurf.core.contracts import FloatArray
from driftsurf.data.catalogue import CATALOGUE
from driftsurf.learners import LinearSVM, SoftmaxRegression
from driftsurf.learners.foreign import SklearnLearner
from driftsurf.streams import Circles, Mixed

BATCH_SIZES = 25, 50, 100, 250, 500, 1_000, 2_000
THRESHOLDS = 0.02, 0.05, 0.1, 0.2, 0.4
BATCH_SIZE = 250
WARM_UP_ROWS = 2_000


class Data(NamedTuple):
    """Rows of a stream in order."""

    name: str
    X: FloatArray
    y: npt.NDArray[Any]


class Outcome(NamedTuple):
    """Result of one model on one stream."""

    error: float
    reactions: int
    switches: int
    seconds: float


def steady(rows: int) -> Data:
    """Return a stream without drift, where every reaction is a false alarm."""
    random = np.random.default_rng(0)
    X = random.normal(size=(rows, 5))
    return Data("nothing drifts", X, (X[:, 0] + X[:, 1] + random.normal(size=rows) > 0).astype(int))


def built_in(rows: int) -> Iterator[Data]:
    """Yield a generated stream for each kind of drift."""
    streams = {
        "Mixed, labels turn": Mixed(n_rows=rows),
        "Circles, grows": Circles(n_rows=rows),
        "SEA, gradual": CATALOGUE["sea-gradual"].make(n_rows=rows),
        "Hyperplane, always": CATALOGUE["hyper-fast"].make(n_rows=rows),
    }
    for name, stream in streams.items():
        blocks = list(stream.batches(10_000))
        yield Data(name, np.concatenate([X for X, _ in blocks]), np.concatenate([y for _, y in blocks]))


def real(folder: Path, rows: int, *, classes: int) -> Iterator[Data]:
    """Yield the streams of the published files, with all numeric columns."""
    two = {
        "Electricity": ("elec2", "class", ("date",)),
        "NOAA weather": ("noaa_weather", "target", ()),
        "Phishing": ("phishing", "target", ()),
    }
    many = {"Insects, 6 classes": ("insects_gradual_balanced", "class", ())}
    for name, (file, label, dropped) in (two if classes == 2 else many).items():
        with gzip.open(folder / f"{file}.csv.gz", "rt", encoding="utf-8") as lines:
            reader = csv.DictReader(lines)
            table = [row for _, row in zip(range(rows), reader, strict=False)]
        columns = [column for column in table[0] if column != label and column not in dropped]
        X = np.array([[float(row[column]) for column in columns] for row in table])
        yield Data(name, X, np.array([row[label] for row in table]))


def run(data: Data, batch_size: int = BATCH_SIZE, **options: Any) -> Outcome:
    """Predict each batch, then learn it."""
    model = DriftSurfClassifier(classes=sorted(set(data.y.tolist())), random_state=0, **options)
    wrong = 0
    begin = time.process_time()
    for start in range(0, len(data.y), batch_size):
        part = slice(start, start + batch_size)
        missed = model.test_then_train(data.X[part], data.y[part]) != data.y[part]
        wrong += int(missed[max(0, WARM_UP_ROWS - start) :].sum())
    seconds = time.process_time() - begin
    kinds = [transition.kind for transition in model.journal_.transitions]
    rows = len(data.y) - WARM_UP_ROWS
    return Outcome(wrong / max(rows, 1), kinds.count("entered"), kinds.count("switched"), seconds)


def learners(*, classes: int) -> dict[str, Callable[[], Any]]:
    """Return the learners, the default first; those of other libraries as a user would write them."""
    from river.tree import HoeffdingTreeClassifier
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import SGDClassifier
    from sklearn.naive_bayes import GaussianNB
    from sklearn.tree import DecisionTreeClassifier

    ours: dict[str, Callable[[], Any]] = (
        {"logistic regression (default)": lambda: None, "linear SVM": LinearSVM}
        if classes == 2
        else {"softmax regression": SoftmaxRegression}
    )
    return ours | {
        "scikit-learn SGD, log loss": lambda: SGDClassifier(loss="log_loss", random_state=0),
        "scikit-learn naive Bayes": GaussianNB,
        "river Hoeffding tree": HoeffdingTreeClassifier,
        "decision tree, refitted": lambda: SklearnLearner(
            DecisionTreeClassifier(max_depth=10, min_samples_leaf=5, random_state=0), rows=5_000
        ),
        "boosted trees, refitted": lambda: SklearnLearner(
            HistGradientBoostingClassifier(max_iter=30, random_state=0), rows=5_000
        ),
    }


def table(head: Sequence[str], lines: Iterator[Sequence[str]]) -> None:
    """Print a Markdown table line by line."""
    print(f"| {' | '.join(head)} |\n|---|{'---:|' * (len(head) - 1)}", flush=True)
    for line in lines:
        print(f"| {' | '.join(line)} |", flush=True)
    print()


def best_marked(errors: Sequence[float], shown: Sequence[str]) -> list[str]:
    """Return the errors as cells, the smallest in bold."""
    best = round(min(errors), 3)
    return [f"**{text}**" if round(error, 3) == best else text for error, text in zip(errors, shown, strict=True)]


def sweep(streams: Sequence[Data], option: str, values: Sequence[Any]) -> Iterator[list[str]]:
    """Print error and reactions for each value of an option."""
    for data in streams:
        outcomes = [run(data, **{option: value}) for value in values]
        shown = [f"{one.error:.3f} ({one.reactions})" for one in outcomes]
        yield [data.name, *best_marked([one.error for one in outcomes], shown)]


def contest(streams: Sequence[Data], *, classes: int) -> Iterator[list[str]]:
    """Print the error of each learner on each stream, and its time relative to the default."""
    ours, *others = learners(classes=classes).items()
    errors: dict[str, list[float]] = {ours[0]: []}
    ratios: dict[str, list[float]] = {ours[0]: [1.0]}
    for data in streams:
        anchor = run(data, learner=ours[1]())
        errors[ours[0]].append(anchor.error)
        for name, make in others:
            outcome = run(data, learner=make())
            errors.setdefault(name, []).append(outcome.error)
            ratios.setdefault(name, []).append(outcome.seconds / anchor.seconds)
    best = [round(min(column), 3) for column in zip(*errors.values(), strict=True)]
    for name, row in errors.items():
        cells = [f"**{e:.3f}**" if round(e, 3) == least else f"{e:.3f}" for e, least in zip(row, best, strict=True)]
        yield [name, *cells, f"{np.median(ratios[name]):.1f}"]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.choosing", description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000, help="of each stream, at most; 20,000 if not given")
    rows = parser.parse_args().rows
    folder = os.environ.get("DRIFTSURF_DATA")
    published = list(real(Path(folder), rows, classes=2)) if folder else []
    streams = [steady(rows), *built_in(rows), *published]
    run(streams[0])  # compiled loops are loaded before anything is timed
    print("## Batch size\n")
    table(["stream", *(f"{size:,}" for size in BATCH_SIZES)], sweep(streams, "batch_size", BATCH_SIZES))
    print("## Threshold\n")
    table(["stream", *(f"{value:g}" for value in THRESHOLDS)], sweep(streams, "threshold", THRESHOLDS))
    print("## Learner\n")
    table(["learner", *(data.name for data in streams), "time"], contest(streams, classes=2))
    if folder:
        several = list(real(Path(folder), rows, classes=6))
        table(["learner", *(data.name for data in several), "time"], contest(several, classes=6))


if __name__ == "__main__":
    main()
