"""What a row and a model take in bytes, and that it does not grow with the stream."""

from __future__ import annotations

import numpy as np
import pytest

from driftsurf.base import Batch
from driftsurf.learners import LogisticRegression
from driftsurf.samples import Samples
from driftsurf.strategies import AUE, Candor, DriftSurf

WIDTH = 5
RNG = np.random.default_rng(8)


def row_bytes(dtype: str) -> int:
    """Its values, its target and its weight, once, for all models."""
    return WIDTH * np.dtype(dtype).itemsize + 16


MODEL_ROW_BYTES = 8
"""One number a row of its set: the gradient in the table."""
ROOM = 4
"""Times the most that was live: room doubles, and trimmed values are moved over when they are half of it."""


def batch(rows: int) -> Batch:
    X = RNG.normal(size=(rows, WIDTH))
    return Batch(X, (X[:, 0] > 0).astype(float), np.ones(rows))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_row_is_stored_once(dtype: str) -> None:
    samples = Samples(WIDTH, dtype=dtype)
    samples.append(*batch(4096)[:3])
    assert samples.nbytes == 2 * 4096 * row_bytes(dtype)


def test_a_sparse_row_takes_its_values_twelve_bytes_each() -> None:
    from driftsurf.validation import Schema, read_rows

    samples = Samples(WIDTH, sparse=True)
    X, y, weight, _ = batch(4096)
    samples.append(read_rows(X, Schema(WIDTH, sparse=True)), y, weight)
    ends = samples.nbytes - 2 * 4096 * (12 * WIDTH + 16)
    assert 0 <= ends <= 3 * 8 * (4096 + 1)


@pytest.mark.parametrize("kind", [DriftSurf, AUE, Candor])
def test_memory_is_bounded_by_the_cap_whatever_the_length_of_the_stream(
    kind: type[DriftSurf] | type[AUE] | type[Candor],
) -> None:
    cap, size, models = 500, 100, 2 if kind is DriftSurf else 25
    strategy = kind(LogisticRegression(), max_rows=cap, seed=0)
    strategy.begin(WIDTH, sparse=False, n_classes=2)
    held = []
    for _ in range(60):
        strategy.step(batch(size))
        held.append(strategy.nbytes)
    model = ROOM * (cap + size) * MODEL_ROW_BYTES + 4 * 8 * (WIDTH + 1)
    assert max(held) <= ROOM * (cap + size) * row_bytes("float64") + models * model
    assert held[-1] == held[-30], "nothing grows any more"


def test_age_does_not_show() -> None:
    """Gradients and bytes a step of a model far older than another are the same."""
    seen = {}
    for age in (30, 300):
        strategy = DriftSurf(LogisticRegression(), max_rows=500, seed=0)
        strategy.begin(WIDTH, sparse=False, n_classes=2)
        for step in range(age):
            X, y, weight, _ = batch(100)
            decision = strategy.step(Batch(X, y if step >= 4 else 1 - y, weight))
        seen[age] = decision.gradients, strategy.nbytes, len(decision.models)
    assert seen[30] == seen[300]
