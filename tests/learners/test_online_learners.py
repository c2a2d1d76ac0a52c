"""Perceptron, naive Bayes, nearest neighbours: equal to plain versions, exact to resume, safe with extreme values."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from row_arrays import csr_view
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from driftsurf.checks import check_learner
from driftsurf.core.contracts import CSR, Batch, FloatArray, Segment
from driftsurf.core.samples import Samples
from driftsurf.core.state import to_bytes
from driftsurf.errors import CapabilityError, OptionError, ShapeError, StateError
from driftsurf.learners import NaiveBayes, NearestNeighbours, Perceptron
from driftsurf.strategies import Oblivious

LEARNERS: list[Any] = [NaiveBayes(), Perceptron(hidden=5), Perceptron(task="regression", hidden=5)]
DENSE: list[Any] = [NearestNeighbours(window=70), NearestNeighbours(task="regression", neighbours=3)]
NAMES = ["bayes", "classes", "values", "nearest classes", "nearest values"]
every = pytest.mark.parametrize("learner", [*LEARNERS, *DENSE], ids=NAMES)
of_sparse_rows = pytest.mark.parametrize("learner", LEARNERS, ids=NAMES[:3])


def rows(n: int = 200, d: int = 4, K: int = 3, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d)) * [1.0, 5.0, 0.1, 1.0] + [0.0, 100.0, 0.0, -3.0]
    X[random.random((n, d)) < 0.3] = 0.0
    return X, np.argmax(X[:, [0, 2, 3]] * [1.0, 10.0, 0.4], axis=1).astype(float) if K else X[:, 0] * 7.0 + 50.0


def taught(learner: Any, X: FloatArray, y: FloatArray, *, sparse: bool = False, size: int = 50) -> tuple[Any, Samples]:
    """Return a model that has learned the rows in batches, and its store."""
    samples = Samples(X.shape[1], sparse=sparse)
    classes = 0 if learner.capabilities.regression else 3
    model = learner.fresh(seed=5, n_features=X.shape[1], n_classes=classes)
    for start in range(0, len(y), size):
        part = X[start : start + size]
        new = samples.append(csr_view(part) if sparse else part, y[start : start + size])
        model.update(samples, new, learner.budget(new))
    return model, samples


@every
def test_it_is_a_learner(learner: Any) -> None:
    check_learner(learner)


@pytest.mark.parametrize("weighted", [False, True])
def test_moments_of_batches_are_those_of_all_rows(weighted: bool) -> None:
    X, y = rows()
    samples, weight = Samples(4), np.random.default_rng(1).random(200) if weighted else np.ones(200)
    samples.append(X, y, weight)
    sparse = Samples(4, sparse=True)
    sparse.append(csr_view(X), y, weight)
    for store in (samples, sparse):
        total: Any = NaiveBayes().fresh(0, 4, 3)._fitted
        for start in range(0, 200, 40):
            batch = store.view(Segment(start, start + 40))
            total = total.after(batch.X, batch.y, batch.weight, start + 40, 40)
        count, mean, squares = (total.entries()[name] for name in ("count", "mean", "squares"))
        for k in range(3):
            own = y == k
            expected = np.average(X[own], axis=0, weights=weight[own])
            np.testing.assert_allclose(count[k], weight[own].sum())
            np.testing.assert_allclose(mean[k], expected)
            np.testing.assert_allclose(
                squares[k], (weight[own, None] * (X[own] - expected) ** 2).sum(axis=0), rtol=1e-9
            )


def test_bayes_predicts_as_scikit_learn_does() -> None:
    X, y = rows()
    model, _ = taught(NaiveBayes(smoothing=1e-9), X, y)
    other = GaussianNB(var_smoothing=0.0, priors=(np.bincount(y.astype(int)) + 1) / 203).fit(X, y)
    np.testing.assert_allclose(np.exp(model.scores(X)), other.predict_proba(X), atol=1e-6)


def plain_adam(model: Any, X: FloatArray, y: FloatArray, order: Any, size: int, rate: float) -> FloatArray:
    """Return the parameters of a fresh network after some steps, by the formulas alone."""
    known = model._fitted
    d, H, K = X.shape[1], known.hidden, known.n_classes or 1
    cuts = np.cumsum([d * H, H, H * K])
    shapes = (d, H), (H,), (H, K), (K,)
    theta = known.theta.astype(float)
    m, v = np.zeros_like(theta), np.zeros_like(theta)
    for step, start in enumerate(range(0, len(order), size), 1):
        W1, b1, W2, b2 = (part.reshape(shape) for part, shape in zip(np.split(theta, cuts), shapes, strict=True))
        x, t = X[order[start : start + size]], y[order[start : start + size]]
        z = x @ W1 + b1
        a = np.maximum(z, 0.0)
        out = a @ W2 + b2
        if known.n_classes:
            error = np.exp(out - out.max(axis=1, keepdims=True))
            error /= error.sum(axis=1, keepdims=True)
            error[np.arange(len(t)), t.astype(int)] -= 1.0
        else:
            error = out - t[:, None]
        error /= len(t)
        back = (error @ W2.T) * (z > 0)
        g = np.concatenate([(x.T @ back).ravel(), back.sum(axis=0), (a.T @ error).ravel(), error.sum(axis=0)])
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        theta = theta - rate * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
    return np.asarray(theta)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_the_perceptron_learns_by_the_formulas(task: Any) -> None:
    X, y = rows(K=0 if task == "regression" else 3)
    learner = Perceptron(task=task, hidden=6, rows_per_step=8)
    samples = Samples(4)
    new = samples.append(X, y)
    model = learner.fresh(seed=3, n_features=4, n_classes=0 if task == "regression" else 3)
    start = model.mark()
    model.update(samples, new, 300)
    after: Any = model._fitted
    from driftsurf.native.online import visits_of

    order, _ = visits_of(200, 300, 3, start.words)
    assert sorted(order[:200]) == list(range(200))  # a pass visits each row once
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    model.put_back(start)
    t = (y - y.mean()) / y.std() if task == "regression" else y
    expected = plain_adam(model, Z, t, order, 8, 3e-3)
    np.testing.assert_allclose(after.theta, expected, atol=2e-4)


@of_sparse_rows
def test_sparse_rows_are_learned(learner: Any) -> None:
    X, y = rows(600, K=0 if learner.capabilities.regression else 3)
    X = X * (np.abs(X) > 0.5)
    model, _ = taught(learner, X, y, sparse=True)
    first = model.scores(csr_view(X))
    np.testing.assert_allclose(model.scores(X), first, rtol=1e-6, atol=1e-6)
    loss = model.row_losses(first, y).mean()
    assert loss < (y.var() if learner.capabilities.regression else np.log(3)) * 0.9


def test_a_model_of_dense_rows_can_go_on_with_sparse_ones() -> None:
    X, y = rows()
    dense, samples = taught(Perceptron(hidden=5), X, y)
    other = Samples(4, sparse=True)
    other.append(csr_view(X), y)
    new = other.append(csr_view(X), y)
    dense.update(other, new, 400)
    again, _ = taught(Perceptron(hidden=5), X, y)
    again.update(samples, samples.append(X, y), 400)
    assert np.array_equal(dense.scores(X), again.scores(X))


@every
@pytest.mark.parametrize("sparse", [False, True])
def test_resumed_in_the_middle_it_is_the_same(learner: Any, sparse: bool) -> None:
    if sparse and not learner.capabilities.sparse:
        pytest.skip("it learns dense rows only")
    X, y = rows(K=0 if learner.capabilities.regression else 3)
    model, samples = taught(learner, X, y, sparse=sparse)
    again = type(learner).from_state(learner, model.state())
    new = samples.append(csr_view(X) if sparse else X, y)
    for one in (model, again):
        one.update(samples, new, 321)
    assert np.array_equal(model.scores(X), again.scores(X))
    state = model.state()
    assert all(np.array_equal(value, again.state()[name]) for name, value in state.items())


@every
def test_extreme_values_leave_it_finite(learner: Any) -> None:
    X, y = rows(K=0 if learner.capabilities.regression else 3)
    X[3], X[4], X[5, 1] = 1e300, -1e300, 1e-300
    if learner.capabilities.regression:
        y[7] = 1e150
    model, _ = taught(learner, X, y)
    assert np.isfinite(model.scores(X)).all()
    if learner.capabilities.sparse:
        assert np.isfinite(model.scores(csr_view(X))).all()
    type(learner).from_state(learner, model.state())


@every
def test_a_damaged_state_is_refused(learner: Any) -> None:
    X, y = rows(K=0 if learner.capabilities.regression else 3)
    state = taught(learner, X, y)[0].state()
    for name, value in state.items():
        if isinstance(value, np.ndarray) and value.size:
            for bad in (value[..., :-1] if value.shape[-1] > 1 else np.zeros(7), np.full_like(value, np.nan)):
                with pytest.raises(StateError) as caught:
                    type(learner).from_state(learner, state | {name: bad})
                assert caught.value.entry
    with pytest.raises(StateError):
        type(learner).from_state(learner, state | {"n_classes": 1})


def test_rows_of_another_width_are_refused() -> None:
    X, y = rows()
    model, _ = taught(NaiveBayes(), X, y)
    for bad in (X[:, :2], np.hstack([X, X]), csr_view(X[:, :2])):
        with pytest.raises(ShapeError):
            model.scores(bad)


def test_options_and_tasks_are_checked() -> None:
    bad: list[Any] = [NaiveBayes(smoothing=0.0), Perceptron(hidden=0), Perceptron(rate=2.0), Perceptron(passes=0.0)]
    bad += [Perceptron(rows_per_step=0), Perceptron(task="ranking")]  # type: ignore[arg-type]
    bad += [NearestNeighbours(neighbours=0), NearestNeighbours(window=0), NearestNeighbours(smoothing=0.0)]
    for learner in bad:
        with pytest.raises(OptionError):
            learner.fresh(seed=0, n_features=2, n_classes=2)
    with pytest.raises(CapabilityError):
        NaiveBayes().fresh(seed=0, n_features=2, n_classes=0)
    with pytest.raises(CapabilityError):
        Perceptron(task="regression").fresh(seed=0, n_features=2, n_classes=2)


@every
def test_rows_that_are_not_stored_are_learned_like_stored_ones(learner: Any) -> None:
    class Stored(Oblivious):
        """A subclass might look at the rows, so that they are stored until they are learned."""

    Stored.__name__ = Oblivious.__name__  # the states name the strategy
    random, K = np.random.default_rng(6), 0 if learner.capabilities.regression else 2
    either = [kind(learner, seed=3) for kind in (Oblivious, Stored)]
    for strategy in either:
        strategy.begin(3, sparse=False, n_classes=K)
    for step in range(30):
        n = int(random.integers(1, 5))
        X, weight = random.normal(size=(n, 3)), random.integers(0, 2, n).astype(np.float64)
        y: Any = X[:, 0] * 2.0 if not K else random.integers(0, K if step < 20 else K + 2, n) * 1.0  # new classes
        batch = Batch(X, y, weight)
        decisions = [one.step(batch, one.test_scores(batch) if step % 3 else None) for one in either]
        assert repr(decisions[0]) == repr(decisions[1])  # a risk without weight is NaN
        assert len(either[0]._pool.samples) == 0
    assert to_bytes(either[0].state()) == to_bytes(either[1].state())
    rows = [one.incremental_state()["pool.samples.X"] for one in either]
    assert rows[0].first == rows[0].stop == rows[1].first == rows[1].stop


@pytest.mark.parametrize("numbers", [False, True])
def test_neighbours_are_those_of_scikit_learn(numbers: bool) -> None:
    """Its neighbours of the last rows, with columns scaled by hand; without smoothing, nothing but votes is left."""
    X, y = rows(400, K=0 if numbers else 3)
    X = X + 1e-3 * np.random.default_rng(9).normal(size=X.shape)  # no two rows have the same distance
    learner = NearestNeighbours(task="regression" if numbers else "classification", window=150, smoothing=1e-9)
    model, _ = taught(learner, X[:300], y[:300])
    kind = KNeighborsRegressor if numbers else KNeighborsClassifier
    unit = X[:300].std(axis=0)
    other = kind(5, weights="distance").fit(X[150:300] / unit, y[150:300])
    if numbers:
        np.testing.assert_allclose(model.scores(X[300:]), other.predict(X[300:] / unit))
    else:
        np.testing.assert_allclose(np.exp(model.scores(X[300:])), other.predict_proba(X[300:] / unit), atol=1e-8)


def test_a_value_reads_what_it_read_whatever_is_learned_later() -> None:
    """Rows are appended to one array, from which values of different times, and of steps that were undone, read."""
    X, y = rows(400)
    model, samples = taught(NearestNeighbours(window=60), X[:100], y[:100], size=10)
    early, mark = model.scorer(), model.mark()
    first = early(X)
    new = samples.append(X[100:120], y[100:120])
    model.update(samples, new, 20)
    late = model.scorer()
    second = late(X)
    model.put_back(mark)
    other = samples.append(X[200:230], y[200:230])
    model.update(samples, other, 30)
    third = model.scores(X)
    for start in range(230, 400, 7):
        part = samples.append(X[start : start + 7], y[start : start + 7])
        model.update(samples, part, 7)
    assert np.array_equal(early(X), first)
    assert np.array_equal(late(X), second)
    anew, stored = taught(NearestNeighbours(window=60), X[:100], y[:100], size=10)
    anew.update(stored, stored.append(X[200:230], y[200:230]), 30)
    assert np.array_equal(anew.scores(X), third)
    assert model.nbytes < 60 * 6 * 8 * 4


def test_a_class_that_was_never_seen_gets_little() -> None:
    X, y = rows()
    model, _ = taught(NaiveBayes(), X[y < 2], y[y < 2])
    assert np.exp(model.scores(X))[:, 2].mean() < 0.2
    model.grow(5)
    assert model.scores(X).shape == (200, 5)


def test_sparse_rows_have_the_type_of_the_store() -> None:
    assert isinstance(csr_view(np.eye(2)), CSR)


def test_threads_that_learn_from_the_same_neighbours_do_not_share_new_rows() -> None:
    """Moments of many columns take so long that both threads are in the middle of their batches."""
    n, d = 2_000, 1_000
    X, y = np.zeros((n, d)), np.zeros(n)
    for _ in range(3):
        samples, both = Samples(d), Barrier(2)
        model = NearestNeighbours(window=20_000).fresh(0, d, 2)
        model.update(samples, samples.append(X, y), n)

        def learned(model: Any, value: float, both: Barrier = both) -> Any:
            batch = Batch(np.full((n, d), value), np.zeros(n), np.ones(n))
            both.wait()
            model.learn(batch, 2 * n, n)
            return model.state()["rows"][n:, 0]

        with ThreadPoolExecutor(2) as pool:
            one, other = pool.map(learned, [model, copy.deepcopy(model)], [1.0, 2.0])
        np.testing.assert_array_equal(one, 1.0)
        np.testing.assert_array_equal(other, 2.0)
