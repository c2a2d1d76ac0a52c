"""Data, references and parametrisations shared by the tests of logistic regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest
import reference
from hypothesis import settings
from hypothesis import strategies as st
from row_arrays import as_rows

from driftsurf.core.contracts import FloatArray, Segment
from driftsurf.core.samples import Samples
from driftsurf.core.state import to_bytes
from driftsurf.learners import LogisticRegression, _learner, _linear, logistic

Optimizer = Literal["strsaga", "saga", "sgd", "one-pass"]
Move = tuple[str, int, int]

optimizers = pytest.mark.parametrize("optimizer", ["strsaga", "saga", "sgd", "one-pass"])
keeping_rows = pytest.mark.parametrize("optimizer", ["strsaga", "saga", "sgd"])
layouts = pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])

LOOP_HOMES: dict[str, Any] = {"schedule": _learner, "saga": logistic, "saga_both": logistic, "largest": _linear}
"""Module in which a learner looks up each function of the native core."""
check = settings(max_examples=60)


@dataclass(frozen=True)
class Data:
    """A stream in memory: half of its cells are zero, its labels are noisy."""

    X: FloatArray
    y: FloatArray
    weight: FloatArray

    @classmethod
    def make(cls, n: int, d: int = 3, seed: int = 0, noise: float = 0.5) -> Data:
        random = np.random.default_rng(seed)
        X = random.normal(size=(n, d)) * (random.random((n, d)) < 0.5)
        y = (X @ np.arange(1.0, d + 1) + noise * random.normal(size=n) > 0).astype(float)
        return cls(X, y, random.choice(np.array([1.0, 1.0, 0.5, 2.0, 0.0]), n))

    def rows(self, bias: float) -> reference.LabelledRows:
        """Return the rows in the form of the reference."""
        return np.column_stack([self.X, np.full(len(self.X), bias)]), self.y, self.weight

    def append(self, samples: Samples, count: int) -> Segment:
        """Append the next ``count`` rows to a store."""
        part = slice(samples.next_row, samples.next_row + count)
        return samples.append(as_rows(self.X[part], samples.sparse), self.y[part], self.weight[part])

    def samples(self, sparse: bool = False, count: int | None = None) -> tuple[Samples, Segment]:
        """Return a store with the first ``count`` rows."""
        samples = Samples(self.X.shape[1], sparse=sparse)
        return samples, self.append(samples, len(self.X) if count is None else count)


def template(**options: Any) -> LogisticRegression:
    return LogisticRegression(**({"step_size": 0.1, "l2": 0.01} | options))


def snapshot(model: LogisticRegression) -> bytes:
    return to_bytes(model.state())


def weights(model: LogisticRegression) -> FloatArray:
    return np.append(model.coef, model.intercept)


def close(left: FloatArray, right: FloatArray) -> None:
    np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-9)


def same_as_twin(model: LogisticRegression, twin: reference.LogisticTwin) -> None:
    close(weights(model), twin.w)
    assert model.rows_admitted == twin.admitted
    assert model.rows_waiting == len(twin.known) - twin.admitted
    state = model.state()
    assert (state["words"], state["drawn"]) == (twin.words, len(twin.table))
    gradient_sum = state["gradient_sum"]
    assert isinstance(gradient_sum, np.ndarray)
    close(gradient_sum, reference.gradient_sum(twin.rows[0], twin.table))


def pair(
    data: Data, optimizer: Optimizer, *, fit_intercept: bool = True, start: str = "zeros", seed: int = 7
) -> tuple[LogisticRegression, reference.LogisticTwin]:
    """Return a model and its reference, both untrained."""
    options = template(optimizer=optimizer, fit_intercept=fit_intercept, start=start)
    model = options.fresh(seed, data.X.shape[1], 2)
    words = data.X.shape[1] + fit_intercept if start == "uniform" else 0
    w = np.zeros(data.X.shape[1] + 1)
    w[:words] = [reference.uniform(seed, k) for k in range(words)]
    return model, reference.LogisticTwin(data.rows(float(fit_intercept)), optimizer, w, 0.1, 0.01, seed, words)


moves = st.lists(
    st.tuples(st.just("update"), st.integers(0, 8), st.integers(0, 20))
    | st.tuples(st.just("forget"), st.integers(0, 12), st.just(0)),
    max_size=8,
)


def trained(optimizer: Optimizer, sparse: bool) -> tuple[LogisticRegression, Samples, Data]:
    """Return a model trained on 30 rows, of which some wait, and 40 more rows."""
    data = Data.make(70)
    samples, new = data.samples(sparse, 30)
    model = template(optimizer=optimizer, step_size="auto").fresh(3, 3, 2)
    model.update(samples, new, 35)
    return model, samples, data


def regularised_loss(w: FloatArray, rows: reference.LabelledRows, mu: float) -> float:
    X, y, weight = rows
    margins = X @ w
    losses = np.logaddexp(0.0, np.where(y == 1, -margins, margins))
    return float((weight * losses).mean() + 0.5 * mu * (w @ w))
