"""Sessions fed row by row: the fast path into the buffer."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from driftsurf.core.state import to_bytes
from driftsurf.learners import LinearRegression, LogisticRegression
from driftsurf.session.session import Session
from driftsurf.strategies import DriftSurf

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1000, 2))
Y = (X[:, 0] > 0).astype(int)


def session(**options: Any) -> Session:
    return Session(DriftSurf(LogisticRegression(), seed=0), **options)


@pytest.mark.parametrize("names", [(0, 1), ("no", "yes"), (False, True), (2.0, 7.0)])
def test_single_rows_equal_the_whole_batch(names: tuple[Any, Any]) -> None:
    X = RNG.normal(size=(250, 3))
    y = np.where(X[:, 0] > 0, names[1], names[0])
    whole, single = (Session(DriftSurf(LogisticRegression()), batch_size=40) for _ in range(2))
    whole.learn(X, y)
    put = 0
    for k in range(len(X)):
        label = [y[k].item()] if k % 2 else y[k : k + 1]
        if single.try_usual(X[k : k + 1], label):
            put += 1
        else:
            single.learn(X[k : k + 1], label)
    assert put == 250 - 250 // 40 - 2  # not the first two, with new classes, nor those that fill the buffer
    assert to_bytes(single.state()) == to_bytes(whole.state())


def test_single_rows_with_extreme_values_equal_the_whole_batch_and_are_limited_when_predicted() -> None:
    rows = X[:250].copy()
    rows[::7, 1] = 1e4
    whole, single = session(batch_size=50), session(batch_size=50)
    whole.learn(rows, Y[:250])
    for k in range(250):
        row = rows[k : k + 1]
        expected = single.scores(row).tolist() if k else None
        seen = single.observe(row, Y[k : k + 1])
        assert expected in (None, seen.scores.tolist())
        assert np.abs(seen.scores).max() < 1e3
    assert to_bytes(single.state()) == to_bytes(whole.state())


def test_single_rows_of_a_regression_are_buffered() -> None:
    X = RNG.normal(size=(90, 2))
    whole, single = (Session(DriftSurf(LinearRegression()), batch_size=40) for _ in range(2))
    whole.learn(X, X[:, 0])
    for k in range(len(X)):
        single.try_usual(X[k : k + 1], X[k : k + 1, 0]) or single.learn(X[k : k + 1], X[k : k + 1, 0])
    assert to_bytes(single.state()) == to_bytes(whole.state())


@pytest.mark.parametrize(
    ("X", "y"),
    [
        ([[1.0, 2.0]], [0]),
        (np.ones((2, 2)), [0, 0]),
        (np.ones((1, 3)), [0]),
        (np.ones((1, 2), np.float32), [0]),
        (np.array([[1.0, math.nan]]), [0]),
        (np.array(1.0), [0]),
        (np.ones((1, 2)), [5]),
        (np.ones((1, 2)), ["0"]),
        (np.ones((1, 2)), [0, 1]),
        (np.ones((1, 2)), np.zeros((1, 1))),
        (np.ones((1, 2)), None),
    ],
)
def test_only_plain_rows_take_the_fast_path(X: Any, y: Any) -> None:
    session = Session(DriftSurf(LogisticRegression()), classes=(0, 1), batch_size=50)
    assert not session.try_usual(np.ones((1, 2)), [0])
    session.learn(RNG.normal(size=(60, 2)), np.arange(60) % 2)
    before = to_bytes(session.state())
    assert not session.try_usual(X, y)
    assert to_bytes(session.state()) == before


@pytest.mark.parametrize("y", [[math.inf], [True], ["1"], [None]])
def test_only_plain_targets_take_the_fast_path(y: list[Any]) -> None:
    session = Session(DriftSurf(LinearRegression()), batch_size=50)
    session.learn(np.ones((3, 2)), np.ones(3))
    assert not session.try_usual(np.ones((1, 2)), y)
    assert session.rows_pending == 3


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_row_with_a_value_that_is_not_finite_is_not_buffered(dtype: str) -> None:
    one = Session(DriftSurf(LogisticRegression(), dtype=dtype), batch_size=50)
    rows = RNG.normal(size=(80, 3)).astype(dtype)
    one.learn(rows, (rows[:, 0] > 0).astype(int))
    before = to_bytes(one.state())
    for value in (np.nan, np.inf, -np.inf):
        for column in range(3):
            bad = rows[:1].copy()
            bad[0, column] = value
            assert not one.try_usual(bad, [1])
            assert to_bytes(one.state()) == before
    assert one.try_usual(rows[:1], [1])
    assert one.rows_pending == 31
