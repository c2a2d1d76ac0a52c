"""Each kernel equals its slow twin, dense and CSR agree, and nothing overflows.

Run once more with NUMBA_DISABLE_JIT=1 to test (and measure the coverage of) the same lines as Python.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import chisquare

import reference
from driftsurf import _kernels
from driftsurf._random import MASK, word
from driftsurf.base import CSR, DenseRows, FloatArray, IntArray

# As Python, uint64 products wrap with a warning of numpy's, and so do floats that are meant to overflow.
pytestmark = [
    pytest.mark.python_kernels,
    pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning"),
]

SEEDS = st.integers(0, MASK)
COUNTERS = st.integers(0, 2**62)


def check(test: Callable[..., None]) -> Callable[..., None]:
    return settings(deadline=None, max_examples=200)(test)


def frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A read-only copy: what a kernel takes as input it must not need to write."""
    array = array.copy()
    array.flags.writeable = False
    return array


def sparse(X: DenseRows) -> CSR:
    """The rows as a view into a larger store, whose other values must not be read."""
    row, column = np.nonzero(X)
    indptr = 2 + np.searchsorted(row, np.arange(len(X) + 1))
    data = np.concatenate([[np.nan] * 2, X[row, column], [np.nan]]).astype(X.dtype)
    indices = np.concatenate([[2**30] * 2, column, [2**30]]).astype(np.int32)
    return CSR(frozen(data), frozen(indices), frozen(indptr.astype(np.int64)), X.shape[1])


