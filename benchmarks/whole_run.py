"""Rows per second of a whole run: DriftSurfClassifier compared with the usual alternatives."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import SGDClassifier

from benchmarks.harness import Contender, Contest
from driftsurf import DriftSurfClassifier
from driftsurf.streams import SEA, Hyperplane, Stream

BATCH_ROWS = 1_000
ROW_BY_ROW = 5_000
"""Number of rows for river's learn_one: its cost per row is constant, and more rows would take minutes."""
ANCHOR = "scikit-learn SGDClassifier"

Batches = Sequence[tuple[Any, Any]]
Labels = npt.NDArray[Any]


def contests(quick: bool, note: Callable[[str], None]) -> Iterator[Contest]:
    """Yield two contests per stream: learning only, and predicting each batch before learning it."""
    river: Any = None
    pandas: Any = None
    try:
        river = importlib.import_module("river.linear_model")
        pandas = importlib.import_module("pandas")
    except ImportError as error:
        note(f"river: skipped, {error.name} is not installed (see benchmarks/README.md).")
        river = None
    n_rows = 10_000 if quick else 100_000
    streams: tuple[tuple[str, Stream], ...] = (
        ("SEA, 3 columns", SEA(noise=0.1, n_rows=n_rows)),
        ("rotating hyperplane, 54 columns", Hyperplane(n_features=54, n_rows=n_rows)),
    )
    for name, stream in streams:
        batches = list(stream.batches(BATCH_ROWS))
        where = f"{name}, {n_rows:,} rows in batches of {BATCH_ROWS:,}"
        truth = np.concatenate([y for _, y in batches])
        learn = [
            _driftsurf_learns(batches),
            _driftsurf_learns(batches, monitored=False),
            _sklearn_learns(batches),
        ]
        test = [_driftsurf_tests(batches, truth), _sklearn_tests(batches, truth)]
        if river is not None:
            frames = [(pandas.DataFrame(X), pandas.Series(y == 1)) for X, y in batches]
            rows = [
                (dict(enumerate(x.tolist())), bool(label == 1))
                for X, y in batches[: ROW_BY_ROW // BATCH_ROWS]
                for x, label in zip(X, y, strict=True)
            ]
            model = river.LogisticRegression
            learn += [_river_learns_many(model, frames, n_rows), _river_learns_one(model, rows)]
            test += [_river_tests_many(model, frames, truth), _river_tests_one(model, rows, truth)]
        yield Contest(f"learn: {where}", "row", ANCHOR, learn)
        yield Contest(f"predict, then learn: {where}", "row", ANCHOR, test)


def _error(truth: Labels) -> Callable[[Sequence[Labels]], str]:
    """Return the error rate; a model that cannot predict before it has learned starts a batch later."""

    def remark(predicted: Sequence[Labels]) -> str:
        labels = np.concatenate(predicted)
        wrong = labels != truth[len(truth) - len(labels) :]
        return f"error {np.mean(wrong):.3f}"

    return remark


def _gradients(model: DriftSurfClassifier) -> str:
    rows = sum(decision.rows for decision in model.journal_)
    gradients = sum(record.gradients for decision in model.journal_ for record in decision.models)
    return f"{gradients / rows:.1f} gradients a row, {len(model.journal_.transitions)} transitions"


def _driftsurf(monitored: bool = True) -> DriftSurfClassifier:
    return DriftSurfClassifier(classes=(-1, 1), random_state=0).set_drift_monitor(enabled=monitored)


def _driftsurf_learns(batches: Batches, *, monitored: bool = True) -> Contender:
    def run(model: DriftSurfClassifier) -> DriftSurfClassifier:
        for X, y in batches:
            model.partial_fit(X, y)
        return model

    name = "driftsurf partial_fit" if monitored else "driftsurf partial_fit, drifts not detected"
    return Contender(name, _rows(batches), functools.partial(_driftsurf, monitored), run, _gradients)


def _driftsurf_tests(batches: Batches, truth: Labels) -> Contender:
    def run(model: DriftSurfClassifier) -> list[Labels]:
        return [model.test_then_train(X, y) for X, y in batches]

    return Contender("driftsurf test_then_train", _rows(batches), _driftsurf, run, _error(truth))


def _sklearn() -> Any:
    return SGDClassifier(loss="log_loss", random_state=0)


def _sklearn_learns(batches: Batches) -> Contender:
    def run(model: Any) -> None:
        for X, y in batches:
            model.partial_fit(X, y, classes=(-1, 1))

    return Contender(ANCHOR, _rows(batches), _sklearn, run)


def _sklearn_tests(batches: Batches, truth: Labels) -> Contender:
    def run(model: Any) -> list[Labels]:
        predicted = []
        for step, (X, y) in enumerate(batches):
            if step > 0:
                predicted.append(model.predict(X))
            model.partial_fit(X, y, classes=(-1, 1))
        return predicted

    return Contender(ANCHOR, _rows(batches), _sklearn, run, _error(truth))


def _river_learns_many(make: Callable[[], Any], frames: Batches, n_rows: int) -> Contender:
    def run(model: Any) -> None:
        for X, y in frames:
            model.learn_many(X, y)

    return Contender("river learn_many", n_rows, make, run)


def _river_tests_many(make: Callable[[], Any], frames: Batches, truth: Labels) -> Contender:
    def run(model: Any) -> list[Labels]:
        predicted = []
        for X, y in frames:
            predicted.append(model.predict_many(X))
            model.learn_many(X, y)
        return predicted

    return Contender("river predict_many, learn_many", len(truth), make, run, _boolean_error(truth))


def _river_learns_one(make: Callable[[], Any], rows: Batches) -> Contender:
    def run(model: Any) -> None:
        for x, y in rows:
            model.learn_one(x, y)

    return Contender(f"river learn_one, first {len(rows):,} rows", len(rows), make, run)


def _river_tests_one(make: Callable[[], Any], rows: Batches, truth: Labels) -> Contender:
    def run(model: Any) -> list[Labels]:
        predicted = []
        for x, y in rows:
            predicted.append(model.predict_one(x))
            model.learn_one(x, y)
        return [np.array(predicted)]

    name = f"river predict_one, learn_one, first {len(rows):,} rows"
    return Contender(name, len(rows), make, run, _boolean_error(truth[: len(rows)]))


def _boolean_error(truth: Labels) -> Callable[[Sequence[Labels]], str]:
    error = _error(truth)
    return lambda predicted: error([np.where(np.asarray(part, bool), 1, -1) for part in predicted])


def _rows(batches: Batches) -> int:
    return sum(len(y) for _, y in batches)
