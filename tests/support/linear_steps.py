"""Learners, options and streams for tests that compare compiled time steps with generic ones."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from hypothesis import strategies as st
from row_arrays import as_rows

from driftsurf.core.contracts import Batch, Learner
from driftsurf.learners import LinearRegression, LinearSVM, LogisticRegression, SoftmaxRegression
from driftsurf.strategies import DriftSurf

WIDTHS = st.sampled_from([1, 3, 17])  # one loop for two models up to 16 columns
KINDS: dict[str, Callable[..., Learner]] = {
    "logistic": LogisticRegression,
    "svm": LinearSVM,
    "linear": LinearRegression,
    "huber": functools.partial(LinearRegression, loss="huber", epsilon=0.5),
    "softmax": SoftmaxRegression,
}
LEARNERS = st.fixed_dictionaries(
    {"kind": st.sampled_from([*KINDS])},
    optional={
        "optimizer": st.sampled_from(["strsaga", "saga"]),
        "step_size": st.sampled_from(["auto", 0.05]),
        "scale": st.sampled_from(["auto", True, False]),
        "steps_per_row": st.sampled_from([0.5, 1.5, 3.0]),
        "steps_per_batch": st.just(37),
        "fit_intercept": st.just(False),
        "start": st.just("uniform"),
    },
)
OPTIONS = st.fixed_dictionaries(
    {"seed": st.integers(0, 2**70)},
    optional={
        "threshold": st.sampled_from([0.0, 0.02]),
        "greedy": st.just(False),
        "reactive_length": st.integers(2, 5),
        "significance": st.sampled_from([0.0, 1.0]),
        "class_share": st.sampled_from([0.0, 0.3]),
        "judge": st.sampled_from(["auto", "training", "prequential"]),
        "budget": st.just("divided"),
        "max_rows": st.sampled_from([None, 50, 300]),
        "dtype": st.just("float32"),
    },
)


def batches(
    width: int, seed: int, dtype: str, steps: int, *, values: bool = False, classes: int = 2, sparse: bool = False
) -> Iterator[Batch]:
    """Yield batches of different lengths, whose concept flips, with columns of any scale and place.

    Targets are classes or, with ``values``, numbers. From the third class on, one appears every five steps. Two of
    three columns of sparse rows are mostly zeros.
    """
    rng = np.random.default_rng(seed)
    direction, scale = rng.normal(size=width), np.exp(2.0 * rng.normal(size=width))
    far = 5.0 * rng.normal(size=width) * rng.integers(0, 2, width)
    for step in range(steps):
        X = rng.normal(size=(int(rng.integers(1, 80)), width))
        z, sign = X @ direction + 0.3 * rng.normal(size=len(X)), 1.0 if (step // 8) % 2 == 0 else -1.0
        y = 3.0 + sign * z if values else z * sign > 0.0
        if classes > 2:
            y = np.digitize(z * sign / np.abs(direction).max(), np.linspace(0.0, 1.0, classes - 1))
            y = np.minimum(y, 1 + step // 5)
        weight = np.ones(len(X)) if rng.integers(3) else rng.random(len(X)) * rng.integers(0, 2, len(X))
        stored = (X * scale + far) * ((rng.random(X.shape) < 0.3) | (np.arange(width) % 3 == 0) if sparse else 1.0)
        yield Batch(as_rows(stored.astype(dtype), sparse), y.astype(float), weight)


def made(learner: dict[str, Any], options: dict[str, Any]) -> DriftSurf:
    options_of_learner = {name: value for name, value in learner.items() if name != "kind"}
    if options.get("significance"):
        options = options | {"judge": "auto", "reactive_length": max(3, options.get("reactive_length", 4))}
    return DriftSurf(KINDS[learner.get("kind", "logistic")](**options_of_learner), **options)
