"""Losses, sums and votes, compared with plain Python twins; nothing overflows."""

from __future__ import annotations

import math

import numpy as np
import pytest
import reference
from driftsurf.kernels.votes import follow_losses, true_class_shares
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from kernel_problems import close
from row_arrays import frozen

from driftsurf.core.contracts import FloatArray

# Uncompiled, products of uint64 wrap with a warning of numpy, and so do floats that overflow on purpose.
pytestmark = [
    pytest.mark.python_kernels,
    pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning"),
]

check = settings(max_examples=200)


@given(rows=st.lists(st.tuples(st.floats(-1e300, 1e300), st.sampled_from([0.0, 1.0])), max_size=20))
@check
def test_the_probability_of_the_true_class_agrees_with_its_loss(rows: list[tuple[float, float]]) -> None:
    margins, y = np.array(rows).reshape(-1, 2).T.copy()
    out = np.empty(len(margins))
    true_class_shares(frozen(margins), frozen(y), out)
    np.testing.assert_allclose(out, [math.exp(-reference.logistic_loss(m, c)) for m, c in rows], rtol=1e-9, atol=1e-300)


@given(
    voters=st.integers(1, 5),
    weight=arrays(np.float64, st.integers(0, 12), elements=st.sampled_from([1.0, 1.0, 0.0, 0.5, 3.0])),
    decay=st.sampled_from([0.0, 0.75, 20.0]),
    seed=st.integers(0, 1000),
)
@check
def test_votes_equal_those_of_the_twin(voters: int, weight: FloatArray, decay: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    margins, losses = random.normal(size=(voters, len(weight))), random.exponential(size=(voters, len(weight)))
    logs, balance = -random.exponential(size=voters), np.empty(len(weight))
    logs -= logs.max()
    expected = reference.following(margins, losses, weight, logs, decay)
    follow_losses(frozen(margins), frozen(losses), frozen(weight), logs, balance, decay)
    close(balance, expected[0])
    close(logs, expected[1])


def test_votes_stay_finite_for_losses_of_any_size() -> None:
    margins, logs, balance = np.array([[1.0] * 3, [-1.0] * 3]), np.zeros(2), np.empty(3)
    losses = np.array([[math.nan, 1e300, 0.0], [1e308, 0.0, 0.0]])
    follow_losses(margins, losses, np.array([0.0, 1.0, 1.0]), logs, balance, 0.75)
    assert balance.tolist() == [0.0, 0.0, -1.0]
    assert logs.tolist() == [-0.75e300, 0.0]
