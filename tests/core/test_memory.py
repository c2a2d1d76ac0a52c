"""Memory of a row and of a model in bytes; neither grows with the length of the stream."""

from __future__ import annotations

import numpy as np
import pytest

from driftsurf.core.contracts import Batch
from driftsurf.core.samples import Samples
from driftsurf.learners import LogisticRegression
from driftsurf.strategies import AUE, Candor, DriftSurf

WIDTH = 5
RNG = np.random.default_rng(8)


def row_bytes(dtype: str) -> int:
    """Return the bytes of a row: its values, its target and its weight, once for all models."""
    return WIDTH * np.dtype(dtype).itemsize + 16


MODEL_ROW_BYTES = 8
"""Bytes per row of a model: the gradient in its table."""
ROOM = 4
"""Largest ratio of capacity to live rows: capacity doubles, and rows are moved when they fill half of it."""


def batch(rows: int) -> Batch:
    X = RNG.normal(size=(rows, WIDTH))
    return Batch(X, (X[:, 0] > 0).astype(float), np.ones(rows))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_row_is_stored_once(dtype: str) -> None:
    samples = Samples(WIDTH, dtype=dtype)
    samples.append(*batch(4096)[:3])
    assert samples.nbytes == 2 * 4096 * row_bytes(dtype)


def test_a_sparse_row_takes_twelve_bytes_for_each_value() -> None:
    from driftsurf.core.input import Schema, read_rows

    samples = Samples(WIDTH, sparse=True)
    X, y, weight, _ = batch(4096)
    assert isinstance(X, np.ndarray)
    samples.append(read_rows(X, Schema(WIDTH, sparse=True)), y, weight)
    ends = samples.nbytes - 2 * 4096 * (12 * WIDTH + 16)
    assert 0 <= ends <= 3 * 8 * (4096 + 1)


@pytest.mark.parametrize("kind", [DriftSurf, AUE, Candor])
def test_memory_is_bounded_by_max_rows_for_any_length_of_the_stream(
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


def test_an_old_model_costs_as_much_as_a_young_one() -> None:
    seen = {}
    for age in (30, 300):
        strategy = DriftSurf(LogisticRegression(), max_rows=500, seed=0)
        strategy.begin(WIDTH, sparse=False, n_classes=2)
        for step in range(age):
            X, y, weight, _ = batch(100)
            decision = strategy.step(Batch(X, y if step >= 4 else 1 - y, weight))
        seen[age] = decision.gradients, strategy.nbytes, len(decision.models)
    assert seen[30] == seen[300]
