"""Optimisers for several losses and outputs: equal to their slow twins, and dense and CSR agree."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import reference_linear as twins
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from reference import LabelledRows
from row_arrays import csr_view, frozen

from driftsurf.core.contracts import DenseRows, FloatArray, IntArray
from driftsurf.native import linear

KINDS = {
    "softmax": linear.SOFTMAX,
    "squared": linear.SQUARED,
    "huber": linear.HUBER,
    "hinge": linear.SQUARED_HINGE,
}
losses = pytest.mark.parametrize("name", list(KINDS))
check = settings(max_examples=60)


@dataclass(frozen=True)
class Problem:
    """Rows, a model in the middle of its training, and the steps that it takes next."""

    loss: twins.Loss
    X: DenseRows
    y: FloatArray
    weight: FloatArray
    order: IntArray
    W: FloatArray
    table: dict[int, FloatArray]
    eta: float
    mu: float
    factor: FloatArray
    centre: FloatArray
    shift: float
    reach: float

    @property
    def rows(self) -> LabelledRows:
        """Rows for the twins: centred, scaled, with the constant column, and the shift subtracted from the targets."""
        X = np.column_stack([self.X, np.ones(len(self.X))]).astype(float)
        X = (X - self.centre) * self.factor
        sizes = np.square(X).sum(axis=1)
        most = np.divide(self.reach, 2 * self.eta * sizes, out=np.full(len(X), math.inf), where=sizes > 0)
        return X, self.y - self.shift, np.minimum(self.weight, most)

    @property
    def start(self) -> FloatArray:
        factor = self.factor[:, None]
        return np.divide(self.W, factor, out=np.zeros_like(self.W), where=factor > 0)

    @property
    def frame(self) -> tuple[FloatArray, FloatArray, IntArray]:
        return frozen(np.square(self.factor)), frozen(self.centre), frozen(np.flatnonzero(self.centre))

    @property
    def native_rows(self) -> tuple[tuple[Any, Any, Any], tuple[Any, Any, Any]]:
        csr, y, weight = csr_view(self.X), frozen(self.y), frozen(self.weight)
        return (frozen(self.X), y, weight), (csr, y, weight)

    @property
    def model(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        table = np.full((len(self.X), self.W.shape[1]), math.nan)
        for i, alpha in self.table.items():
            table[i] = alpha
        G = self.factor[:, None] * twins.gradient_sum(self.rows[0], self.table, self.W.shape[1])
        return self.W.copy(), G, table

    @property
    def how(self) -> tuple[Any, ...]:
        kind = KINDS[self.loss.name], self.loss.epsilon, self.shift, self.reach
        return self.eta, self.mu, self.frame, kind, self.W.shape[1]


@st.composite
def problems(draw: st.DrawFn, name: str) -> Problem:
    n, d = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    K = draw(st.integers(2, 4)) if name == "softmax" else 1
    dtype = draw(st.sampled_from([np.float64, np.float32]))
    values = st.sampled_from([0.0, 0.0, 1.0, -1.0]) | st.floats(-4.0, 4.0, width=32)
    X = draw(arrays(np.float64, (n, d), elements=values)).astype(dtype)
    classes = {"softmax": K, "hinge": 2}.get(name)
    targets = st.integers(0, classes - 1).map(float) if classes else st.floats(-5.0, 5.0)
    y = draw(arrays(np.float64, n, elements=targets))
    weight = draw(arrays(np.float64, n, elements=st.sampled_from([1.0, 0.0, 0.3, 2.0])))
    order = draw(st.lists(st.integers(0, n - 1), max_size=30))
    W = draw(arrays(np.float64, (d + 1, K), elements=st.floats(-3.0, 3.0)))
    drawn = draw(st.lists(st.integers(0, n - 1), unique=True))
    table = {i: draw(arrays(np.float64, K, elements=st.floats(-2.0, 2.0))) for i in drawn}
    factor = draw(arrays(np.float64, d + 1, elements=st.sampled_from([1.0, 1.0, 0.5, 2.0])))
    factor[-1] = draw(st.sampled_from([1.0, 0.0]))
    W[-1] *= factor[-1]
    centre = draw(arrays(np.float64, d + 1, elements=st.sampled_from([0.0, 0.0, 3.0, -1.5]))) * factor[-1]
    centre[-1] = 0.0
    shift = draw(st.sampled_from([0.0, 2.0])) if not classes else 0.0
    size = 1.0 + float((np.square((X.astype(float) - centre[:-1]) * factor[:-1]).sum(axis=1) * weight).max())
    eta = draw(st.floats(1e-3, 0.15)) / size
    mu = draw(st.sampled_from([0.0, 1e-3, 0.5, 1 - 1e-9])) / eta
    loss = twins.Loss(name, draw(st.sampled_from([0.5, 2.0])))
    reach = math.inf if name == "softmax" else draw(st.sampled_from([math.inf, 0.05]))
    return Problem(loss, X, y, weight, np.array(order, np.int64), W, table, eta, mu, factor, centre, shift, reach)


def close(left: FloatArray, right: FloatArray) -> None:
    np.testing.assert_allclose(left, right, rtol=1e-8, atol=1e-8)


@losses
@given(data=st.data())
@check
def test_saga_takes_the_steps_of_its_twin(name: str, data: st.DataObject) -> None:
    problem = data.draw(problems(name))
    table = dict(problem.table)
    U = twins.saga(problem.loss, problem.rows, problem.order, problem.start, table, problem.eta, problem.mu)
    sums = twins.gradient_sum(problem.rows[0], table, problem.W.shape[1])
    for place, rows in enumerate(problem.native_rows):
        W, G, kept = problem.model
        if place == 0:
            model = W.T.copy(), G.T.copy(), kept
            drawn = linear.multi_saga(*rows, frozen(problem.order), model, len(problem.table), *problem.how)
            W, G = model[0].T, model[1].T
        else:
            model = W, G, kept
            drawn = linear.multi_saga(*rows, frozen(problem.order), model, len(problem.table), *problem.how)
        assert drawn == len(table)
        close(W, problem.factor[:, None] * U)
        close(G, problem.factor[:, None] * sums)
        assert np.flatnonzero(~np.isnan(kept[:, 0])).tolist() == sorted(table)
        for i, alpha in table.items():
            close(kept[i], alpha)


@losses
@given(data=st.data())
@check
def test_sgd_takes_the_steps_of_its_twin(name: str, data: st.DataObject) -> None:
    problem = data.draw(problems(name))
    U = twins.sgd(problem.loss, problem.rows, problem.order, problem.start, problem.eta, problem.mu)
    dense, csr = problem.native_rows
    turned, W = problem.W.T.copy(), problem.W.copy()
    linear.multi_sgd(*dense, frozen(problem.order), turned, *problem.how)
    linear.multi_sgd(*csr, frozen(problem.order), W, *problem.how)
    close(turned.T, problem.factor[:, None] * U)
    close(W, problem.factor[:, None] * U)


@given(data=st.data())
@check
def test_discharged_rows_are_subtracted_from_the_gradient_sum_of_every_output(data: st.DataObject) -> None:
    problem = data.draw(problems("softmax"))
    count = data.draw(st.integers(0, len(problem.X)))
    left = {i: alpha for i, alpha in problem.table.items() if i >= count}
    expected = problem.factor[:, None] * twins.gradient_sum(problem.rows[0], left, problem.W.shape[1])
    sparse = problem.native_rows[1][0]
    _, G, table = problem.model
    gone = frozen(table[:count])
    drawn = linear.discharge(frozen(problem.X[:count]), gone, G, problem.frame)
    assert drawn == len(problem.table) - len(left)
    close(G, expected)
    _, G, _ = problem.model
    again = linear.discharge(sparse._replace(indptr=sparse.indptr[: count + 1]), gone, G, problem.frame)
    assert again == drawn
    close(G, expected)


@pytest.mark.parametrize("label", [-1.0, 3.0, 1e300, math.nan])
def test_labels_that_are_no_codes_are_refused(label: float) -> None:
    X, y, weight = np.ones((4, 2)), np.array([0.0, 1.0, label, 2.0]), np.ones(4)
    frame = np.ones(3), np.zeros(3), np.zeros(0, np.int64)
    how = 0.1, 0.0, frame, (linear.SOFTMAX, 1.0, 0.0, math.inf), 3
    W = np.zeros((3, 3))
    linear.multi_sgd(X, y, weight, np.array([0, 1, 3]), W, *how)
    before = W.copy()
    with pytest.raises(ValueError, match="is not the code of one of 3 classes"):
        linear.multi_sgd(X, y, weight, np.array([0, 2]), W, *how)
    with pytest.raises(ValueError, match="is not the code of one of 3 classes"):
        linear.multi_saga(X, y, weight, np.array([2]), (W, np.zeros((3, 3)), np.full((4, 3), math.nan)), 0, *how)
    assert (before == W).all()
