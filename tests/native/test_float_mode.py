"""A thread that takes subnormal numbers for 0, as a library built with -ffast-math leaves it, changes no result."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from driftsurf import DriftSurfClassifier, DriftSurfRegressor, Fleet, recommended
from driftsurf.core.state import to_bytes
from driftsurf.detectors import PageHinkley
from driftsurf.estimators import AUEClassifier
from driftsurf.learners import LinearSVM, NaiveBayes, Perceptron, SoftmaxRegression
from driftsurf.native import maths
from driftsurf.native.maths import set_flushing, usual_mode
from driftsurf.saving import dumps

pytestmark = pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64", "aarch64", "arm64"),
    reason="the modes of this processor are not known",
)
TINY = 1e-309
"""Scale of values that are subnormal."""


def halved() -> bool:
    """Return whether this thread can halve the smallest normal number."""
    return bool((np.full(3, np.finfo(float).tiny) / 2.0).all())


def test_the_mode_is_that_of_the_thread_and_is_restored() -> None:
    assert halved()
    before = set_flushing(True)
    try:
        assert not halved()
        with usual_mode():
            assert halved()
        assert not halved()
        found = maths.exp(-710.0)
    finally:
        assert set_flushing(before)
    assert halved()
    assert 0.0 < found < np.finfo(float).tiny


X = TINY * np.random.default_rng(0).normal(size=(600, 3))
SINGLE = (1e-41 / TINY * X).astype(np.float32)
CODES = (X[:, 0] > 0.0).astype(int)
NUMBERS = 1.0 + CODES


def learned(make: Callable[[], Any]) -> tuple[bytes, list[Any]]:
    """Return the state and the predictions of a model that has learned subnormal values."""
    model = make()
    target: Any = NUMBERS if isinstance(model, DriftSurfRegressor) else CODES
    given: list[Any] = (
        [X] if not isinstance(model, Fleet) else [np.arange(len(X)) % 5, SINGLE if model.model is None else X]
    )
    observe: Any = model.observe if isinstance(model, Fleet) else model.test_then_train
    parts = [slice(at, at + 50) for at in range(0, len(X), 50)]
    if not isinstance(model, Fleet):
        model.partial_fit(X[parts[0]], target[parts[0]])
    found = [observe(*(one[part] for one in given), target[part]) for part in parts[1:]]
    return dumps(model), np.concatenate(found).tolist()


@pytest.mark.parametrize(
    "make",
    [
        lambda: DriftSurfClassifier(random_state=0),
        lambda: DriftSurfClassifier(LinearSVM(), random_state=0),
        lambda: DriftSurfClassifier(SoftmaxRegression(), random_state=0),
        lambda: DriftSurfClassifier(NaiveBayes(), random_state=0),
        lambda: DriftSurfClassifier(Perceptron(), random_state=0),
        lambda: DriftSurfRegressor(random_state=0),
        lambda: AUEClassifier(random_state=0),
        lambda: recommended("light", random_state=0),
        lambda: Fleet(seed=0),
        lambda: Fleet(DriftSurfClassifier(NaiveBayes()), seed=0),
    ],
)
def test_models_learn_the_same(make: Callable[[], Any]) -> None:
    usual = learned(make)
    before = set_flushing(True)
    try:
        flushed = learned(make)
        assert not halved()
    finally:
        set_flushing(before)
    assert flushed == usual


def test_detectors_see_the_same() -> None:
    values = np.abs(X[:500, 0])
    states = list[Any]()
    for flushing in (False, True):
        before = set_flushing(flushing)
        try:
            detector = PageHinkley(delta=0.0)
            for at in range(0, 500, 50):
                detector.update(values[at : at + 50])
        finally:
            set_flushing(before)
        states.append(to_bytes(detector.state()))
    assert states[0] == states[1]
