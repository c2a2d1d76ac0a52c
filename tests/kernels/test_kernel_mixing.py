"""Mixers of a portfolio: equal to their slow twins, and right about who deserves weight."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import reference_mixing as twins
from hypothesis import given, settings
from hypothesis import strategies as st
from row_arrays import frozen

from driftsurf.core.contracts import FloatArray
from driftsurf.kernels import mixing

pytestmark = pytest.mark.python_kernels

shapes = {"M": st.integers(1, 6), "n": st.integers(1, 30), "seed": st.integers(0, 10**6)}


def curvature(random: np.random.Generator, M: int) -> FloatArray:
    root = random.normal(size=(M, 2 * M)) * 2.0
    return np.asarray(root @ root.T + 10.0 * np.eye(M))


def scratch(M: int) -> tuple[FloatArray, ...]:
    return np.empty(M), np.empty((M, M)), np.empty((M, M)), np.empty((M + 6, M))


def stack_classes(G: FloatArray, y: Any, weight: FloatArray, v: FloatArray, A: FloatArray) -> Any:
    u, H, Q, work = scratch(len(v))
    good = mixing.stack_classes(
        frozen(G), frozen(y), frozen(weight), frozen(v), frozen(A), u, H, Q, work, np.empty(G.shape[1])
    )
    return good, u, H


def stack_values(m: FloatArray, y: FloatArray, weight: FloatArray, s: float, v: FloatArray, A: FloatArray) -> Any:
    u, H, Q, work = scratch(len(v))
    good = mixing.stack_values(frozen(m), frozen(y), frozen(weight), s, frozen(v), frozen(A), u, H, Q, work)
    return good, u, H


@settings(max_examples=60)
@given(**shapes, K=st.integers(2, 5))
def test_classes_equal_their_twin(M: int, n: int, seed: int, K: int) -> None:
    random = np.random.default_rng(seed)
    G = np.log(0.99 * random.dirichlet(np.full(K, 0.3), size=(n, M)).transpose(0, 2, 1) + 0.01 / K)
    y, weight = random.integers(0, K, n), random.random(n) * (random.random(n) < 0.9)
    v, A = random.random(M) * (random.random(M) < 0.7), curvature(random, M)
    good, u, H = stack_classes(np.ascontiguousarray(G), y, weight, v, A)
    assert good
    expected = twins.stack_classes(G, y, weight, v, A)
    np.testing.assert_allclose(u, expected[0], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(H, expected[1], rtol=1e-7, atol=1e-9)


@settings(max_examples=60)
@given(**shapes, scale=st.sampled_from([1e-6, 1.0, 1e6]))
def test_values_equal_their_twin(M: int, n: int, seed: int, scale: float) -> None:
    random = np.random.default_rng(seed)
    y = 5.0 + random.normal(size=n)
    m = y[:, None] + random.standard_t(2, size=(n, M)) * random.random(M)
    weight, v, A = random.random(n), random.dirichlet(np.ones(M)), curvature(random, M)
    good, u, H = stack_values(m * scale, y * scale, weight, 0.7 * scale, v, A)
    assert good
    expected = twins.stack_values(m, y, weight, 0.7, v, A)
    np.testing.assert_allclose(u, expected[0], atol=1e-4)
    np.testing.assert_allclose(H, expected[1], rtol=1e-6, atol=1e-8)


def test_the_expert_that_knows_gets_the_weight() -> None:
    random = np.random.default_rng(0)
    y = random.integers(0, 3, 500)
    knows = np.full((500, 3), 0.05)
    knows[np.arange(500), y] = 0.9
    guesses = random.dirichlet(np.ones(3), size=500)
    wrong = np.roll(knows, 1, axis=1)
    G = np.log(np.stack([guesses, knows, wrong], axis=2))
    good, u, _ = stack_classes(G, y, np.ones(500), np.full(3, 1 / 3), 10.0 * np.eye(3))
    assert good
    assert u[1] > 1.0
    assert u[0] < 0.1
    assert u[2] < 0.1


def test_equal_experts_share_and_an_outlier_does_not_decide() -> None:
    random = np.random.default_rng(0)
    y = random.normal(size=300)
    near, far = y + 0.1 * random.normal(size=300), y + random.normal(size=300)
    y[7] = 1e6
    good, u, _ = stack_values(
        np.column_stack([near, near, far]), y, np.ones(300), 1.0, np.full(3, 1 / 3), 10.0 * np.eye(3)
    )
    assert good
    assert u[0] == pytest.approx(u[1])
    assert u[0] > 5 * u[2]


def test_numbers_that_are_not_finite_are_refused() -> None:
    G = np.zeros((4, 2, 2))
    G[1, 1, 1] = np.nan
    assert not stack_classes(G, np.zeros(4, np.int64), np.ones(4), np.full(2, 0.5), 10.0 * np.eye(2))[0]
