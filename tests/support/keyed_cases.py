"""Learners, and streams of several keys with faults, for which two ways to serve keys are compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from hypothesis import strategies as st
from keyed_rows import learner

from driftsurf.keyed import KeyedLearner, KeyRows
from driftsurf.learners import LinearRegression, LinearSVM, LogisticRegression, SoftmaxRegression
from driftsurf.strategies import DriftSurf

TYPES = {
    "codes": ("int64", "int64"),
    "three codes": ("int64", "int64"),
    "text": ("int64", "string"),
    "numbers": ("int64", "float64"),
}
"""Types of keys and labels, by the kind of labels."""

CASES: dict[str, Any] = {
    "seed": st.integers(0, 10**6),
    "labels": st.sampled_from(["codes", "text"]),
    "epochs": st.integers(1, 14),
    "keys": st.integers(1, 6),
    "rows": st.sampled_from([2, 8, 40]),
    "gaps": st.sampled_from([0.0, 0.2]),
    "faults": st.sampled_from([0.0, 0.1]),
    "unlabelled": st.sampled_from([0.0, 0.0, 0.3]),
}
"""What a case of :func:`epochs_of` is made of."""


def surf(kind: Any = LogisticRegression, *, threshold: float = 0.1, **options: Any) -> DriftSurf:
    return DriftSurf(kind(step_size="auto"), threshold=threshold, max_rows=30, dtype="float32", **options)


LEARNERS = {
    "fixed step": learner(),
    "open classes": learner(strategy=surf(), classes=None),
    "float64, quarantine": learner(strategy=DriftSurf(LogisticRegression(), max_rows=25), on_gap="quarantine"),
    "prequential": learner(strategy=surf(judge="prequential", greedy=False), batch_size=12),
    "significance": learner(strategy=surf(significance=1.0)),
    "svm": learner(strategy=surf(LinearSVM, budget="divided")),
    "regression": learner(strategy=surf(LinearRegression, threshold=0.3), classes=None),
    "many rows": learner(strategy=DriftSurf(LogisticRegression(), max_rows=150, significance=1.0, reactive_length=3)),
    "three classes": learner(strategy=surf(SoftmaxRegression), classes=(0, 1, 7)),
    "two outputs": learner(strategy=surf(SoftmaxRegression), classes=None),
    "guard": learner(strategy=surf(), guard=2.0),
    "guard of a regression": learner(strategy=surf(LinearRegression, threshold=0.3), classes=None, guard=3.0),
    "guard, open classes": learner(strategy=surf(significance=1.0), classes=None, guard=2.0),
    "small steps": learner(strategy=surf(significance=1.0), classes=None, guard=2.0, batch_size=3),
    "single rows": learner(batch_size=1),
    "few rows": learner(strategy=DriftSurf(LogisticRegression(steps_per_row=0.7), max_rows=5, reactive_length=2)),
}


def labels_of(kind: str, X: Any, flipped: bool, rng: Any) -> list[Any]:
    up = (np.nan_to_num(X[:, 0]) > 0) ^ flipped
    if kind == "numbers":
        return list((2.0 * up + rng.normal(size=len(up))).round(2).tolist())
    classes = ["no", "yes"] if kind == "text" else [0, 1, 7] if kind == "three codes" else [0, 1]
    if kind == "three codes":
        up = up + (np.nan_to_num(X[:, 1]) > 0)
    return [classes[int(value)] for value in up]


def kind_of(case: Any, given_learner: KeyedLearner) -> str:
    """Return the kind of labels."""
    if given_learner.classes:
        return "codes" if len(given_learner.classes) == 2 else "three codes"
    return "numbers" if given_learner.regression else str(case["labels"])


def epochs_of(case: Any, given_learner: KeyedLearner) -> Iterator[dict[Any, KeyRows]]:
    """Yield the rows of keys, epoch by epoch, with the faults that a case asks for."""
    rng = np.random.default_rng(case["seed"])
    kind = kind_of(case, given_learner)
    at, before = 0, dict[Any, KeyRows]()
    for number in range(case["epochs"]):
        own = dict[Any, KeyRows]()
        for key in [name for name in range(case["keys"]) if rng.random() < 0.8]:
            n = int(rng.integers(1, case["rows"]))
            X = rng.normal(size=(n, 2)) * 10.0 ** rng.integers(0, 3)
            X[rng.random(X.shape) < case["gaps"]] = np.nan
            y = labels_of(kind, X, number > case["epochs"] // 2, rng)
            y = [None if rng.random() < case["unlabelled"] else label for label in y]
            sequence = np.arange(at, at + n)
            at += n
            if rng.random() < case["faults"]:
                place = int(rng.integers(n))
                fault = rng.integers(6)
                if fault == 0:
                    X[place, 0] = np.inf
                elif fault == 1:
                    y[place] = None
                elif fault == 2:
                    y[place] = case.get("third", "third") if kind == "text" else 1e300 if kind == "numbers" else 7
                elif fault == 3:
                    sequence = rng.permutation(sequence)
                elif fault == 4 and key in before:
                    old = before[key]
                    sequence, X = np.append(old.sequence, sequence), np.concatenate([old.X, X])
                    y = old.y + y
                elif fault == 5:
                    y[place] = True
            own[key] = KeyRows(sequence, X, y)
        before = own
        yield own
