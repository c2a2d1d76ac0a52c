"""A step that the native core takes in one call equals one that the session takes in parts, and is whole or undone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from driftsurf.core.state import to_bytes
from driftsurf.errors import StepInProgressError
from driftsurf.learners import LinearRegression, LinearSVM, LogisticRegression, SoftmaxRegression
from driftsurf.session.drift_monitor import DriftMonitor
from driftsurf.session.session import Session
from driftsurf.strategies import DriftSurf

IN_PARTS = "driftsurf.session.session.usual_step"


def batches(count: int, rows: int = 50, numbers: bool = False) -> list[tuple[Any, Any]]:
    """Return batches with a drift in the middle, some of whose values are limited."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(count, rows, 4))
    X[::7, 0, 1] = 1e4
    score = X[:, :, 0] + 0.3 * rng.normal(size=(count, rows))
    score[count // 2 :] *= -1.0
    return list(zip(X, score if numbers else np.where(score > 0.0, "up", "down"), strict=True))


def session(learner: Any, dtype: Any = "float64") -> Session:
    regression = learner.capabilities.regression
    return Session(DriftSurf(learner, dtype=dtype, seed=1), monitor=DriftMonitor(regression=regression))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("make", [LogisticRegression, LinearSVM, SoftmaxRegression, LinearRegression])
def test_a_usual_step_equals_one_in_parts(make: Callable[[], Any], dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    usual, parts = session(make(), dtype), session(make(), dtype)
    for step, (X, y) in enumerate(batches(60, numbers=make is LinearRegression)):
        X = X.astype(dtype)
        if step % 3:
            usual.learn(X, y, decided=False)
            with monkeypatch.context() as patch:
                patch.setattr(IN_PARTS, lambda *_: None)
                parts.learn(X, y, decided=False)
            continue
        seen = usual.observe(X, y)
        with monkeypatch.context() as patch:
            patch.setattr(IN_PARTS, lambda *_: None)
            again = parts.observe(X, y)
        assert np.array_equal(seen.scores, again.scores)
        assert seen.labels.tolist() == again.labels.tolist()
        assert repr(seen.decisions) == repr(again.decisions)
        if step == 30:
            usual.restore(usual.state())
    assert to_bytes(usual.state()) == to_bytes(parts.state())
    assert usual.journal.to_jsonl() == parts.journal.to_jsonl()
    assert repr(usual.drifts) == repr(parts.drifts)
    assert len(usual.drifts) == 1


@pytest.mark.parametrize("method", ["new_contest", "frozen", "proves", "follow_drift", "compare_inputs"])
def test_a_monitor_that_fails_undoes_the_step(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, broken = session(LogisticRegression()), session(LogisticRegression())
    notes = list[list[str]]()

    def fail(*_: Any) -> None:
        with pytest.raises(StepInProgressError):
            broken.state()
        raise KeyboardInterrupt

    for X, y in batches(150):
        whole.learn(X, y)
        before = to_bytes(broken.state())
        try:
            with monkeypatch.context() as patch:
                if len(notes) < 3:
                    patch.setattr(DriftMonitor, method, fail)
                broken.learn(X, y)
        except KeyboardInterrupt as error:
            notes.append(error.__notes__)
            assert to_bytes(broken.state()) == before
            broken.learn(X, y)
    assert notes == len(notes) * [["No row of this call was taken."]] != []
    assert to_bytes(broken.state()) == to_bytes(whole.state())
    assert broken.journal.to_jsonl() == whole.journal.to_jsonl()
