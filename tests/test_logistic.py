"""Logistic regression by STRSAGA and SGD: step by step as the paper has it, all or nothing, to the last bit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import reference
from driftsurf import _kernels
from driftsurf.base import CSR, FloatArray, Rows, Segment
from driftsurf.errors import CapabilityError, DivergenceError, OptionError, ShapeError, StateError
from driftsurf.learners import LogisticRegression
from driftsurf.samples import Samples
from driftsurf.sizes import usual_sizes
from driftsurf.state import from_bytes, to_bytes

Optimizer = Literal["strsaga", "saga", "sgd", "one-pass"]
Move = tuple[str, int, int]

optimizers = pytest.mark.parametrize("optimizer", ["strsaga", "saga", "sgd", "one-pass"])
keeping_rows = pytest.mark.parametrize("optimizer", ["strsaga", "saga", "sgd"])
layouts = pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])


def check(test: Callable[..., None]) -> Callable[..., None]:
    return settings(deadline=None, max_examples=60)(test)


def as_rows(X: npt.NDArray[Any], sparse: bool) -> Rows:
    if not sparse:
        return X
    row, column = np.nonzero(X)
    indptr = np.searchsorted(row, np.arange(len(X) + 1)).astype(np.int64)
    return CSR(X[row, column], column.astype(np.int32), indptr, X.shape[1])


@dataclass(frozen=True)
class Data:
    """A stream that is all there: half of its values are zero, its labels are noisy."""

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
        """As the twins take them."""
        return np.column_stack([self.X, np.full(len(self.X), bias)]), self.y, self.weight

    def append(self, samples: Samples, count: int) -> Segment:
        """The next ``count`` rows enter the store."""
        part = slice(samples.next_row, samples.next_row + count)
        return samples.append(as_rows(self.X[part], samples.sparse), self.y[part], self.weight[part])

    def samples(self, sparse: bool = False, count: int | None = None) -> tuple[Samples, Segment]:
        """A store with the first ``count`` rows."""
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
    """A model and its twin, both untrained."""
    options = template(optimizer=optimizer, fit_intercept=fit_intercept, start=start)
    model = options.fresh(seed, data.X.shape[1], 2)
    words = data.X.shape[1] + fit_intercept if start == "uniform" else 0
    w = np.zeros(data.X.shape[1] + 1)
    w[:words] = [reference.uniform(seed, k) for k in range(words)]
    return model, reference.LogisticTwin(data.rows(float(fit_intercept)), optimizer, w, 0.1, 0.01, seed, words)


# ---------------------------------------------------------------------------- step by step

moves = st.lists(
    st.tuples(st.just("update"), st.integers(0, 8), st.integers(0, 20))
    | st.tuples(st.just("forget"), st.integers(0, 12), st.just(0)),
    max_size=8,
)


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
def test_it_does_what_its_twin_does_whatever_arrives_and_whatever_the_budget(
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
def test_a_model_may_begin_in_the_middle_of_the_stream(sparse: bool) -> None:
    data = Data.make(60)
    samples, _ = data.samples(sparse, 40)
    model, twin = pair(data, "strsaga")
    for _ in range(2):
        new = data.append(samples, 10)
        model.update(samples, new, 15)
        twin.update(range(new.lo, new.hi), 15)
        same_as_twin(model, twin)
    assert model.needs() == 40


def test_rows_missed_in_between_are_its_own_too() -> None:
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


def test_a_template_for_one_pass_differs_in_nothing_else() -> None:
    parent = LogisticRegression(l2=0.5, start="uniform", step_size=0.25)
    assert parent.one_pass().get_params() == parent.get_params() | {"optimizer": "one-pass"}
    assert parent.optimizer == "strsaga"


@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=8))
@check
def test_two_steps_a_row_admit_every_row(sizes: list[int]) -> None:
    data, samples = Data.make(100), Samples(3)
    model = template(steps_per_row=2.0).fresh(0, 3, 2)
    for size in sizes:
        new = data.append(samples, size)
        assert model.budget(new) == 2 * size
        model.update(samples, new, model.budget(new))
        assert (model.rows_admitted, model.rows_waiting) == (new.hi, 0)


def test_with_a_fixed_budget_rows_wait_and_are_admitted_when_there_is_time() -> None:
    arrivals = [*np.random.default_rng(1).poisson(10, 40).tolist(), *[1] * 40]
    data, samples = Data.make(sum(arrivals)), Samples(3)
    model = template(steps_per_batch=16).fresh(0, 3, 2)  # admits 8 rows a batch, where 10 arrive, then 1
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


def test_the_parity_begins_anew_with_each_batch() -> None:
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
def test_without_rows_there_is_nothing_to_spend(optimizer: Optimizer) -> None:
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
def test_float32_rows_are_learnt_like_the_same_rows_in_float64(optimizer: Optimizer) -> None:
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


def regularised_loss(w: FloatArray, rows: reference.LabelledRows, mu: float) -> float:
    X, y, weight = rows
    margins = X @ w
    losses = np.logaddexp(0.0, np.where(y == 1, -margins, margins))
    return float((weight * losses).mean() + 0.5 * mu * (w @ w))


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


# ---------------------------------------------------------------------------- all or nothing


def trained(optimizer: Optimizer, sparse: bool) -> tuple[LogisticRegression, Samples, Data]:
    """In the middle: 30 rows, of which some wait, and 40 more to come."""
    data = Data.make(70)
    samples, new = data.samples(sparse, 30)
    model = template(optimizer=optimizer, step_size="auto").fresh(3, 3, 2)
    model.update(samples, new, 35)
    return model, samples, data


@optimizers
@layouts
@given(arrivals=st.integers(0, 40), steps=st.integers(0, 200))
@check
def test_undo_of_an_update_restores_every_byte(optimizer: Optimizer, sparse: bool, arrivals: int, steps: int) -> None:
    model, samples, data = trained(optimizer, sparse)
    before = snapshot(model)
    undo = model.update(samples, data.append(samples, arrivals), steps)
    undo()
    assert snapshot(model) == before


@optimizers
@layouts
@given(before_row=st.integers(0, 100))
@check
def test_undo_of_forget_restores_every_byte(optimizer: Optimizer, sparse: bool, before_row: int) -> None:
    model, samples, _ = trained(optimizer, sparse)
    before = snapshot(model)
    model.forget(samples, before_row)()
    assert snapshot(model) == before


@optimizers
@layouts
def test_an_update_and_a_forget_are_undone_in_turn_and_done_again_alike(optimizer: Optimizer, sparse: bool) -> None:
    model, samples, data = trained(optimizer, sparse)
    before = snapshot(model)
    new = data.append(samples, 40)
    snapshots = []
    for _ in range(2):
        undo = [model.update(samples, new, 90), model.forget(samples, 25)]
        snapshots.append(snapshot(model))
        for take_back in reversed(undo):
            take_back()
        assert snapshot(model) == before
    assert snapshots[0] == snapshots[1] != before


def test_undo_of_the_first_update_gives_a_model_without_rows() -> None:
    data = Data.make(10)
    samples, new = data.samples()
    model = template().fresh(0, 3, 2)
    before = snapshot(model)
    model.update(samples, new, 20)()
    assert snapshot(model) == before
    assert model.needs() is None


@optimizers
@layouts
@pytest.mark.parametrize("value", [math.nan, math.inf, 1e200])
def test_divergence_leaves_every_byte_as_it_was(
    optimizer: Optimizer, sparse: bool, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, samples, data = trained(optimizer, sparse)
    before = snapshot(model)
    new = data.append(samples, 40)
    name = ("saga" if "saga" in optimizer else "sgd") + ("_csr" if sparse else "_dense")
    kernel = getattr(_kernels, name)

    def diverging(rows: Any, order: Any, target: Any, *arguments: Any) -> Any:
        result = kernel(rows, order, target, *arguments)
        (target[0] if isinstance(target, tuple) else target)[1] = value
        return result

    with monkeypatch.context() as patch:
        patch.setattr(_kernels, name, diverging)
        with pytest.raises(DivergenceError, match=r"step size .*Lower step_size"):
            model.update(samples, new, 80)
    assert snapshot(model) == before
    model.update(samples, new, 80)


@optimizers
@pytest.mark.parametrize("huge", [1e150, 1e300])
def test_a_row_beyond_all_bounds_is_refused_as_divergence(optimizer: Optimizer, huge: float) -> None:
    model, samples, _ = trained(optimizer, False)
    before = snapshot(model)
    new = samples.append(np.full((5, 3), huge), np.zeros(5))
    with pytest.raises(DivergenceError):
        model.update(samples, new, 80)
    assert snapshot(model) == before


@pytest.mark.parametrize("interrupted", ["schedule", "saga_dense"])
def test_an_interruption_leaves_every_byte_as_it_was(interrupted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, samples, data = trained("strsaga", False)
    before = snapshot(model)
    kernel = getattr(_kernels, interrupted)

    def interrupt(*arguments: Any) -> None:
        kernel(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(_kernels, interrupted, interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.update(samples, data.append(samples, 40), 80)
    assert snapshot(model) == before


@optimizers
@layouts
@pytest.mark.parametrize("steps", [(80, 80), (80, 79), (0, 0)])
def test_two_models_together_end_as_one_after_the_other(
    optimizer: Optimizer, sparse: bool, steps: tuple[int, int]
) -> None:
    template = LogisticRegression(optimizer=optimizer)
    alone, together = ([template.fresh(seed, 3, 2) for seed in (1, 2)] for _ in range(2))
    samples, _ = Data.make(60).samples(sparse)
    new = Segment(0, 60), Segment(20, 60)
    for model, segment, count in zip(alone, new, steps, strict=True):
        model.update(samples, segment, count)
    before = [snapshot(model) for model in together]
    undo = together[0].update_all(together, samples, new, steps)
    assert [snapshot(model) for model in together] == [snapshot(model) for model in alone]
    undo()
    assert [snapshot(model) for model in together] == before


@pytest.mark.parametrize("steps", [(80,) * 5, (80, 80, 79, 78, 78)])
def test_any_number_of_models_together_end_as_one_after_the_other(steps: tuple[int, ...]) -> None:
    template = LogisticRegression()
    alone, together = ([template.fresh(seed, 3, 2) for seed in range(5)] for _ in range(2))
    samples, _ = Data.make(60).samples(False)
    new = [Segment(10 * k, 60) for k in range(5)]
    for model, segment, count in zip(alone, new, steps, strict=True):
        model.update(samples, segment, count)
    template.update_all(together, samples, new, steps)
    assert [snapshot(model) for model in together] == [snapshot(model) for model in alone]


@pytest.mark.parametrize("interrupted", ["schedule", "saga_both_dense", "largest_of_two"])
def test_two_models_together_learn_both_or_neither(interrupted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    models = [LogisticRegression().fresh(seed, 3, 2) for seed in (1, 2)]
    samples, new = Data.make(60).samples(False)
    models[0].update_all(models, samples, (new, new), (80, 80))
    before = [snapshot(model) for model in models]
    kernel, calls = getattr(_kernels, interrupted), [0]

    def interrupt(*arguments: Any) -> Any:
        calls[0] += 1
        if calls[0] == {"schedule": 2, "saga_both_dense": 1, "largest_of_two": 2}[interrupted]:
            raise KeyboardInterrupt
        return kernel(*arguments)

    monkeypatch.setattr(_kernels, interrupted, interrupt)
    with pytest.raises(KeyboardInterrupt):
        models[0].update_all(models, samples, (new, new), (80, 80))
    assert [snapshot(model) for model in models] == before


# ---------------------------------------------------------------------------- forgetting


@layouts
def test_forgotten_rows_leave_first_in_first_out_and_their_gradients_with_them(sparse: bool) -> None:
    data = Data.make(30)
    samples, new = data.samples(sparse)
    model, twin = pair(data, "strsaga")
    model.update(samples, new, 40)  # admits 20 rows
    twin.update(range(30), 40)
    for before_row, admitted, waiting in [(0, 20, 10), (8, 12, 10), (5, 12, 10), (25, 0, 5), (30, 0, 0)]:
        model.forget(samples, before_row)
        twin.forget(before_row)
        same_as_twin(model, twin)
        assert (model.rows_admitted, model.rows_waiting) == (admitted, waiting)
    assert model.needs() == 30


@keeping_rows
def test_a_model_goes_on_after_it_has_forgotten_everything(optimizer: Optimizer) -> None:
    data = Data.make(40)
    samples, new = data.samples(count=30)
    model, twin = pair(data, optimizer)
    model.update(samples, new, 60)
    twin.update(range(30), 60)
    model.forget(samples, 30)
    twin.forget(30)
    model.update(samples, Segment(30, 30), 5)
    assert model.gradients == 60, "there is no row to draw"
    model.update(samples, data.append(samples, 10), 20)
    twin.update(range(30, 40), 20)
    same_as_twin(model, twin)


@keeping_rows
def test_a_window_bounds_what_a_model_holds(optimizer: Optimizer) -> None:
    data, samples = Data.make(5000), Samples(3)
    model = template(optimizer=optimizer).fresh(0, 3, 2)
    for _ in range(500):
        model.update(samples, data.append(samples, 10), 20)
        model.forget(samples, samples.next_row - 50)
        samples.release(model.needs() or 0)
    assert model.rows_admitted == len(samples) == 50
    assert model.nbytes <= 4 * 4 * 8 + 4 * 60 * 8


def test_forgetting_before_the_first_update_does_nothing() -> None:
    model = template().fresh(0, 3, 2)
    before = snapshot(model)
    model.forget(Samples(3), 10)()
    assert snapshot(model) == before


# ---------------------------------------------------------------------------- anchors

ANCHOR = np.array([0.5, -2.0, 1.0, 0.25])


def at(point: FloatArray, data: Data, scale: bool = False) -> LogisticRegression:
    """A model whose weights for the columns as they are come close to a point: it saw rows labelled by that point."""
    samples = Samples(3)
    new = samples.append(data.X, (data.rows(1.0)[0] @ point > 0).astype(float))
    model = template(l2=1e-3, scale=scale).fresh(1, 3, 2)
    model.update(samples, new, 3000)
    return model


@optimizers
@layouts
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_an_anchored_model_does_what_its_twin_does(optimizer: Optimizer, sparse: bool, fit_intercept: bool) -> None:
    data = Data.make(80)
    others = [at(ANCHOR, data), at(-ANCHOR, data, scale=True)]
    model, twin = pair(data, optimizer, fit_intercept=fit_intercept, start="uniform")
    if not fit_intercept:
        others = [pair(data, optimizer, fit_intercept=False, start="uniform", seed=seed)[0] for seed in (1, 2)]
    before, fresh = snapshot(model), weights(model)
    held, shares = model.anchored(others, np.array([0.7, 0.3])), [0.7, 0.3]
    assert snapshot(model) == before, "the fresh model is as it was"
    twin.anchor = sum((share * weights(other) for share, other in zip(shares, others, strict=True)), np.zeros(4))
    close(weights(held), fresh)
    samples = Samples(3, sparse=sparse)
    for size in (10, 30, 0, 25):
        new = data.append(samples, size)
        steps = size if optimizer == "one-pass" else 45
        held.update(samples, new, steps)
        twin.update(range(new.lo, new.hi), steps)
        same_as_twin(held, twin)
    assert held.penalty() == pytest.approx(0.005 * float(np.square(twin.w - twin.anchor).sum()), rel=1e-6)
    held.forget(samples, 20)
    twin.forget(20)
    same_as_twin(held, twin)
    again = LogisticRegression.from_state(model, from_bytes(snapshot(held)))
    assert snapshot(again) == snapshot(held)
    assert np.array_equal(weights(again), weights(held))


@layouts
@pytest.mark.parametrize("scale", [True, False])
def test_an_anchored_model_reaches_the_optimum_of_its_own_penalty(sparse: bool, scale: bool) -> None:
    data = Data.make(300, noise=3.0)
    others = [at(ANCHOR, data)]
    samples, new = data.samples(sparse)
    fresh = LogisticRegression(l2=0.1, scale=scale).fresh(0, 3, 2)
    model = fresh.anchored(others, np.ones(1))
    model.update(samples, new, 200_000)
    factor = np.append(1 / usual_sizes(data.X, data.weight) if scale else np.ones(3), 1.0)
    anchor = weights(others[0])

    def objective(w: FloatArray) -> float:
        difference = (w - anchor) / factor
        return regularised_loss(w, data.rows(1.0), 0.0) + 0.05 * float(difference @ difference)

    optimum = minimize(objective, anchor, method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose(weights(model), optimum.x, atol=1e-4)


def test_an_anchor_of_another_length_is_refused_in_a_state() -> None:
    data = Data.make(20)
    model = template().fresh(0, 3, 2).anchored([at(ANCHOR, data)], np.ones(1))
    state = from_bytes(snapshot(model))
    for anchor in (np.zeros(3), np.zeros((4, 1)), np.zeros(4, np.float32), 0.0):
        with pytest.raises(StateError, match="do not fit together"):
            LogisticRegression.from_state(template(), state | {"anchor": anchor})


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


# ---------------------------------------------------------------------------- the automatic step size


def step_size(model: LogisticRegression) -> float:
    value = model.state()["step_size"]
    assert isinstance(value, float)
    return value


def auto(
    X: FloatArray,
    y: FloatArray,
    weight: FloatArray | None = None,
    steps: int | None = None,
    scale: bool | Literal["auto"] = "auto",
) -> LogisticRegression:
    samples = Samples(X.shape[1])
    new = samples.append(X, y, weight)
    model = LogisticRegression(scale=scale).fresh(0, X.shape[1], 2)
    model.update(samples, new, 2 * len(X) if steps is None else steps)
    return model


def test_the_automatic_step_is_a_tenth_of_one_over_the_curvature_of_usual_rows() -> None:
    X = np.where(np.arange(100) % 2, 3.0, -3.0).reshape(-1, 1)
    for scale, curvature in ((False, 10.0 / 4), (True, 2.0 / 4)):
        once, twice = auto(X, np.ones(100), scale=scale), auto(X, np.ones(100), np.full(100, 2.0), scale=scale)
        assert step_size(once) == pytest.approx(0.1 / (curvature + 1e-4))
        assert step_size(twice) == pytest.approx(0.1 / (2 * curvature + 1e-4))


@pytest.mark.parametrize("huge", [1e6, 1e80])
def test_one_huge_row_does_not_freeze_the_automatic_step(huge: float) -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 2))
    y = (X[:, 0] > 0).astype(float)
    usual = step_size(auto(X, y))
    X[50] = huge
    assert step_size(auto(X, y)) == pytest.approx(usual, rel=0.05)


@pytest.mark.parametrize("huge", [1e6, 1e154, 1e300])
def test_a_huge_row_without_weight_does_no_harm(huge: float) -> None:
    random = np.random.default_rng(0)
    X, weight = random.normal(size=(400, 2)), np.ones(400)
    y = (X[:, 0] > 0).astype(float)
    weight[50] = 0.0
    without = auto(X, y, weight, 4000)
    X[50] = huge
    model = auto(X, y, weight, 4000)
    assert step_size(model) == step_size(without)
    close(weights(model), weights(without))
    assert np.mean((model.scores(X[weight > 0]) > 0) == y[weight > 0]) > 0.98


@pytest.mark.parametrize(
    ("X", "weight"),
    [
        pytest.param(np.ones((3, 1)), np.zeros(3), id="no weight at all"),
        pytest.param(np.full((3, 1), 1e300), np.zeros(3), id="nothing but huge rows without weight"),
    ],
)
def test_without_a_usual_row_the_automatic_step_is_that_of_unit_rows(X: FloatArray, weight: FloatArray) -> None:
    assert step_size(auto(X, np.ones(3), weight)) == pytest.approx(0.1 / (0.25 + 1e-4))


@pytest.mark.parametrize("scale", [1.0, 30.0, 1e3, 1e6])
def test_the_automatic_step_learns_large_values_as_well(scale: float) -> None:
    X = scale * np.random.default_rng(0).normal(size=(1000, 3))
    y = (X[:, 0] - X[:, 1] > 0).astype(float)
    model = auto(X, y, steps=20_000)
    assert np.mean((model.scores(X) > 0) == y) > 0.95


@pytest.mark.parametrize("target", [0, 1, 2])
def test_columns_of_any_unit_are_learnt_without_preparation(target: int) -> None:
    X = np.random.default_rng(0).normal(size=(2000, 3)) * [1.0, 1000.0, 1e-6]
    y = (X[:, target] > 0).astype(float)
    assert np.mean((auto(X, y).scores(X) > 0) == y) > 0.95
    for other in {0, 1, 2} - {target}:
        y = ((X / [1.0, 1000.0, 1e-6])[:, [target, other]].sum(axis=1) > 0).astype(float)
        assert np.mean((auto(X, y).scores(X) > 0) == y) > 0.95


def test_the_step_size_is_renewed_each_time_the_rows_have_doubled() -> None:
    samples = Samples(1)
    model = LogisticRegression(scale=False).fresh(0, 1, 2)
    assert math.isnan(step_size(model))
    sizes = []
    for value in (1e6, 1.0, 2.0, 2.0, 3.0, 3.0, 3.0, 3.0):
        new = samples.append(np.array([[value]]), np.ones(1))
        model.update(samples, new, 2)
        sizes.append(step_size(model))
        model.forget(samples, new.lo)
    renewed = [i + 1 for i in range(8) if i == 0 or sizes[i] != sizes[i - 1]]
    assert renewed == [1, 2, 4, 8]
    assert sizes[0] < 1e-12
    assert sizes[1] == pytest.approx(0.1 / (0.5 + 1e-4))


@layouts
def test_a_change_of_frame_keeps_the_model_and_its_gradients(sparse: bool) -> None:
    """Nothing but the coordinates changes: same scores, same table, the sum as if added up anew."""
    data = Data.make(800)
    data.X[:, 2] += 50.0
    data.weight[:] = 1.0
    samples, new = data.samples(sparse, 400)
    model = LogisticRegression(scale=True, step_size=0.05).fresh(0, 3, 2)
    model.update(samples, new, 800)
    before, scores = model.state(), model.scores(data.X)
    data.X[400:] = data.X[400:] * [7.0, 0.1, 1.0] + [0.0, 0.0, 5.0]
    model.update(samples, data.append(samples, 400), 0)  # no step: only the frame is renewed
    after = model.state()
    assert not np.allclose(before["factor"], after["factor"])
    assert not np.allclose(before["centre"], after["centre"])
    assert np.asarray(after["centre"])[:2].tolist() == [0.0, 0.0]
    close(model.scores(data.X[:400]), scores[:400])
    table = {i: float(alpha) for i, alpha in enumerate(np.asarray(after["table"])) if not math.isnan(alpha)}
    total = reference.gradient_sum(data.rows(1.0)[0] - np.asarray(after["centre"]), table)
    close(np.asarray(after["gradient_sum"]), np.square(np.asarray(after["factor"])) * total)


@layouts
@pytest.mark.parametrize("optimizer", ["strsaga", "sgd"])
def test_columns_far_from_zero_are_learnt(sparse: bool, optimizer: Optimizer) -> None:
    """Pressure, temperature, year: the model comes to be the one of the centred columns."""
    random = np.random.default_rng(0)
    Z = random.normal(size=(2000, 3))
    y = (Z @ [1.0, 1.0, -1.0] + 0.4 * random.normal(size=2000) > 0).astype(float)
    X = 8.0 * Z + [1013.0, 290.0, 400.0]
    accuracy = []
    for rows in (X, Z):
        samples = Samples(3, sparse=sparse)
        new = samples.append(as_rows(rows, sparse), y)
        model = LogisticRegression(optimizer=optimizer).fresh(0, 3, 2)
        model.update(samples, new, 40_000)
        accuracy.append(np.mean((model.scores(rows) > 0) == y))
        forgetful = model.forget(samples, 500)
        forgetful()
    assert accuracy[0] == pytest.approx(accuracy[1], abs=0.02)


def test_without_an_intercept_nothing_is_centred() -> None:
    X = np.random.default_rng(0).normal(size=(100, 2)) + 100.0
    samples = Samples(2)
    new = samples.append(X, np.ones(100))
    model = LogisticRegression(fit_intercept=False).fresh(0, 2, 2)
    model.update(samples, new, 200)
    assert not np.any(model.state()["centre"])
    assert model.intercept == 0.0


def test_usual_sizes_are_robust_and_blind_to_zeros() -> None:
    X = np.zeros((1000, 4))
    X[:, 0] = np.random.default_rng(0).normal(size=1000)
    X[::100, 1] = 5.0
    X[:, 2] = 1.0
    X[3, 2] = 1e140
    sizes = usual_sizes(X, np.ones(1000))
    assert sizes == pytest.approx([0.8, 5.0, 1.0, 0.0], rel=0.05)
    close(usual_sizes(as_rows(X, True), np.ones(1000)), sizes)


# ---------------------------------------------------------------------------- parameters


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("optimizer", "adam", "'strsaga', 'saga', 'sgd'"),
        ("optimizer", None, "'strsaga', 'saga', 'sgd'"),
        ("start", "random", "'zeros', 'uniform'"),
        ("start", 0, "'zeros', 'uniform'"),
        ("fit_intercept", "no", "True, False"),
        ("fit_intercept", 2, "True, False"),
        ("l2", -1e-9, "at least 0"),
        ("l2", math.nan, "at least 0"),
        ("l2", math.inf, "at least 0"),
        ("l2", "small", "at least 0"),
        ("l2", None, "at least 0"),
        ("l2", True, "at least 0"),
        ("l2", 1j, "at least 0"),
        ("l2", np.complex128(1), "at least 0"),
        ("steps_per_row", 0, "above 0"),
        ("steps_per_row", -2.0, "above 0"),
        ("steps_per_row", math.inf, "above 0"),
        ("steps_per_row", None, "above 0"),
        ("steps_per_batch", 0, "at least 1"),
        ("steps_per_batch", -5, "at least 1"),
        ("steps_per_batch", 1.5, "whole number"),
        ("steps_per_batch", "many", "at least 1"),
        ("steps_per_batch", True, "at least 1"),
        ("step_size", 0.0, "above 0, or 'auto'"),
        ("step_size", -0.1, "above 0, or 'auto'"),
        ("step_size", math.nan, "above 0, or 'auto'"),
        ("step_size", "fast", "above 0, or 'auto'"),
        ("step_size", None, "above 0, or 'auto'"),
    ],
)
def test_a_bad_parameter_is_an_error_that_gives_the_value_and_the_choices(name: str, value: Any, words: str) -> None:
    with pytest.raises(OptionError) as caught:
        LogisticRegression(**{name: value}).fresh(0, 3, 2)
    message = str(caught.value)
    assert message.startswith(f"{name} is {value!r}; ")
    assert words in message


@pytest.mark.parametrize(("step", "l2"), [(1.0, 1.0), (10.0, 0.2), (1e300, 1e10)])
def test_a_step_that_shrinks_beyond_zero_is_refused(step: float, l2: float) -> None:
    with pytest.raises(OptionError, match=r"step_size \* l2 is .*; it must be below 1"):
        LogisticRegression(step_size=step, l2=l2).fresh(0, 3, 2)


def test_more_than_two_classes_are_refused_by_name() -> None:
    with pytest.raises(CapabilityError, match="not 3"):
        template().fresh(0, 3, 3)


@pytest.mark.parametrize(
    "options",
    [
        {"l2": np.float32(0.01)},
        {"l2": 0, "step_size": "auto"},
        {"step_size": np.float32(0.1)},
        {"step_size": 1},
        {"steps_per_row": np.int64(2)},
        {"steps_per_batch": np.int64(20)},
        {"fit_intercept": np.bool_(False), "start": "uniform"},
    ],
)
def test_numbers_of_any_type_are_taken_and_the_state_can_be_saved(options: dict[str, Any]) -> None:
    data = Data.make(10)
    samples, new = data.samples()
    model = LogisticRegression(**options).fresh(0, 3, 2)
    assert model.budget(new) == 20
    model.update(samples, new, model.budget(new))
    assert snapshot(LogisticRegression.from_state(model, from_bytes(snapshot(model)))) == snapshot(model)


def test_params_can_be_read_and_set() -> None:
    model = LogisticRegression(l2=0.5)
    params = model.get_params()
    assert params["l2"] == 0.5
    assert LogisticRegression(**params).get_params() == params
    assert model.set_params(l2=0.25, optimizer="sgd") is model
    assert (model.l2, model.optimizer) == (0.25, "sgd")
    assert "l2=0.25" in repr(model)
    with pytest.raises(OptionError, match="no parameter 'alpha'; choices: optimizer, step_size, scale, l2"):
        model.set_params(alpha=1.0)


# ---------------------------------------------------------------------------- reading


@layouts
def test_scores_losses_and_penalty_are_what_they_say(sparse: bool) -> None:
    data = Data.make(25)
    samples, new = data.samples(sparse)
    model = template().fresh(0, 3, 2)
    model.update(samples, new, 50)
    batch = samples.view(Segment(5, 20))
    margins = data.rows(1.0)[0][5:20] @ weights(model)
    close(model.scores(batch.X), margins)
    expected = [reference.logistic_loss(margin, y) for margin, y in zip(margins, batch.y, strict=True)]
    close(model.losses(batch), np.array(expected))
    assert model.penalty() == pytest.approx(0.005 * float(weights(model) @ weights(model)), rel=1e-12)


def test_reading_changes_nothing() -> None:
    model, samples, _ = trained("strsaga", False)
    before = snapshot(model)
    batch = samples.view(Segment(0, 30))
    model.scores(batch.X)
    model.losses(batch)
    model.penalty()
    model.coef[:] = 9.0
    assert snapshot(model) == before


def test_the_penalty_does_not_depend_on_the_threads_of_blas() -> None:
    model = template(start="uniform").fresh(0, 50_000, 2)
    w = weights(model)
    assert model.penalty() == 0.5 * 0.01 * float(np.cumsum(np.square(w))[-1])


@layouts
def test_rows_of_another_width_are_an_error_and_not_a_read_beyond_the_weights(sparse: bool) -> None:
    model = template().fresh(0, 3, 2)
    before = snapshot(model)
    for width in (2, 4, 10_000):
        X = as_rows(np.ones((2, width)), sparse)
        with pytest.raises(ShapeError, match=f"{width} features, but .* for 3"):
            model.scores(X)
        samples = Samples(width, sparse=sparse)
        with pytest.raises(ShapeError, match=f"{width} features, but .* for 3"):
            model.update(samples, samples.append(X, np.ones(2)), 4)
    assert snapshot(model) == before


def test_bytes_are_those_of_the_weights_and_the_table() -> None:
    samples, new = Data.make(1000).samples()
    model = template().fresh(0, 3, 2)
    assert model.nbytes == 4 * 4 * 8
    model.update(samples, new, 2000)
    assert 1000 * 8 <= model.nbytes - 4 * 4 * 8 <= 4 * 1000 * 8
    stateless = template(optimizer="sgd").fresh(0, 3, 2)
    stateless.update(samples, new, 2000)
    assert stateless.nbytes == 4 * 4 * 8


# ---------------------------------------------------------------------------- state


@optimizers
@layouts
@given(moves=moves)
@check
def test_a_restored_model_goes_on_bit_for_bit(optimizer: Optimizer, sparse: bool, moves: list[Move]) -> None:
    model, samples, data = trained(optimizer, sparse)
    assert "saga" not in optimizer or model.rows_waiting > 0
    again = LogisticRegression.from_state(template(optimizer=optimizer, step_size="auto"), from_bytes(snapshot(model)))
    for name, amount, steps in moves:
        if name == "update":
            new = data.append(samples, min(amount, 70 - samples.next_row))
            model.update(samples, new, steps)
            again.update(samples, new, steps)
        else:
            before_row = min((model.needs() or 0) + amount, samples.next_row)
            model.forget(samples, before_row)
            again.forget(samples, before_row)
        assert snapshot(model) == snapshot(again)


def test_a_state_that_was_taken_stays_as_it_was() -> None:
    model, samples, data = trained("strsaga", False)
    state = model.state()
    before = to_bytes(state)
    model.update(samples, data.append(samples, 40), 80)
    assert to_bytes(state) == before


def test_two_ways_to_one_model_give_the_same_bytes() -> None:
    data = Data.make(50)
    samples, new = data.samples()
    model, detour = template().fresh(0, 3, 2), template().fresh(0, 3, 2)
    model.update(samples, new, 30)
    detour.update(samples, new, 999)()
    detour.update(samples, new, 30)
    detour.forget(samples, 10)()
    assert snapshot(model) == snapshot(detour)


@pytest.mark.parametrize(
    "change",
    [
        {"weights": np.zeros(3)},
        {"weights": np.zeros((4, 1))},
        {"weights": np.zeros(4, np.float32)},
        {"weights": 1.0},
        {"weights": np.zeros(0), "gradient_sum": np.zeros(0)},
        {"gradient_sum": np.zeros(5)},
        {"table": np.zeros(3)},
        {"table": np.zeros(0)},
        {"table": "none"},
        {"drawn": 2},
        {"drawn": -1},
        {"drawn": 18.0},
        {"lo": -5},
        {"lo": 1},
        {"admitted": 31},
        {"hi": 3},
        {"hi": 2**70},
        {"seed": -1},
        {"seed": 2**64},
        {"words": -1},
        {"words": "0"},
        {"step_size": 1},
        {"gradients": True},
    ],
    ids=lambda change: ", ".join(f"{name}={value}" for name, value in change.items()),
)
def test_a_made_up_state_is_refused(change: dict[str, Any]) -> None:
    model, _, _ = trained("strsaga", False)
    state = from_bytes(snapshot(model))
    assert LogisticRegression.from_state(template(), state)
    with pytest.raises(StateError, match="do not fit together"):
        LogisticRegression.from_state(template(), state | change)


def test_a_state_of_something_else_is_refused_by_name() -> None:
    model, _, _ = trained("strsaga", False)
    state = model.state()
    del state["gradient_sum"]
    with pytest.raises(StateError, match="no entry 'gradient_sum'"):
        LogisticRegression.from_state(template(), state)
    with pytest.raises(StateError, match="do not fit together"):
        LogisticRegression.from_state(template(optimizer="sgd"), model.state())
