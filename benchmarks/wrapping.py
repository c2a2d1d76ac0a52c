"""Cost of DriftSurf around a scikit-learn model, compared with the model alone: predict a batch, then learn it."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import SGDClassifier

from benchmarks.harness import Contender, Contest
from driftsurf import DriftSurfClassifier

COLUMNS, BATCH_ROWS, BATCHES = (3, 10, 54), (100, 1_000), 200
TURNED = 6
"""Number of first batches with inverted labels; the drift after them leaves two models in training to the end."""
BARE = "SGDClassifier alone"

Batches = list[tuple[npt.NDArray[Any], npt.NDArray[Any]]]


def contests(quick: bool, note: Callable[[str], None]) -> Iterator[Contest]:
    """Yield a contest for each shape: without a reaction, and with one at the start."""
    note("Goals: 1.15 times the model alone before the first reaction (one model learns), 2.3 after it (two do).")
    for n_columns, size in itertools.product(COLUMNS, BATCH_ROWS):
        still = batches(n_columns, size, BATCHES // (10 if quick else 1))
        turned = [(X, 1 - y if k < TURNED else y) for k, (X, y) in enumerate(still)]
        rows = size * len(still)
        contenders = [
            Contender(BARE, rows, bare, functools.partial(learn_alone, still)),
            Contender(
                "before a reaction", rows, functools.partial(wrapped, math.inf), functools.partial(learn, still), models
            ),
            Contender("after it", rows, functools.partial(wrapped, 0.1), functools.partial(learn, turned), models),
        ]
        yield Contest(f"{n_columns} columns, {len(still)} batches of {size:,} rows", "row", BARE, contenders)


def batches(n_columns: int, size: int, count: int) -> Batches:
    """Return normal rows whose class depends on the first column, with noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((count, size, n_columns))
    y = (X[:, :, 0] + 0.5 * rng.standard_normal((count, size)) > 0).astype(np.int64)
    return list(zip(X, y, strict=True))


def bare() -> Any:
    """Return the scikit-learn model alone."""
    return SGDClassifier(loss="log_loss", random_state=0)


def wrapped(threshold: float) -> DriftSurfClassifier:
    """Return DriftSurf around the model; with an infinite threshold it never reacts."""
    return DriftSurfClassifier(bare(), classes=(0, 1), random_state=0, threshold=threshold)


def learn_alone(batches: Batches, model: Any) -> None:
    """Predict and learn without driftsurf; before the first batch there is no model to predict with."""
    for k, (X, y) in enumerate(batches):
        if k > 0:
            model.predict_proba(X)
        model.partial_fit(X, y, classes=(0, 1))


def learn(batches: Batches, model: DriftSurfClassifier) -> DriftSurfClassifier:
    """Predict and learn with driftsurf."""
    for X, y in batches:
        model.test_then_train(X, y)
    return model


def models(model: DriftSurfClassifier) -> str:
    """Return the mean number of models per decision: those in training, and at a switch the one that is dropped."""
    counts = [len(decision.models) for decision in model.journal_]
    return f"{np.mean(counts):.2f} models"
