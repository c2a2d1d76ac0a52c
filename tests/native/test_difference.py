"""The loop over keys that differ from a shared prediction, beside a readable version in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.native.twins.difference import Difference

from driftsurf.native.difference import Differences

WIDTHS = 0.1, 0.3, 1.0


def rows(n: Any, d: Any, outputs: Any, regression: Any, seed: Any = 0) -> Any:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X[rng.random((n, d)) < 0.05] = np.nan
    if regression:
        shared = np.column_stack([rng.normal(size=n) * 3, np.full(n, 2.0)])
        return X, shared, shared[:, 0] + 2 * np.nan_to_num(X[:, 0]) + rng.normal(size=n)
    shared = rng.normal(size=(n, outputs))
    if outputs == 1:
        return X, shared, (shared[:, 0] + 2 * np.nan_to_num(X[:, 0]) > 0).astype(float)
    shared[:20, 2] = -1e300  # a class that the shared model did not know at first
    return X, shared, np.argmax(shared + np.nan_to_num(X[:, :1]) * [2, 0, -2], axis=1).astype(float)


def observe(loop: Any, keys: Any, X: Any, shared: Any, y: Any, slots: Any = None, weights: Any = None) -> Any:
    order = np.arange(len(y)) if slots is None else np.argsort(slots, kind="stable")
    starts = np.array([0, len(y)]) if slots is None else np.append(0, np.cumsum(np.bincount(slots)))
    predicted, alone = np.empty(len(y)), np.empty(len(y))
    both = np.ascontiguousarray(np.hstack([X, shared]))
    loop.observe(keys, np.arange(len(starts) - 1), starts, order, both, y, weights, predicted, alone)
    return predicted, alone


def begun(loop: Any, count: Any = 1) -> Any:
    keys = np.empty((count, loop.size), np.float32)
    loop.begin(keys)
    return keys


@pytest.mark.parametrize(("outputs", "regression"), [(1, False), (3, False), (1, True)])
def test_predictions_are_those_of_the_twin(outputs: Any, regression: Any) -> None:
    X, shared, y = rows(400, 4, outputs, regression)
    loop = Differences(4, outputs, regression, WIDTHS, 0.995, 0.99)
    twin = Difference(4, outputs, regression, WIDTHS, 0.995, 0.99)
    predicted, alone = observe(loop, begun(loop), X, shared, y)
    expected = np.array([twin.observe(*row) for row in zip(X, shared, y, strict=True)])
    if regression:
        assert np.allclose(predicted, expected[:, 0], atol=1e-3)
        assert np.array_equal(alone, shared[:, 0])
    else:
        codes = expected[:, 0] > 0.5 if outputs == 1 else expected.argmax(axis=1)
        assert np.mean(predicted == codes) > 0.995  # float32 decides a few rows near a tie
        assert np.mean(predicted[200:] != y[200:]) < np.mean(alone[200:] != y[200:]) / 2


def test_what_a_key_learns_does_not_depend_on_calls_or_other_keys() -> None:
    X, shared, y = rows(300, 4, 1, False)
    loop = Differences(4, 1, False, WIDTHS, 0.995, 0.99)
    slots = np.arange(300) % 3
    together = begun(loop, 3)
    predicted, _ = observe(loop, together, X, shared, y, slots)
    own = begun(loop)
    found = [observe(loop, own, X[i::3][j : j + 7], shared[i::3][j : j + 7], y[i::3][j : j + 7].copy())[0]
             for i in [1] for j in range(0, 100, 7)]  # fmt: skip
    assert np.array_equal(np.concatenate(found), predicted[1::3])
    assert np.array_equal(own[0], together[1])


def test_a_row_without_a_target_changes_nothing_and_weights_count_rows() -> None:
    X, shared, y = rows(50, 4, 1, False)
    loop = Differences(4, 1, False, WIDTHS, 1.0, 1.0)
    keys = begun(loop)
    observe(loop, keys, X, shared, np.full(50, np.nan))
    assert np.array_equal(keys, begun(loop))
    observe(loop, keys, X, shared, y, weights=np.zeros(50))
    assert np.array_equal(keys, begun(loop))


def test_a_class_that_is_added_changes_no_bit() -> None:
    X, shared, y = rows(200, 4, 3, False)
    y = np.minimum(y, 1.0)
    narrow, wide = (Differences(4, outputs, False, WIDTHS, 0.995, 0.99) for outputs in (2, 3))
    two, three = begun(narrow), begun(wide)
    padded = np.hstack([shared[:, :2], np.full((200, 1), -1e300)])
    assert np.array_equal(observe(narrow, two, X, shared[:, :2], y)[0], observe(wide, three, X, padded, y)[0])
    own = two[0, 4:].reshape(3, -1), three[0, 4:].reshape(3, -1)
    assert np.array_equal(own[0][:, :10], own[1][:, :10])
    assert np.array_equal(own[0][:, 10:], own[1][:, 15:])
    assert not own[1][:, 10:15].any()


def test_hostile_numbers_leave_finite_ones() -> None:
    rng = np.random.default_rng(1)
    for d in (3, 40):
        for outputs, regression in ((1, False), (3, False), (1, True)):
            loop = Differences(d, outputs, regression, WIDTHS, 0.9, 0.5)
            keys = begun(loop)
            X = rng.choice([0.0, 1e308, -1e308, 1e-308, np.nan, np.inf, -np.inf, 1.0], size=(500, d))
            shared = rng.choice([0.0, 1e308, -1e300, -30.0, 5.0], size=(500, 2 if regression else outputs))
            shared[:, 0] = np.where(shared[:, 0] < -1e200, 0.0, shared[:, 0])
            y = rng.choice([0.0, 1e308, -1e308], size=500) if regression else rng.integers(2, size=500) * 1.0
            observe(loop, keys, X, shared, y)
            assert np.isfinite(keys).all()


def test_arrays_that_do_not_fit_are_refused() -> None:
    X, shared, y = rows(20, 4, 1, False)
    loop = Differences(4, 1, False, WIDTHS, 0.995, 0.99)
    with pytest.raises(ValueError, match="fit"):
        observe(loop, begun(loop), X[:, :3], shared, y)
    with pytest.raises(ValueError, match="fit"):
        observe(loop, begun(loop), X, shared, np.full(20, 2.0))
    with pytest.raises(ValueError, match="columns"):
        Differences(0, 1, False, WIDTHS, 0.995, 0.99)
    with pytest.raises(ValueError, match="forget"):
        Differences(1, 1, False, WIDTHS, 0.0, 0.99)
