"""The native range guard: forks, copies, and values that never change; session/test_guard_twin.py has its twin."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import numpy.typing as npt
import pytest
from row_arrays import csr_view

from driftsurf.core.contracts import CSR
from driftsurf.native.guard import MEMORY, RangeGuard


def batches(d: int, count: int) -> list[npt.NDArray[np.float64]]:
    """Return batches with zeros, extreme values, rows that overflow, and a column whose scale changes."""
    rng = np.random.default_rng(d)
    found = []
    for number in range(count):
        rows = int(rng.choice([1, 5, 100, 1500]))
        X = rng.normal(size=(rows, d)) * (rng.random((rows, d)) < 0.8)
        X[:, 0] *= 50.0 if number > count // 3 else 1.0
        if rng.random() < 0.4:
            X[rng.integers(rows), rng.integers(d)] = 10.0 ** rng.integers(2, 300)
        found.append(X)
    return found


def test_rows_of_float32_are_admitted_as_float64() -> None:
    one, other = RangeGuard(), RangeGuard()
    for X in batches(5, 20):
        X = np.clip(X, -1e30, 1e30).astype(np.float32)
        (_, weights, one), (_, wanted, other) = one.admit(X), other.admit(X.astype(np.float64))
        np.testing.assert_equal(weights, wanted)
    assert one.recent.tolist() == other.recent.tolist()


def test_a_guard_stays_as_it_was_whatever_is_admitted_after_it() -> None:
    start = RangeGuard(clips=True).admit(np.ones((30, 2)))[2]
    before = start.recent.tolist(), start.total, start.mass
    one = start.admit(np.full((3, 2), 2.0))[2]
    other = start.admit(np.full((4, 2), 3.0))[2]  # memory behind the norms of ``start`` is taken
    later = one.admit(np.full((5, 2), 4.0))[2]
    assert start.recent.tolist() == before[0] == [2.0] * 30
    assert one.recent.tolist() == [2.0] * 30 + [8.0] * 3
    assert other.recent.tolist() == [2.0] * 30 + [18.0] * 4
    assert later.recent[:33].tolist() == one.recent.tolist()
    assert start.total is not None
    assert before[1] is not None
    assert start.total.tolist() == before[1].tolist()


def test_norms_are_kept_up_to_their_number_however_they_come() -> None:
    whole, pieces = RangeGuard(), RangeGuard()
    X = np.random.default_rng(0).uniform(1.0, 2.0, (9_000, 1))
    _, _, whole = whole.admit(X[:10])
    _, _, whole = whole.admit(X[10:])
    pieces = RangeGuard().admit(X[:10])[2]
    for k in range(10, len(X), 7):
        pieces = pieces.admit(X[k : k + 7])[2]
    assert len(whole.recent) == len(pieces.recent) == MEMORY
    np.testing.assert_allclose(whole.recent, np.square(X[-MEMORY:, 0] / np.mean(X[:10])), rtol=0.2)


def test_predictions_are_limited_to_multiples_of_usual_sizes() -> None:
    guard = RangeGuard(clips=True)
    assert guard.limits is None
    X = np.array([[1.0, 1e9]])
    assert guard.limited(X) is X
    guard = guard.admit(np.ones((100, 2)))[2]
    assert guard.limits is not None
    assert len(guard.limits) == 128
    assert guard.limited(X).tolist() == [[1.0, 6.0]]  # type: ignore[union-attr]
    assert guard.limited(X[:, ::-1][:, :1].repeat(2, axis=1).clip(0, 2)).tolist() == [[2.0, 2.0]]  # type: ignore[union-attr]
    limited = guard.limited(csr_view(X))
    assert isinstance(limited, CSR)
    assert limited.data.tolist() == [1.0, 6.0]


def test_values_that_are_no_numbers_in_an_old_state_become_infinite() -> None:
    guard = RangeGuard(recent=np.array([1.0, math.nan]))
    assert guard.recent.tolist() == [1.0, math.inf]


def test_tiny_values_leave_no_norm_that_is_no_number() -> None:
    guard = RangeGuard().admit(np.full((10, 2), 5e-324))[2]
    _, _, guard = guard.admit(np.array([[0.0, 1.0], [1e-320, 0.0]]))
    assert not np.isnan(guard.recent).any()


def test_copies_admit_the_same_rows_alike() -> None:
    guard = RangeGuard(3.0, True).admit(np.random.default_rng(0).normal(size=(50, 3)))[2]
    X = np.random.default_rng(1).normal(size=(20, 3))
    for other in (copy.deepcopy(guard), pickle.loads(pickle.dumps(guard))):
        assert other.admit(X)[2].recent.tolist() == guard.admit(X)[2].recent.tolist()
        assert (other.factor, other.clips) == (3.0, True)


def test_what_does_not_fit_is_refused() -> None:
    guard = RangeGuard().admit(np.ones((5, 3)))[2]
    with pytest.raises(ValueError, match="expected 3 columns, got 2"):
        guard.admit(np.ones((5, 2)))
    with pytest.raises(TypeError, match="cannot be changed"):
        guard.__init__(3.0)  # type: ignore[misc]
    with pytest.raises(ValueError, match="do not fit"):
        RangeGuard(recent=np.zeros(MEMORY + 1))
