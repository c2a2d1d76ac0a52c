"""Sessions fed row by row: the fast path into the buffer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from driftsurf.core.state import to_bytes
from driftsurf.errors import NonFiniteError
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
    for k in range(len(X)):
        single.learn(X[k : k + 1], [y[k].item()] if k % 2 else y[k : k + 1])
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
        single.learn(X[k : k + 1], X[k : k + 1, 0])
    assert to_bytes(single.state()) == to_bytes(whole.state())


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
            with pytest.raises(NonFiniteError):
                one.learn(bad, [1])
            assert to_bytes(one.state()) == before
    one.learn(rows[:1], [1])
    assert one.rows_pending == 31
