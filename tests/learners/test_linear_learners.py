"""Softmax, linear regression and linear SVM: steps of the reference, known optimum, undo, growth, state."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import reference
import reference_linear as twins
from row_arrays import as_rows
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression as SklearnLogistic
from sklearn.linear_model import Ridge

from driftsurf.core.contracts import Batch, FloatArray, Learner, Segment
from driftsurf.core.samples import Samples
from driftsurf.core.state import from_bytes, to_bytes
from driftsurf.errors import CapabilityError, DivergenceError, OptionError, ShapeError, StateError
from driftsurf.learners import LinearRegression, LinearSVM, LogisticRegression, SoftmaxRegression
from driftsurf.learners._learner import LinearLearner
from driftsurf.learners._linear import Linear

CASES: dict[str, tuple[LinearLearner, twins.Loss, int]] = {
    "softmax": (SoftmaxRegression(), twins.Loss("softmax"), 3),
    "squared": (LinearRegression(), twins.Loss("squared"), 0),
    "huber": (LinearRegression(loss="huber", epsilon=0.7), twins.Loss("huber", 0.7), 0),
    "hinge": (LinearSVM(), twins.Loss("hinge"), 2),
}
cases = pytest.mark.parametrize("case", list(CASES))
layouts = pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
optimizers = pytest.mark.parametrize("optimizer", ["strsaga", "saga", "sgd", "one-pass"])


def make_data(n: int, n_classes: int, d: int = 3, seed: int = 0) -> tuple[FloatArray, FloatArray, FloatArray]:
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d)) * (random.random((n, d)) < 0.6)
    Z = X @ random.normal(size=(d, max(1, n_classes))) + 0.3 * random.normal(size=(n, max(1, n_classes)))
    y = Z[:, 0] if n_classes == 0 else Z.argmax(axis=1).astype(float)
    return X, y, random.choice(np.array([1.0, 1.0, 0.5, 2.0, 0.0]), n)


def options(learner: LinearLearner, **more: Any) -> LinearLearner:
    return type(learner)(**(learner.get_params() | {"step_size": 0.05, "l2": 0.01} | more))


def stored(X: FloatArray, y: FloatArray, weight: FloatArray | None, sparse: bool = False) -> tuple[Samples, Segment]:
    samples = Samples(X.shape[1], sparse=sparse)
    return samples, samples.append(as_rows(X, sparse), y, weight)


def weights_of(model: LinearLearner) -> FloatArray:
    return np.column_stack([np.atleast_2d(model.coef), np.atleast_1d(model.intercept)]).T


def with_constant(X: FloatArray) -> FloatArray:
    return np.column_stack([X, np.ones(len(X))])


@cases
@layouts
@pytest.mark.parametrize("optimizer", ["strsaga", "sgd"])
def test_it_takes_the_steps_of_its_reference(case: str, sparse: bool, optimizer: str) -> None:
    learner, loss, n_classes = CASES[case]
    X, y, weight = make_data(60, n_classes)
    samples = Samples(3, sparse=sparse)
    model = options(learner, optimizer=optimizer).fresh(7, 3, n_classes)
    W, known, admitted, words = np.zeros((4, 3 if n_classes == 3 else 1)), 0, 0, 0
    table: dict[int, FloatArray] = {}
    rows = with_constant(X), y, weight
    for size, steps in ((10, 20), (15, 11), (0, 9), (20, 70)):
        part = slice(known, known + size)
        new = samples.append(as_rows(X[part], sparse), y[part], weight[part])
        model.update(samples, new, steps)
        known += size
        if optimizer == "sgd":
            order = [reference.draw(7, words + j, known) for j in range(steps)]
            W, words = twins.sgd(loss, rows, order, W, 0.05, 0.01), words + steps
        else:
            order, admitted, words = reference.alternating(steps, admitted, known - admitted, 7, words)
            W = twins.saga(loss, rows, order, W, table, 0.05, 0.01)
        np.testing.assert_allclose(weights_of(model), W, rtol=1e-9, atol=1e-9)
    model.forget(samples, 12)
    left = {i: alpha for i, alpha in table.items() if i >= 12}
    if optimizer == "strsaga":
        found = model.state()["gradient_sum"]
        np.testing.assert_allclose(found, twins.gradient_sum(rows[0], left, W.shape[1]), atol=1e-9)  # type: ignore[arg-type]


@cases
@layouts
@pytest.mark.parametrize("scale", [False, True])
def test_many_steps_on_static_data_reach_the_optimum(case: str, sparse: bool, scale: bool) -> None:
    learner, loss, n_classes = CASES[case]
    X, y, weight = make_data(60, n_classes, seed=3)
    samples, new = stored(X, y, weight, sparse)
    model = options(learner, step_size="auto", scale=scale).fresh(0, 3, n_classes)
    model.update(samples, new, 60_000)
    factor, centre, target = model._fitted.factor, model._fitted.centre[:-1], model._fitted.target
    rows = np.column_stack([X - centre, np.ones(60)]) * factor, y - target, weight / weight.mean()
    shape = model._fitted.weights.shape

    def objective(w: FloatArray) -> float:
        return twins.risk(loss, rows, w.reshape(shape), 0.01 / weight.mean())

    best = minimize(objective, np.zeros(math.prod(shape)))
    assert objective(model._fitted.weights / factor[:, None]) == pytest.approx(best.fun, abs=1e-6)


@layouts
def test_softmax_agrees_with_the_optimum_of_scikit_learn(sparse: bool) -> None:
    X, y, _ = make_data(500, 4, d=6, seed=1)
    samples, new = stored(X, y, None, sparse)
    l2 = 1e-3
    model = SoftmaxRegression(l2=l2, scale=False, fit_intercept=False).fresh(0, 6, 4)
    model.update(samples, new, 400_000)
    theirs = SklearnLogistic(C=1 / (500 * l2), solver="saga", tol=1e-10, max_iter=100_000, fit_intercept=False)
    theirs.fit(X, y)
    loss, rows = twins.Loss("softmax"), (X, y, np.ones(500))
    ours = twins.risk(loss, rows, model.coef.T, l2)
    assert ours == pytest.approx(twins.risk(loss, rows, theirs.coef_.T, l2), abs=1e-6)
    np.testing.assert_allclose(np.exp(model.scores(as_rows(X, sparse))), theirs.predict_proba(X), atol=1e-3)


def test_linear_regression_agrees_with_ridge_far_from_zero() -> None:
    """Columns and targets far from zero are centred, so that the penalised intercept costs almost nothing."""
    random = np.random.default_rng(0)
    X = 50.0 + 3.0 * random.normal(size=(1000, 4))
    y = 1e6 + 2000.0 * (X @ np.array([1.0, -2.0, 0.5, 0.0])) + 10.0 * random.normal(size=1000)
    samples, new = stored(X, y, None)
    model = LinearRegression(l2=1e-8).fresh(0, 4, 0)
    model.update(samples, new, 100_000)
    theirs = Ridge(alpha=1e-6).fit(X, y)
    np.testing.assert_allclose(model.coef, theirs.coef_, atol=1.0)
    np.testing.assert_allclose(model.scores(X), theirs.predict(X), atol=20.0)


def test_a_fresh_regression_starts_from_the_median_target() -> None:
    X, y, _ = make_data(50, 0)
    samples, new = stored(X, y + 1e6, None)
    model = LinearRegression().fresh(0, 3, 0)
    model.update(samples, new, 50)
    assert np.abs(model.scores(X) - 1e6).max() < 10.0
    plain = LinearRegression(fit_intercept=False).fresh(0, 3, 0)
    plain.update(samples, new, 50)
    assert plain.intercept == 0.0


def test_a_new_centre_of_the_targets_keeps_the_model() -> None:
    X, y, _ = make_data(400, 0)
    y[200:] += 1000.0
    samples = Samples(3)
    model = LinearRegression().fresh(0, 3, 0)
    model.update(samples, samples.append(X[:200], y[:200]), 400)
    before, target = model.scores(X[:200]), model._fitted.target
    model.update(samples, samples.append(X[200:], y[200:]), 0)
    assert model._fitted.target > target + 100
    np.testing.assert_allclose(model.scores(X[:200]), before, rtol=1e-9, atol=1e-9)


def test_huber_is_robust_to_extreme_targets() -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(500, 2))
    y = X @ np.array([1.0, 2.0])
    y[::50] = 1e3
    samples, new = stored(X, y, None)
    slopes = []
    for loss in ("huber", "squared"):
        model = LinearRegression(loss=loss, l2=0.0).fresh(0, 2, 0)
        model.update(samples, new, 50_000)
        slopes.append(model.coef)
    np.testing.assert_allclose(slopes[0], [1.0, 2.0], atol=0.2)
    assert np.abs(slopes[1] - [1.0, 2.0]).max() > 1.0


@cases
@layouts
@optimizers
def test_undo_restores_every_byte_and_a_restored_model_continues_alike(case: str, sparse: bool, optimizer: str) -> None:
    learner, _, n_classes = CASES[case]
    template = options(learner, optimizer=optimizer, step_size="auto")
    X, y, weight = make_data(90, n_classes)
    samples = Samples(3, sparse=sparse)
    model = template.fresh(3, 3, n_classes)

    def append(count: int) -> Segment:
        part = slice(samples.next_row, samples.next_row + count)
        return samples.append(as_rows(X[part], sparse), y[part], weight[part])

    model.update(samples, append(30), 60)
    before = to_bytes(model.state())
    new = append(30)
    undo = model.update(samples, new, 60)
    after = to_bytes(model.state())
    undo()
    assert to_bytes(model.state()) == before
    again = type(template).from_state(template, from_bytes(before))
    again.update(samples, new, 60)
    assert to_bytes(again.state()) == after
    if optimizer != "one-pass":
        model.update(samples, new, 60)
        model.forget(samples, 20)()
        assert to_bytes(model.state()) == after


@cases
def test_scores_losses_and_penalty_have_their_definition(case: str) -> None:
    learner, loss, n_classes = CASES[case]
    X, y, weight = make_data(50, n_classes)
    samples, new = stored(X, y, weight)
    model = options(learner).fresh(0, 3, n_classes)
    model.update(samples, new, 200)
    scores, scorer = model.scores(X), model.scorer()
    expected = [loss.value(x @ weights_of(model), target) for x, target in zip(with_constant(X), y, strict=True)]
    np.testing.assert_allclose(model.row_losses(scores, y), expected, atol=1e-9)
    assert model.penalty() == pytest.approx(0.005 * float((weights_of(model) ** 2).sum()))
    model.update(samples, new, 200)
    assert np.array_equal(scorer(X), scores)
    assert not np.array_equal(model.scores(X), scores)
    assert model.nbytes >= 50 * 8
    with pytest.raises(ShapeError, match="2 features"):
        model.scores(X[:, :2])


# ---------------------------------------------------------------------------- growth


@layouts
def test_a_class_that_appears_later_is_learned(sparse: bool) -> None:
    X, y, _ = make_data(400, 3, seed=5)
    order = np.argsort(y == 2, kind="stable")
    X, y = X[order], y[order]
    first = int((y < 2).sum())
    samples = Samples(3, sparse=sparse)
    model = SoftmaxRegression().fresh(0, 3, 2)
    model.update(samples, samples.append(as_rows(X[:first], sparse), y[:first]), 2 * first)
    before, shares = to_bytes(model.state()), np.exp(model.scores(as_rows(X, sparse)))
    undo = model.grow(n_classes=3)
    grown = np.exp(model.scores(as_rows(X, sparse)))
    assert grown.shape == (400, 3)
    assert grown[:, 2].max() <= 1 / 3 + 1e-9
    np.testing.assert_allclose(grown[:, :2] / grown[:, :2].sum(axis=1, keepdims=True), shares, atol=1e-9)
    undo()
    assert to_bytes(model.state()) == before
    model.grow(n_classes=3)
    model.update(samples, samples.append(as_rows(X[first:], sparse), y[first:]), 6000)
    knowing = SoftmaxRegression().fresh(0, 3, 3)
    knowing.update(samples, Segment(0, 400), 6000)
    right, expected = (np.mean(m.scores(as_rows(X, sparse)).argmax(axis=1) == y) for m in (model, knowing))
    assert right > expected - 0.03
    state = model.state()
    table = state["table"]
    assert isinstance(table, np.ndarray)
    rows = with_constant(X)
    frame = model._fitted
    rows = (rows - frame.centre) * frame.factor
    sums = frame.factor[:, None] * (rows.T @ np.nan_to_num(table))
    np.testing.assert_allclose(frame.gradient_sum, sums, atol=1e-8)
    assert to_bytes(SoftmaxRegression.from_state(SoftmaxRegression(), state).state()) == to_bytes(state)


def test_growing_to_the_same_number_of_classes_changes_nothing() -> None:
    model = SoftmaxRegression().fresh(0, 3, 3)
    before = to_bytes(model.state())
    model.grow(n_classes=3)()
    assert to_bytes(model.state()) == before
    with pytest.raises(CapabilityError, match="grows_classes"):
        LinearSVM().fresh(0, 3, 2).grow(n_classes=3)


# ---------------------------------------------------------------------------- ranges of columns


def learned_ranges(model: LinearLearner) -> Any:
    """Return the ranges, whose type mypy would narrow for the rest of a test."""
    return model.ranges


@layouts
def test_a_regression_limits_values_to_the_range_of_rows_that_count_and_keeps_it(sparse: bool) -> None:
    X = np.array([[-1.0, 2.0], [0.0, 0.0], [3.0, 4.0], [90.0, -90.0]])
    y = np.array([1.0, 2.0, 3.0, 4.0])
    samples = Samples(2, sparse=sparse)
    model = LinearRegression().fresh(0, 2, 0)
    model.update(samples, samples.append(as_rows(X, sparse), y, np.zeros(4)), 8)
    assert learned_ranges(model) is None
    model.update(samples, samples.append(as_rows(X, sparse), y, np.array([1.0, 1.0, 1.0, 0.0])), 8)
    low, high = learned_ranges(model)
    np.testing.assert_allclose([low, high], [[-1.4, -0.4], [3.4, 4.4]])
    rows = np.array([[-50.0, 50.0], [50.0, -50.0], [1.0, 1.0]])
    expected = np.clip(rows, low, high) @ model.coef + model.intercept
    np.testing.assert_allclose(model.scores(as_rows(rows, sparse)), expected)
    scorer = model.scorer()
    model.forget(samples, samples.next_row)
    np.testing.assert_allclose(learned_ranges(model), [low, high])
    undo = model.update(samples, samples.append(as_rows(2.0 * X, sparse), y), 8)
    assert learned_ranges(model)[1].tolist() == pytest.approx([180 + 18.2, 8 + 18.8])
    np.testing.assert_allclose(scorer(as_rows(rows, sparse)), expected)
    undo()
    np.testing.assert_allclose(learned_ranges(model), [low, high])
    again = LinearRegression.from_state(LinearRegression(), model.state())
    np.testing.assert_array_equal(learned_ranges(again), learned_ranges(model))


# ---------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("learner", "n_classes", "words"),
    [
        (SoftmaxRegression(), 0, "'regression'"),
        (LinearRegression(), 2, "'binary'"),
        (LinearRegression(), 3, "3 classes"),
        (LinearSVM(), 3, "'multiclass'"),
        (LinearSVM(), 0, "LinearSVM"),
        (LogisticRegression(), 0, "logistic"),
    ],
)
def test_an_unsupported_task_is_refused_by_name(learner: Learner, n_classes: int, words: str) -> None:
    with pytest.raises(CapabilityError, match=words):
        learner.fresh(0, 2, n_classes)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"loss": "absolute"}, "'squared', 'huber'"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"l2": -1}, "l2"),
    ],
)
def test_a_bad_parameter_is_an_error(change: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        LinearRegression(**change).fresh(0, 2, 0)


def test_a_bad_parameter_is_an_error_also_after_an_equal_one_of_another_type_was_valid() -> None:
    learner = LinearRegression(l2=1.0, fit_intercept=True)
    learner.fresh(0, 2, 0)
    for change in ({"fit_intercept": 1}, {"l2": True}, {"l2": [1.0]}):
        with pytest.raises(OptionError, match=next(iter(change))):
            LinearRegression(**({"l2": 1.0} | change)).fresh(0, 2, 0)
    with pytest.raises(OptionError, match="l2"):
        learner.set_params(l2=-1.0).fresh(0, 2, 0)


@cases
def test_divergence_changes_no_byte(case: str) -> None:
    learner, _, n_classes = CASES[case]
    X, y, _ = make_data(20, n_classes)
    samples, new = stored(X, y, None)
    model = options(learner, step_size=1e9, l2=0.0).fresh(0, 3, n_classes)
    model.update(samples, new, 0)
    before = to_bytes(model.state())
    samples.append(np.full((5, 3), 1e160), np.arange(5.0) % 2)
    with pytest.raises(DivergenceError):
        model.update(samples, Segment(20, 25), 50)
    assert to_bytes(model.state()) == before


@pytest.mark.parametrize("entry", ["weights", "gradient_sum", "table", "seen"])
def test_a_forged_state_is_refused(entry: str) -> None:
    X, y, _ = make_data(20, 3)
    samples, new = stored(X, y, None)
    template = SoftmaxRegression()
    model = template.fresh(0, 3, 3)
    model.update(samples, new, 40)
    state = model.state()
    old = state[entry]
    state[entry] = old[:, :2].copy() if isinstance(old, np.ndarray) else 1.0
    with pytest.raises(StateError):
        SoftmaxRegression.from_state(template, state)


def test_the_centre_of_the_targets_is_saved_and_checked() -> None:
    X, y, _ = make_data(20, 3)
    samples, new = stored(X, y, None)
    template = LinearRegression()
    model = template.fresh(0, 3, 0)
    model.update(samples, new, 40)
    state = model.state()
    assert LinearRegression.from_state(template, state).state()["target"] == model._fitted.target
    with pytest.raises(StateError):
        LinearRegression.from_state(template, state | {"target": 1})
    del state["target"]
    with pytest.raises(StateError, match="'target'"):
        LinearRegression.from_state(template, state)


def test_a_random_start_fills_every_output() -> None:
    model = SoftmaxRegression(start="uniform").fresh(5, 2, 3)
    assert model._fitted.weights.shape == (3, 3)
    assert model._fitted.weights.ravel().tolist() == [reference.uniform(5, k) for k in range(9)]
    bare = SoftmaxRegression(start="uniform", fit_intercept=False).fresh(5, 2, 3)
    assert (bare.intercept == 0.0).all()


# ---------------------------------------------------------------------------- a regression without evidence


def predicted_before_learning(
    learner: LinearRegression, batches: list[tuple[FloatArray, FloatArray, FloatArray]], sparse: bool = False
) -> tuple[LinearRegression, list[FloatArray], list[FloatArray]]:
    """Learn batch after batch; return the model, its predictions, and those of its weights as they were learned."""
    samples = Samples(batches[0][0].shape[1], sparse=sparse)
    model = learner.fresh(seed=3, n_features=samples.n_features, n_classes=0)
    predictions, full = list[FloatArray](), list[FloatArray]()
    for X, y, weight in batches:
        low, high = model.ranges or (-np.inf, np.inf)
        predictions.append(model.scores(as_rows(X, sparse)))
        full.append(with_constant(np.clip(X, low, high)) @ model._fitted.full_weights[:, 0])
        model.update(samples, samples.append(as_rows(X, sparse), y, weight), steps=3 * len(y))
    return model, predictions, full


@layouts
@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_a_regression_is_drawn_to_the_mean_by_what_would_have_suited_its_predictions(loss: Any, sparse: bool) -> None:
    random = np.random.default_rng(5)
    batches = [
        (X, 40.0 + 2.0 * random.normal(size=60) + X[:, 0], w)
        for X, _, w in (make_data(60, 0, seed=k) for k in range(4))
    ]
    _, predictions, full = predicted_before_learning(LinearRegression(loss=loss), batches, sparse)
    for now in range(2, 4):
        weight = mean = product = square = 0.0
        for step in range(now):
            y, w = batches[step][1], batches[step][2]
            if loss == "huber" and step:
                y = np.clip(y, full[step] - 1.35, full[step] + 1.35)
            fading = 10_000 / (10_000 + np.sum(w > 0.0))
            if step:
                product = fading * product + np.sum(w * (full[step] - mean) * (y - mean))
                square = fading * square + np.sum(w * (full[step] - mean) ** 2)
            mean = (fading * weight * mean + w @ y) / (fading * weight + w.sum())
            weight = fading * weight + w.sum()
        trust = min(max(product / square, 0.0), 1.0)
        assert trust < 0.99
        assert predictions[now] == pytest.approx(mean + trust * (full[now] - mean))


def test_a_regression_that_knows_nothing_predicts_the_mean_and_one_that_knows_is_left_alone() -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(40, 20, 15))
    noise = random.normal(size=(40, 20))
    for y, least, most in ((noise, 0.0, 0.2), (X[:, :, 0] + 0.1 * noise, 0.95, 1.0)):
        batches = [(X[step], 50.0 + y[step], np.ones(20)) for step in range(40)]
        model, predictions, full = predicted_before_learning(LinearRegression(), batches)
        assert least <= model._fitted.trust <= most
        errors = [float(np.square(np.array(found[2:]) - 50.0 - y[2:]).mean()) for found in (predictions, full)]
        assert errors[0] <= 1.001 * errors[1]
        assert errors[0] < 1.1 * np.square(y[2:]).mean()
    with pytest.raises(StateError):
        LinearRegression.from_state(LinearRegression(), model.state() | {"evidence": np.zeros(3)})


def test_the_unit_of_the_weights_does_not_change_how_far_a_regression_is_drawn_to_the_mean() -> None:
    random = np.random.default_rng(1)
    rows = Batch(random.normal(size=(50, 2)), random.normal(size=50), random.integers(3, size=50).astype(float))
    predicted, found = random.normal(size=50) + rows.y, list[Linear]()
    for unit in (1.0, 2.0**10):
        judged = LinearRegression().fresh(0, n_features=2, n_classes=0)._fitted
        for step in range(4):
            judged = judged.judged(predicted * (step + 1.0), rows._replace(weight=unit * rows.weight))
        found.append(judged)
    assert 0.0 < found[0].trust == found[1].trust < 1.0
    assert found[0].evidence[1] == found[1].evidence[1]


def test_with_a_given_step_size_a_regression_is_not_drawn_to_the_mean() -> None:
    random = np.random.default_rng(0)
    batches = [(random.normal(size=(20, 5)), random.normal(size=20), np.ones(20)) for _ in range(5)]
    model, predictions, full = predicted_before_learning(LinearRegression(step_size=0.05), batches)
    assert model._fitted.trust == 1.0
    assert np.array(predictions) == pytest.approx(np.array(full))