@dataclass(frozen=True)
class Problem:
    """Rows, a model somewhere in the middle of its training, and steps for it to take."""

    X: DenseRows
    y: FloatArray
    weight: FloatArray
    order: IntArray
    w: FloatArray
    table: dict[int, float]
    eta: float
    mu: float
    factor: FloatArray
    """Of each column, the constant one last: the gains are its squares."""
    centre: FloatArray | None = None

    @property
    def rows(self) -> reference.LabelledRows:
        """As the twins take them, who know of no frame: centred, multiplied, with the constant column."""
        X = np.column_stack([self.X, np.ones(len(self.X))]).astype(float)
        return (X - self.frame[1]) * self.factor, self.y, self.weight

    @property
    def start(self) -> FloatArray:
        """The weights of the multiplied columns."""
        return np.divide(self.w, self.factor, out=np.zeros_like(self.w), where=self.factor > 0)

    @property
    def frame(self) -> tuple[FloatArray, FloatArray, IntArray]:
        centre = np.zeros_like(self.factor) if self.centre is None else self.centre
        return frozen(np.square(self.factor)), frozen(centre), frozen(np.flatnonzero(centre))

    @property
    def kernel_rows(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """As the kernels take them, dense and CSR."""
        csr, y, weight = sparse(self.X), frozen(self.y), frozen(self.weight)
        return (frozen(self.X), y, weight), (csr.data, csr.indices, csr.indptr, y, weight)

    @property
    def model(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Weights, gradient sum and table, as the kernels take them."""
        table = np.full(len(self.X), math.nan)
        for i, alpha in self.table.items():
            table[i] = alpha
        return self.w.copy(), self.factor * reference.gradient_sum(self.rows[0], self.table), table


@st.composite
def problems(draw: st.DrawFn, max_steps: int = 40) -> Problem:
    n, d = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    dtype = draw(st.sampled_from([np.float64, np.float32]))
    values = st.sampled_from([0.0, 0.0, 1.0, -1.0]) | st.floats(-8.0, 8.0, width=32)
    X = draw(arrays(np.float64, (n, d), elements=values)).astype(dtype)
    y = draw(arrays(np.float64, n, elements=st.sampled_from([0.0, 1.0])))
    weight = draw(arrays(np.float64, n, elements=st.sampled_from([1.0, 0.0, 0.3, 4.0])))
    order = draw(st.lists(st.integers(0, n - 1), max_size=max_steps))
    w = draw(arrays(np.float64, d + 1, elements=st.floats(-5.0, 5.0)))
    table = draw(st.dictionaries(st.integers(0, n - 1), st.floats(-4.0, 4.0)))
    factor = draw(arrays(np.float64, d + 1, elements=st.sampled_from([1.0, 1.0, 0.5, 3.0])))
    factor[-1] = draw(st.sampled_from([1.0, 0.0]))
    w[-1] *= factor[-1]
    centre = draw(arrays(np.float64, d + 1, elements=st.sampled_from([0.0, 0.0, 3.0, -1.5]))) * factor[-1]
    centre[-1] = 0.0
    # Beyond 1 / L the steps are chaotic and any rounding error grows; mu has the whole of its range.
    curvature = 0.25 + float((np.square((X.astype(float) - centre[:-1]) * factor[:-1]).sum(axis=1) * weight).max()) / 4
    eta = draw(st.floats(1e-3, 0.3)) / curvature
    mu = draw(st.sampled_from([0.0, 1e-4, 0.5, 0.99, 1 - 1e-9])) / eta
    return Problem(X, y, weight, np.array(order, np.int64), w, table, eta, mu, factor, centre)


def close(left: FloatArray, right: FloatArray) -> None:
    np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-9)


# ---------------------------------------------------------------------------- random draws


@given(size=st.integers(0, 50), seed=SEEDS, k=COUNTERS)
@check
def test_fill_uniform_takes_the_upper_53_bits_of_each_word(size: int, seed: int, k: int) -> None:
    out = np.empty(size)
    assert _kernels.fill_uniform(out, seed, k) == k + size
    assert out.tolist() == [reference.uniform(seed, k + i) for i in range(size)]
    assert out.tolist() == [(word(seed, k + i) >> 11) * 2.0**-53 for i in range(size)]


@given(size=st.integers(0, 50), n=st.integers(1, 2**32 - 1), seed=SEEDS, k=COUNTERS)
@check
def test_uniform_draws_are_the_words_by_multiply_shift(size: int, n: int, seed: int, k: int) -> None:
    order = np.empty(size, np.int64)
    assert _kernels.draw_uniformly(order, n, seed, k) == k + size
    assert order.tolist() == [reference.draw(seed, k + j, n) for j in range(size)]
    assert all(0 <= i < n for i in order)


@given(steps=st.integers(0, 50), admitted=st.integers(0, 20), waiting=st.integers(0, 20), seed=SEEDS, k=COUNTERS)
@check
def test_the_schedule_alternates(steps: int, admitted: int, waiting: int, seed: int, k: int) -> None:
    if admitted + waiting == 0:
        waiting = 1
    order = np.empty(steps, np.int64)
    count, next_k = _kernels.alternate(order, admitted, waiting, seed, k)
    visited, size, expected_k = reference.alternating(steps, admitted, waiting, seed, k)
    assert order.tolist() == visited
    assert (admitted + count, next_k) == (size, expected_k)
    assert next_k - k == steps - count, "an admission uses no random word"


def test_every_other_step_admits_the_oldest_waiting_row() -> None:
    order = np.empty(9, np.int64)
    assert _kernels.alternate(order, 2, 3, 0, 0) == (3, 6)
    assert order[0:5:2].tolist() == [2, 3, 4]
    assert order[1] < 3
    assert order[3] < 4


@given(
    steps=st.integers(0, 50),
    admitted=st.integers(0, 20),
    waiting=st.integers(0, 20),
    seed=SEEDS,
    k=COUNTERS,
    width=st.integers(1, 3),
    plain=st.booleans(),
)
@check
def test_a_schedule_admits_rows_to_the_table_and_keeps_what_the_steps_overwrite(
    steps: int, admitted: int, waiting: int, seed: int, k: int, width: int, plain: bool
) -> None:
    if admitted + waiting == 0:
        waiting = 1
    visited, size, next_k = (reference.growing if plain else reference.alternating)(steps, admitted, waiting, seed, k)
    before = np.arange((size + 1) * width, dtype=float).reshape(size + 1, width)
    order, table, old = np.empty(steps, np.int64), before.copy(), np.empty((steps, width))
    flat = table.reshape(-1), old.reshape(-1)
    assert _kernels.schedule(order, *flat, admitted, waiting, seed, k, not plain) == next_k
    assert order.tolist() == visited
    before[admitted:size] = np.nan
    np.testing.assert_array_equal(table, before)
    np.testing.assert_array_equal(old, before[visited])


@pytest.mark.parametrize("n", [2, 10, 37])
def test_draws_are_uniform(n: int) -> None:
    order = np.empty(20_000, np.int64)
    _kernels.draw_uniformly(order, n, 2024, 0)
    assert chisquare(np.bincount(order, minlength=n)).pvalue > 0.001


def test_uniform_numbers_fill_the_unit_interval() -> None:
    out = np.empty(20_000)
    _kernels.fill_uniform(out, 2024, 0)
    assert 0.0 <= out.min() < 0.001
    assert 0.999 < out.max() < 1.0
    assert chisquare(np.histogram(out, 20, (0.0, 1.0))[0]).pvalue > 0.001


# ---------------------------------------------------------------------------- margins and losses


@given(problem=problems(max_steps=0))
@check
def test_margins_equal_the_twin_dense_and_sparse(problem: Problem) -> None:
    expected = np.column_stack([problem.X, np.ones(len(problem.X))]).astype(float) @ problem.w
    (X, *_), (data, indices, indptr, *_) = problem.kernel_rows
    dense, csr = np.empty((2, len(problem.X)))
    _kernels.margins_dense(X, frozen(problem.w), dense)
    _kernels.margins_csr(data, indices, indptr, frozen(problem.w), csr)
    close(dense, expected)
    close(csr, dense)


@given(problem=problems(max_steps=0), models=st.integers(1, 4))
@check
def test_margins_of_all_models_are_those_of_each(problem: Problem, models: int) -> None:
    (X, *_), (data, indices, indptr, *_) = problem.kernel_rows
    weights = np.outer(np.arange(1.0, models + 1), problem.w)
    dense, csr = np.empty((2, models, len(X)))
    _kernels.margins_of_all_dense(X, frozen(weights), dense)
    _kernels.margins_of_all_csr(data, indices, indptr, frozen(weights), csr)
    close(dense, weights @ np.column_stack([X, np.ones(len(X))]).astype(float).T)
    close(csr, dense)


@given(rows=st.lists(st.tuples(st.floats(-1e300, 1e300), st.sampled_from([0.0, 1.0])), max_size=20))
@check
def test_the_share_of_the_true_class_is_that_of_its_loss(rows: list[tuple[float, float]]) -> None:
    margins, y = np.array(rows).reshape(-1, 2).T.copy()
    out = np.empty(len(margins))
    _kernels.true_class_shares(frozen(margins), frozen(y), out)
    np.testing.assert_allclose(out, [math.exp(-reference.logistic_loss(m, c)) for m, c in rows], rtol=1e-9, atol=1e-300)


@given(problem=problems(max_steps=0))
@check
def test_squared_norms_equal_numpy_dense_and_sparse(problem: Problem) -> None:
    (X, *_), (data, indices, indptr, *_) = problem.kernel_rows
    dense, csr = np.empty((2, len(X)))
    _kernels.squared_norms_dense(X, frozen(problem.factor), problem.frame[1], dense)
    _kernels.squared_norms_csr(data, indices, indptr, frozen(problem.factor), problem.frame[1], csr)
    close(dense, np.square(problem.rows[0]).sum(axis=1))
    close(csr, dense)


@given(problem=problems(max_steps=0))
@check
def test_magnitudes_equal_numpy_dense_and_sparse(problem: Problem) -> None:
    (X, *_), (data, indices, indptr, *_) = problem.kernel_rows
    dense, csr = np.ones((2, 2, X.shape[1]))
    cap = frozen(problem.factor[:-1])
    _kernels.add_magnitudes_dense(X, frozen(problem.weight), cap, dense[0], dense[1])
    _kernels.add_magnitudes_csr(data, indices, indptr, frozen(problem.weight), cap, csr[0], csr[1])
    close(dense[0], 1 + problem.weight @ np.minimum(np.abs(X.astype(float)), cap))
    close(dense[1], 1 + problem.weight @ (X != 0))
    close(csr, dense)


@given(problem=problems(max_steps=0), huge=st.booleans())
@check
def test_measuring_is_norms_and_magnitudes_in_one_pass(problem: Problem, huge: bool) -> None:
    X = problem.X.astype(float)
    X[0, 0] = 1e200 if huge else X[0, 0]  # its square overflows: it has a norm but adds nothing
    factor, cap = frozen(problem.factor[:-1]), frozen(2.0 * problem.factor[:-1])
    both: list[tuple[tuple[Any, ...], Callable[..., Any]]] = [
        ((frozen(X),), _kernels.measure_dense),
        (sparse(X)[:3], _kernels.measure_csr),
    ]
    for rows, measure in both:
        norms, (total, mass) = np.empty(len(X)), np.ones((2, X.shape[1]))
        largest, zeros = measure(*rows, factor, cap, total, mass, norms)
        assert (largest, zeros) == (norms.max(), np.count_nonzero(norms == 0.0))
        with np.errstate(over="ignore"):
            np.testing.assert_allclose(norms, np.square(X * factor).sum(axis=1), rtol=1e-12)
        counted = X[huge:]
        close(total, 1 + np.minimum(np.abs(counted), cap).sum(axis=0))
        close(mass, 1 + np.count_nonzero(counted, axis=0))


@given(
    columns=st.lists(st.tuples(st.floats(0.0, 1e6), st.floats(0.0, 2e4)), max_size=6),
    memory=st.sampled_from([1e4, 1e9]),
)
@check
def test_the_sizes_of_columns_equal_numpy(columns: list[tuple[float, float]], memory: float) -> None:
    total, mass = np.array(columns).reshape(-1, 2).T.copy()
    fade = 0.5 if mass.max(initial=0.0) > memory else 1.0
    known = fade * mass > 0.0
    out = np.empty((4, len(total)))
    without = _kernels.column_sizes(frozen(total), frozen(mass), memory, 3.0, out)
    with np.errstate(over="ignore"):
        sizes = np.divide(fade * total, fade * mass, out=np.zeros(len(total)), where=known)
    factor = np.divide(1.0, sizes, out=np.ones(len(total)), where=sizes > 0.0)
    assert without == np.count_nonzero(~known)
    assert out.tolist() == [factor.tolist(), (3.0 * sizes).tolist(), (fade * total).tolist(), (fade * mass).tolist()]


@given(
    values=st.lists(st.sampled_from([0.0, -0.0, 1.0, 2.0, 3.0, 0.5, -1.0, math.nan, math.inf, -math.inf]), max_size=8),
    n_classes=st.integers(1, 4),
)
@check
def test_codes_are_whole_numbers_below_the_number_of_classes(values: list[float], n_classes: int) -> None:
    assert _kernels.are_codes(frozen(np.array(values)), n_classes) == (set(values) <= set(range(n_classes)))


@given(labels=st.lists(st.integers(-2, 2), max_size=20), names=st.permutations([-1, 0, 2]))
@check
def test_binary_codes_tell_two_labels_apart(labels: list[int], names: list[int]) -> None:
    first, second, _ = names
    out = np.empty(len(labels))
    known = _kernels.binary_codes(frozen(np.array(labels, np.int64)), first, second, out)
    assert known == (set(labels) <= {first, second})
    assert out.tolist() == [float(label == second) for label in labels]


def test_squared_norms_beyond_the_range_are_infinite() -> None:
    X = np.array([[1e200, 0.0], [3.0, 4.0]])
    csr, (dense, out) = sparse(X), np.empty((2, 2))
    factor = np.array([1.0, 1.0, 0.0])
    _kernels.squared_norms_dense(X, factor, np.zeros(3), dense)
    _kernels.squared_norms_csr(csr.data, csr.indices, csr.indptr, factor, np.zeros(3), out)
    assert dense.tolist() == out.tolist() == [math.inf, 25.0]


@given(
    rows=st.lists(st.tuples(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([0.0, 1.0])), max_size=20)
)
@check
def test_losses_equal_the_twin_for_every_finite_margin(rows: list[tuple[float, float]]) -> None:
    margins, y = np.array(rows).reshape(-1, 2).T.copy()
    out = np.empty(len(margins))
    _kernels.logistic_losses(frozen(margins), frozen(y), out)
    np.testing.assert_allclose(out, [reference.logistic_loss(m, c) for m, c in rows], rtol=1e-12, atol=1e-300)


def test_losses_do_not_overflow() -> None:
    out = np.empty(4)
    _kernels.logistic_losses(np.array([1e308, -1e308, 1e308, -1e308]), np.array([0.0, 0.0, 1.0, 1.0]), out)
    assert out.tolist() == [1e308, 0.0, 0.0, 1e308]


@given(values=st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(0.0, 10.0)), max_size=20))
@check
def test_weighted_sum_equals_numpy(values: list[tuple[float, float]]) -> None:
    value, weight = np.array(values).reshape(-1, 2).T.copy()
    close(np.array(_kernels.weighted_sum(frozen(value), frozen(weight))), np.array([value @ weight, weight.sum()]))


def test_weighted_sum_passes_over_what_has_no_weight() -> None:
    values, weight = np.array([math.nan, 2.0, math.inf]), np.array([0.0, 3.0, 0.0])
    assert _kernels.weighted_sum(values, weight) == (6.0, 3.0)


@given(
    voters=st.integers(1, 5),
    weight=arrays(np.float64, st.integers(0, 12), elements=st.sampled_from([1.0, 1.0, 0.0, 0.5, 3.0])),
    decay=st.sampled_from([0.0, 0.75, 20.0]),
    seed=st.integers(0, 1000),
)
@check
def test_votes_follow_the_losses_as_the_twin_has_it(voters: int, weight: FloatArray, decay: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    margins, losses = random.normal(size=(voters, len(weight))), random.exponential(size=(voters, len(weight)))
    logs, balance = -random.exponential(size=voters), np.empty(len(weight))
    logs -= logs.max()
    expected = reference.following(margins, losses, weight, logs, decay)
    _kernels.follow_losses(frozen(margins), frozen(losses), frozen(weight), logs, balance, decay)
    close(balance, expected[0])
    close(logs, expected[1])


def test_losses_of_rows_without_weight_and_of_any_size_leave_votes_finite() -> None:
    margins, logs, balance = np.array([[1.0] * 3, [-1.0] * 3]), np.zeros(2), np.empty(3)
    losses = np.array([[math.nan, 1e300, 0.0], [1e308, 0.0, 0.0]])
    _kernels.follow_losses(margins, losses, np.array([0.0, 1.0, 1.0]), logs, balance, 0.75)
    assert balance.tolist() == [0.0, 0.0, -1.0]
    assert logs.tolist() == [-0.75e300, 0.0]


@given(values=st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(0.1, 10.0)), min_size=1, max_size=20))
@check
def test_squared_length_sums_in_the_order_of_the_weights(values: list[tuple[float, float]]) -> None:
    weights, factor = np.array(values).T.copy()
    expected = np.cumsum(np.square(weights / factor))
    assert _kernels.squared_length(frozen(weights), frozen(factor)) == expected[-1]
    factor[-1] = 0.0
    assert _kernels.squared_length(weights, factor) == (expected[-2] if len(expected) > 1 else 0.0)


@given(values=st.lists(st.floats(), max_size=20))
@check
def test_the_largest_size_is_infinite_beside_a_nan(values: list[float]) -> None:
    expected = math.inf if any(map(math.isnan, values)) else max(map(abs, values), default=0.0)
    array = frozen(np.array(values, float))
    assert _kernels.largest(array) == expected
    for place in range(len(values) + 1):
        assert _kernels.largest_of_two(array[:place], array[place:]) == expected


# ---------------------------------------------------------------------------- optimisers


@given(problem=problems())
@check
def test_saga_equals_the_twin_dense_and_sparse(problem: Problem) -> None:
    table, drawn = dict(problem.table), len(problem.table)
    u = reference.saga(problem.rows, problem.order.tolist(), problem.start, table, problem.eta, problem.mu)
    kernels = zip((_kernels.saga_dense, _kernels.saga_csr), problem.kernel_rows, strict=True)
    for saga, rows in kernels:
        model = problem.model
        result = saga(rows, frozen(problem.order), model, drawn, problem.eta, problem.mu, problem.frame, None)
        assert result == len(table)
        close(model[0], problem.factor * u)
        close(model[1], problem.factor * reference.gradient_sum(problem.rows[0], table))
        entries = {i: alpha for i, alpha in enumerate(model[2]) if not math.isnan(alpha)}
        assert entries.keys() == table.keys()
        close(np.array([entries[i] for i in table]), np.array([*table.values()]))


@given(problem=problems(), turned=st.booleans())
@check
def test_two_models_in_turn_are_the_same_bits_as_one_after_the_other(problem: Problem, turned: bool) -> None:
    rows, drawn = problem.kernel_rows[0], len(problem.table)
    orders = frozen(problem.order), frozen(problem.order[::-1].copy() if turned else problem.order)
    etas = problem.eta, problem.eta / 3.0
    alone, together = [problem.model, problem.model], [problem.model, problem.model]
    counts = tuple(
        _kernels.saga_dense(rows, order, model, drawn, eta, problem.mu, problem.frame, None)
        for order, model, eta in zip(orders, alone, etas, strict=True)
    )
    sides = [
        (rows, order, model, drawn, eta, problem.frame)
        for order, model, eta in zip(orders, together, etas, strict=True)
    ]
    assert _kernels.saga_both_dense(*sides[0], *sides[1], problem.mu) == counts
    for one, two in zip(alone, together, strict=True):
        assert [values.tobytes() for values in one] == [values.tobytes() for values in two]


@given(problem=problems())
@check
def test_sgd_equals_the_twin_dense_and_sparse(problem: Problem) -> None:
    expected = reference.sgd(problem.rows, problem.order.tolist(), problem.start, problem.eta, problem.mu)
    for sgd, rows in zip((_kernels.sgd_dense, _kernels.sgd_csr), problem.kernel_rows, strict=True):
        w = problem.w.copy()
        sgd(rows, frozen(problem.order), w, problem.eta, problem.mu, problem.frame, None)
        close(w, problem.factor * expected)


@given(problem=problems(), scale=st.floats(-2.0, 2.0))
@check
def test_an_offset_holds_a_model_to_an_anchor(problem: Problem, scale: float) -> None:
    # The kernels learn u = w - p with the offset p.x; the twins learn w with the penalty's pull towards p.
    anchor = scale * np.cos(np.arange(len(problem.start)))
    offset = frozen(problem.rows[0] @ anchor)
    table, drawn = dict(problem.table), len(problem.table)
    order = problem.order.tolist()
    by_saga = reference.saga(problem.rows, order, problem.start + anchor, table, problem.eta, problem.mu, anchor)
    by_sgd = reference.sgd(problem.rows, order, problem.start + anchor, problem.eta, problem.mu, anchor)
    how = problem.eta, problem.mu, problem.frame, offset
    for saga, sgd, rows in zip(
        (_kernels.saga_dense, _kernels.saga_csr),
        (_kernels.sgd_dense, _kernels.sgd_csr),
        problem.kernel_rows,
        strict=True,
    ):
        model, w = problem.model, problem.w.copy()
        saga(rows, frozen(problem.order), model, drawn, *how)
        close(model[0], problem.factor * (by_saga - anchor))
        sgd(rows, frozen(problem.order), w, *how)
        close(w, problem.factor * (by_sgd - anchor))


@given(problem=problems(max_steps=0), gone=st.integers(0, 6))
@check
def test_discharged_rows_leave_the_gradient_sum(problem: Problem, gone: int) -> None:
    gone = min(gone, len(problem.X))
    (X, *_), (data, indices, indptr, *_) = problem.kernel_rows
    staying = {i: alpha for i, alpha in problem.table.items() if i >= gone}
    (_, dense, table), (_, csr, _) = problem.model, problem.model
    drawn = _kernels.discharge_dense(X[:gone], frozen(table[:gone]), dense, problem.frame)
    assert drawn == len(problem.table) - len(staying)
    arguments = data, indices, indptr[: gone + 1], frozen(table[:gone]), csr, problem.frame
    assert _kernels.discharge_csr(*arguments) == drawn
    close(dense, problem.factor * reference.gradient_sum(problem.rows[0], staying))
    close(csr, dense)


@pytest.mark.parametrize("ratio", [0.5, 0.999, 1 - 2.0**-52])
def test_sparse_steps_stay_exact_when_the_scale_is_renewed_many_times(ratio: float) -> None:
    # (1 - ratio)^300 is far below the 1e-6 at which the factor s goes into the weights, many times over.
    random = np.random.default_rng(3)
    X = random.normal(size=(12, 4)) * (random.random((12, 4)) < 0.5)
    y, order = (random.random(12) < 0.5).astype(float), random.integers(0, 12, 300)
    problem = Problem(X, y, np.ones(12), order, np.full(5, 100.0), {}, 0.05, ratio / 0.05, np.ones(5))
    dense_rows, csr_rows = problem.kernel_rows
    dense, csr = problem.model, problem.model
    for saga, rows, model in ((_kernels.saga_dense, dense_rows, dense), (_kernels.saga_csr, csr_rows, csr)):
        saga(rows, order, model, 0, problem.eta, problem.mu, problem.frame, None)
        close(model[0], reference.saga(problem.rows, order.tolist(), problem.w, {}, problem.eta, problem.mu))
    w = problem.w.copy()
    _kernels.sgd_csr(csr_rows, order, w, problem.eta, problem.mu, problem.frame, None)
    close(w, reference.sgd(problem.rows, order.tolist(), problem.w, problem.eta, problem.mu))


@pytest.mark.parametrize("layout", [0, 1], ids=["dense", "csr"])
def test_a_huge_row_without_weight_changes_nothing(layout: int) -> None:
    ordinary = np.array([[1.0, -2.0], [0.5, 0.0]])
    huge = np.array([[1e308, -1e308], [0.5, 0.0]])  # the margin is inf - inf
    order, w = np.array([0, 1, 0, 1, 1, 0]), np.array([1e10, 1e10, 1.0])
    results = []
    for X in (ordinary, huge):
        problem = Problem(X, np.array([0.0, 1.0]), np.array([0.0, 1.0]), order, w, {}, 0.1, 0.01, np.ones(3))
        rows, model, weights = problem.kernel_rows[layout], problem.model, problem.w.copy()
        (_kernels.saga_dense, _kernels.saga_csr)[layout](rows, order, model, 0, 0.1, 0.01, problem.frame, None)
        (_kernels.sgd_dense, _kernels.sgd_csr)[layout](rows, order, weights, 0.1, 0.01, problem.frame, None)
        results.append([values.tolist() for values in (*model, weights)])
    assert results[0] == results[1]


@pytest.mark.parametrize("layout", [0, 1], ids=["dense", "csr"])
@pytest.mark.parametrize("margin", [1e300, -1e300])
@pytest.mark.parametrize("y", [0.0, 1.0])
def test_gradients_are_bounded_at_any_margin(layout: int, margin: float, y: float) -> None:
    problem = Problem(
        np.array([[1.0]]),
        np.array([y]),
        np.array([1.0]),
        np.zeros(1, np.int64),
        np.array([margin, 0.0]),
        {},
        0.1,
        0.0,
        np.array([1.0, 0.0]),
    )
    _, G, table = model = problem.model
    (_kernels.saga_dense, _kernels.saga_csr)[layout](
        problem.kernel_rows[layout], problem.order, model, 0, 0.1, 0.0, problem.frame, None
    )
    expected = float(margin > 0) - y
    assert table[0] == pytest.approx(expected, abs=1e-300)
    assert G[0] == table[0]


def test_no_steps_change_nothing() -> None:
    problem = Problem(
        np.ones((1, 1)), np.ones(1), np.ones(1), np.zeros(0, np.int64), np.ones(2), {}, 0.1, 0.5, np.ones(2)
    )
    for saga, rows in zip((_kernels.saga_dense, _kernels.saga_csr), problem.kernel_rows, strict=True):
        model = problem.model
        assert saga(rows, problem.order, model, 0, 0.1, 0.5, problem.frame, None) == 0
        assert model[0].tolist() == [1.0, 1.0]


def test_float32_rows_are_computed_with_in_double_precision() -> None:
    X = np.array([[1e30, 1e-30]], np.float32)  # squares that float32 does not hold
    out = np.empty(1)
    _kernels.squared_norms_dense(X, np.array([1.0, 1.0, 0.0]), np.zeros(3), out)
    assert out[0] == float(X[0, 0]) ** 2
    _kernels.margins_dense(X, np.array([1e20, 0.0, 0.0]), out)
    assert out[0] == 1e20 * float(X[0, 0])
