"""Logistic regression by STRSAGA, SAGA and SGD: equal to its reference step by step, and at the optimum."""

from __future__ import annotations

import math

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from logistic_cases import (
    Data,
    Move,
    Optimizer,
    check,
    close,
    keeping_rows,
    layouts,
    moves,
    optimizers,
    pair,
    regularised_loss,
    same_as_twin,
    snapshot,
    template,
    trained,
    weights,
)
from row_arrays import as_rows
from scipy.optimize import minimize

from driftsurf.core.contracts import Segment
from driftsurf.core.samples import Samples
from driftsurf.errors import ShapeError
from driftsurf.learners import LogisticRegression
from driftsurf.learners._linear import usual_sizes

# ---------------------------------------------------------------------------- step by step


@optimizers
@layouts
@given(
    moves=moves,
    first=st.integers(1, 6),
    fit_intercept=st.booleans(),
    start=st.sampled_from(["zeros", "uniform"]),
    seed=st.integers(0, 2**64 - 1),
)
@check
def test_it_equals_its_reference_for_any_batches_and_any_budget(
    optimizer: Optimizer, sparse: bool, moves: list[Move], first: int, fit_intercept: bool, start: str, seed: int
) -> None:
    data = Data.make(80, seed=seed % 11)
    samples = Samples(3, sparse=sparse)
    model, twin = pair(data, optimizer, fit_intercept=fit_intercept, start=start, seed=seed)
    spent = 0
    for name, amount, steps in [("update", first, 5), *moves]:
        if name == "update":
            new = data.append(samples, amount)
            steps = amount if optimizer == "one-pass" else steps if twin.known or amount else 0
            model.update(samples, new, steps)
            twin.update(range(new.lo, new.hi), steps)
            spent += steps
        else:
            before_row = min((model.needs() or 0) + amount, samples.next_row)
            model.forget(samples, before_row)
            twin.forget(before_row)
            samples.release(min(before_row, samples.next_row))
        same_as_twin(model, twin)
        assert model.gradients == spent
        assert model.needs() == (twin.known[0] if twin.known else samples.next_row)


@layouts
def test_a_model_can_start_in_the_middle_of_the_stream(sparse: bool) -> None:
    data = Data.make(60)
    samples, _ = data.samples(sparse, 40)
    model, twin = pair(data, "strsaga")
    for _ in range(2):
        new = data.append(samples, 10)
        model.update(samples, new, 15)
        twin.update(range(new.lo, new.hi), 15)
        same_as_twin(model, twin)
    assert model.needs() == 40


def test_rows_missed_in_between_belong_to_the_training_set() -> None:
    data = Data.make(30)
    samples, first = data.samples(count=10)
    model, twin = pair(data, "strsaga")
    model.update(samples, first, 20)
    data.append(samples, 10)
    model.update(samples, data.append(samples, 10), 20)
    twin.update(range(10), 20)
    twin.update(range(10, 30), 20)
    same_as_twin(model, twin)
    assert model.rows_waiting == 10


@layouts
def test_one_pass_takes_one_step_at_each_row_and_keeps_none(sparse: bool) -> None:
    data, samples = Data.make(60), Samples(3, sparse=sparse)
    model = template(steps_per_row=7.0, step_size=0.2).one_pass().fresh(0, 3, 2)
    w = np.zeros(4)
    for size in (1, 20, 0, 39):
        new = data.append(samples, size)
        assert model.budget(new) == size
        model.update(samples, new, 1000)
        w = reference.sgd(data.rows(1.0), range(new.lo, new.hi), w, 0.2, 0.01)
        close(weights(model), w)
        assert (model.needs(), model.rows_admitted, model.rows_waiting) == (new.hi, 0, 0)
        samples.release(new.hi)
    assert model.gradients == 60


def test_one_pass_changes_only_the_optimizer() -> None:
    parent = LogisticRegression(l2=0.5, start="uniform", step_size=0.25)
    assert parent.one_pass().get_params() == parent.get_params() | {"optimizer": "one-pass"}
    assert parent.optimizer == "strsaga"


@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=8))
@check
def test_two_steps_per_row_admit_every_row(sizes: list[int]) -> None:
    data, samples = Data.make(100), Samples(3)
    model = template(steps_per_row=2.0).fresh(0, 3, 2)
    for size in sizes:
        new = data.append(samples, size)
        assert model.budget(new) == 2 * size
        model.update(samples, new, model.budget(new))
        assert (model.rows_admitted, model.rows_waiting) == (new.hi, 0)


