"""Models for fleets, with labels for them, and the separate estimators that keys must equal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.tree import DecisionTreeClassifier

from driftsurf import DriftSurfClassifier, DriftSurfRegressor, recommended
from driftsurf.estimators import AUEClassifier, DWMClassifier, ResetOnDriftClassifier, SlidingWindowRegressor
from driftsurf.keyed import key_seed
from driftsurf.learners import LinearRegression, LinearSVM, LogisticRegression, SoftmaxRegression

Labels = Callable[[npt.NDArray[Any], npt.NDArray[Any]], npt.NDArray[Any]]
Call = tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]
THREE = ["highest", "low", "middle"]
TREE = DecisionTreeClassifier(max_depth=2, random_state=0)


def two(x: npt.NDArray[Any], turned: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Labels of two classes."""
    return np.asarray((x > 0) == turned, int)


def words(x: npt.NDArray[Any], turned: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Labels of three classes, as text."""
    return np.array(["low", "middle", "highest"])[np.digitize(np.where(turned, x, -x), [-0.5, 0.5])]


def numbers(x: npt.NDArray[Any], turned: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Numbers to predict."""
    return np.where(turned, 3.0 * x, 5.0 - x)


SVM = DriftSurfClassifier(LinearSVM(), max_rows=40, threshold=0.1)
UNBOUNDED = DriftSurfClassifier(LinearSVM(), threshold=0.1)
"""A model that takes a session per key."""
MODELS: dict[str, tuple[Any, Labels]] = {
    "compiled growing": (DriftSurfClassifier(max_rows=40, threshold=0.1), two),
    "compiled growing, svm": (SVM, two),
    "compiled growing, third class": (DriftSurfClassifier(max_rows=40, threshold=0.1), words),
    "compiled growing, recommended": (recommended("linear", max_rows=40), words),
    "portfolio": (recommended("light", max_rows=40), words),
    "window": (SlidingWindowRegressor(window=30), numbers),
    "aue": (AUEClassifier(experts=3, max_rows=40), two),
    "dwm": (DWMClassifier(), words),
    "ddm": (ResetOnDriftClassifier(), two),
    "tree": (DriftSurfClassifier(TREE, max_rows=40, threshold=0.1), words),
    "compiled guard": (DriftSurfClassifier(max_rows=40, threshold=0.1, classes=[0, 1], dtype="float32"), two),
    "compiled guard, svm": (
        DriftSurfClassifier(LinearSVM(), max_rows=40, threshold=0.1, classes=[0, 1], judge="training", guard=1.5),
        two,
    ),
    "compiled guard, softmax": (DriftSurfClassifier(SoftmaxRegression(), max_rows=40, classes=THREE), words),
    "compiled guard, regression": (DriftSurfRegressor(max_rows=40, threshold=0.1), numbers),
    "compiled": (
        DriftSurfClassifier(LogisticRegression(step_size=0.2), max_rows=40, threshold=0.1, guard=None, classes=[0, 1]),
        two,
    ),
    "compiled without intercept": (
        DriftSurfClassifier(
            LogisticRegression(fit_intercept=False), max_rows=25, guard=None, classes=[0, 1], dtype="float32"
        ),
        two,
    ),
    "compiled noise": (
        DriftSurfClassifier(LogisticRegression(), max_rows=40, guard=None, classes=[0, 1], significance=1.0),
        two,
    ),
    "compiled svm": (
        DriftSurfClassifier(LinearSVM(start="uniform"), max_rows=40, threshold=0.1, guard=None, classes=[0, 1]),
        two,
    ),
    "compiled svm, prequential": (
        DriftSurfClassifier(LinearSVM(step_size=0.1), max_rows=30, guard=None, classes=[0, 1], judge="prequential"),
        two,
    ),
    "compiled softmax": (
        DriftSurfClassifier(
            SoftmaxRegression(start="uniform"), max_rows=40, guard=None, classes=THREE, greedy=False, threshold=0.05
        ),
        words,
    ),
    "compiled softmax of two": (
        DriftSurfClassifier(SoftmaxRegression(), max_rows=25, guard=None, classes=[0, 1], judge="prequential"),
        two,
    ),
    "compiled three classes": (
        DriftSurfClassifier(LogisticRegression(), max_rows=25, guard=None, classes=THREE, dtype="float32"),
        words,
    ),
    "compiled regression": (DriftSurfRegressor(max_rows=40, threshold=0.1, guard=None), numbers),
    "compiled regression by training": (
        DriftSurfRegressor(LinearRegression(loss="huber", epsilon=0.7), max_rows=25, guard=None, judge="training"),
        numbers,
    ),
    "compiled regression without scale": (
        DriftSurfRegressor(
            LinearRegression(step_size=0.05, fit_intercept=False), max_rows=30, guard=None, significance=1.0
        ),
        numbers,
    ),
}


def calls(labels: Labels, n_calls: int = 20, n_keys: int = 4, most: int = 50, seed: int = 0) -> Iterator[Call]:
    """Rows of keys in any order; what the first column means changes half-way."""
    rng = np.random.default_rng(seed)
    for number in range(n_calls):
        n = int(rng.integers(1, most))
        keys, X = rng.integers(n_keys, size=n), rng.normal(size=(n, 3))
        yield keys, X, labels(X[:, 0] + 0.2 * rng.normal(size=n), np.full(n, number < n_calls // 2))


def separate(model: Any, key: Any, seed: int = 0, batch_size: int = 10) -> Any:
    """Return the separate estimator that a key must equal; drifts of keys are found in their predictions instead."""
    alone = clone(model).set_params(batch_size=batch_size, random_state=key_seed(seed, key))
    return alone.set_drift_monitor(enabled=False)