def test_with_a_fixed_budget_rows_wait_and_are_admitted_later() -> None:
    arrivals = [*np.random.default_rng(1).poisson(10, 40).tolist(), *[1] * 40]
    data, samples = Data.make(sum(arrivals)), Samples(3)
    model = template(steps_per_batch=16).fresh(0, 3, 2)  # admits 8 rows per batch, while 10 arrive, then 1
    admitted, waiting = 0, []
    for size in arrivals:
        new = data.append(samples, size)
        assert model.budget(new) == 16
        model.update(samples, new, 16)
        assert model.rows_admitted - admitted == min(8, new.hi - admitted)
        admitted = model.rows_admitted
        waiting.append(model.rows_waiting)
    assert waiting[39] > 40
    assert waiting[-1] == 0
    assert model.gradients == 16 * len(arrivals)


@given(steps_per_row=st.floats(0.01, 10.0), sizes=st.lists(st.integers(1, 5), min_size=1, max_size=50))
@check
def test_fractions_of_a_step_add_up_to_the_exact_total(steps_per_row: float, sizes: list[int]) -> None:
    model, row, spent = template(steps_per_row=steps_per_row), 0, 0
    for size in sizes:
        budget = model.budget(Segment(row, row + size))
        assert abs(budget - steps_per_row * size) < 1 + 1e-9
        row, spent = row + size, spent + budget
        assert spent == math.floor(steps_per_row * row)


def test_one_row_batches_with_a_fractional_budget_spend_the_exact_total() -> None:
    data, samples = Data.make(40), Samples(3)
    model = template(steps_per_row=0.3).fresh(0, 3, 2)
    for _ in range(40):
        new = data.append(samples, 1)
        model.update(samples, new, model.budget(new))
    assert model.gradients == 12
    assert (model.rows_admitted, model.rows_waiting) == (12, 28), "each step is the first of its batch"


def test_alternation_starts_over_with_each_batch() -> None:
    data = Data.make(30)
    samples, first = data.samples(count=10)
    model = template().fresh(0, 3, 2)
    admitted = []
    model.update(samples, first, 3)
    for _ in range(3):
        admitted.append(model.rows_admitted)
        model.update(samples, data.append(samples, 1), 3)
    assert admitted == [2, 4, 6], "three steps admit at the first and the third, every time"


@optimizers
def test_without_rows_no_budget_is_spent(optimizer: Optimizer) -> None:
    model = template(optimizer=optimizer).fresh(0, 3, 2)
    model.update(Samples(3), Segment(0, 0), 10)
    assert model.gradients == 0
    assert not weights(model).any()


@optimizers
@layouts
def test_a_row_of_weight_two_has_twice_the_gradient(optimizer: Optimizer, sparse: bool) -> None:
    X, y = np.array([[1.0, 0.0, -2.0]]), np.ones(1)
    moved = []
    for weight in (1.0, 2.0, 0.0):
        samples = Samples(3, sparse=sparse)
        new = samples.append(as_rows(X, sparse), y, np.array([weight]))
        model = template(optimizer=optimizer, l2=0.0).fresh(0, 3, 2)
        model.update(samples, new, 1)
        moved.append(weights(model))
    close(moved[1], 2.0 * moved[0])
    assert np.abs(moved[0]).max() > 0.01
    assert not moved[2].any()


@optimizers
def test_float32_rows_are_learned_like_the_same_rows_in_float64(optimizer: Optimizer) -> None:
    X = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
    models = []
    for dtype in (np.float32, np.float64):
        samples = Samples(3, dtype=dtype)
        new = samples.append(X.astype(dtype), (X[:, 0] > 0).astype(float))
        model = template(optimizer=optimizer).fresh(0, 3, 2)
        model.update(samples, new, 100)
        models.append(weights(model))
    close(*models)


# ---------------------------------------------------------------------------- the optimum


@layouts
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("scale", [True, False])
def test_many_steps_on_static_data_reach_the_optimum(sparse: bool, fit_intercept: bool, scale: bool) -> None:
    data = Data.make(300, 5, noise=3.0)
    samples, new = data.samples(sparse)
    model = LogisticRegression(l2=0.02, fit_intercept=fit_intercept, scale=scale).fresh(0, 5, 2)
    model.update(samples, new, 200_000)
    factor = np.append(1 / usual_sizes(data.X, data.weight) if scale else np.ones(5), 1.0)
    X, y, weight = data.rows(float(fit_intercept))
    rows = X * factor, y, weight
    optimum = minimize(regularised_loss, np.zeros(6), (rows, 0.02), method="BFGS", options={"gtol": 1e-9})
    assert regularised_loss(weights(model) / factor, rows, 0.02) - optimum.fun < 1e-8
    np.testing.assert_allclose(weights(model) / factor, optimum.x, atol=1e-4)


# ---------------------------------------------------------------------------- seeds and starts


@keeping_rows
@layouts
def test_the_seed_decides_every_draw(optimizer: Optimizer, sparse: bool) -> None:
    data = Data.make(50)
    samples, new = data.samples(sparse)
    states = []
    for seed in (5, 5, 6, 2**64 - 1):
        model = template(optimizer=optimizer).fresh(seed, 3, 2)
        model.update(samples, new, 100)
        states.append(weights(model).tobytes())
    assert states[0] == states[1]
    assert len(set(states)) == 3


def test_a_fresh_model_starts_at_zero_or_uniformly_between_0_and_1() -> None:
    assert not weights(template().fresh(0, 50, 2)).any()
    start = weights(template(start="uniform").fresh(0, 500, 2))
    assert ((start > 0.0) & (start < 1.0)).all()
    assert 0.4 < start.mean() < 0.6
    assert start.tolist() == [reference.uniform(0, k) for k in range(501)]
    assert not np.array_equal(start, weights(template(start="uniform").fresh(1, 500, 2)))
    assert template(start="uniform", fit_intercept=False).fresh(0, 5, 2).intercept == 0.0


def test_the_template_is_never_changed() -> None:
    parent = template()
    data = Data.make(10)
    samples, new = data.samples()
    model = parent.fresh(0, 3, 2)
    model.update(samples, new, 20)
    assert not hasattr(parent, "_fitted")
    assert not weights(parent.fresh(0, 3, 2)).any()


# ---------------------------------------------------------------------------- predicting


@layouts
def test_scores_losses_and_penalty_have_their_definition(sparse: bool) -> None:
    data = Data.make(25)
    samples, new = data.samples(sparse)
    model = template().fresh(0, 3, 2)
    model.update(samples, new, 50)
    batch = samples.view(Segment(5, 20))
    margins = data.rows(1.0)[0][5:20] @ weights(model)
    close(model.scores(batch.X), margins)
    expected = [reference.logistic_loss(margin, y) for margin, y in zip(margins, batch.y, strict=True)]
    close(model.row_losses(model.scores(batch.X), batch.y), np.array(expected))
    assert model.penalty() == pytest.approx(0.005 * float(weights(model) @ weights(model)), rel=1e-12)


def test_predicting_and_saving_change_nothing() -> None:
    model, samples, _ = trained("strsaga", False)
    before = snapshot(model)
    batch = samples.view(Segment(0, 30))
    model.scores(batch.X)
    model.row_losses(model.scores(batch.X), batch.y)
    model.penalty()
    model.coef[:] = 9.0
    assert snapshot(model) == before


def test_the_penalty_does_not_depend_on_the_threads_of_blas() -> None:
    model = template(start="uniform").fresh(0, 50_000, 2)
    w = weights(model)
    assert model.penalty() == 0.5 * 0.01 * float(np.cumsum(np.square(w))[-1])


@layouts
def test_rows_of_another_width_are_refused_before_the_core_reads_beyond_the_weights(sparse: bool) -> None:
    model = template().fresh(0, 3, 2)
    before = snapshot(model)
    for width in (2, 4, 10_000):
        X = as_rows(np.ones((2, width)), sparse)
        with pytest.raises(ShapeError, match=f"{width} .* 3"):
            model.scores(X)
        samples = Samples(width, sparse=sparse)
        with pytest.raises(ShapeError, match=f"{width} .* 3"):
            model.update(samples, samples.append(X, np.ones(2)), 4)
    assert snapshot(model) == before


def test_nbytes_covers_weights_and_table() -> None:
    samples, new = Data.make(1000).samples()
    model = template().fresh(0, 3, 2)
    assert model.nbytes == 4 * 4 * 8
    model.update(samples, new, 2000)
    assert 1000 * 8 <= model.nbytes - 4 * 4 * 8 <= 4 * 1000 * 8
    stateless = template(optimizer="sgd").fresh(0, 3, 2)
    stateless.update(samples, new, 2000)
    assert stateless.nbytes == 4 * 4 * 8
