"""Columns as they come: heavy tails, new scales, values never seen before, rare classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeClassifier

from driftsurf import DriftSurfClassifier, DriftSurfRegressor, paper, recommended
from driftsurf.core.contracts import Segment
from driftsurf.core.state import from_bytes, to_bytes
from driftsurf.estimators import SlidingWindowRegressor
from driftsurf.learners import LinearRegression, LinearSVM, LogisticRegression, SoftmaxRegression
from driftsurf.learners.foreign import SklearnLearner
from driftsurf.session.late import DelayedLabels
from driftsurf.session.session import Session
from driftsurf.strategies import DriftSurf

Array = npt.NDArray[Any]


def heavy_tailed(rows: int = 6000, seed: int = 0, shift: float = 0.0) -> tuple[Array, Array, Array]:
    """Return rows, the same rows with a noise column of which a fifth of the values lie near 5,000, and labels."""
    random = np.random.default_rng(seed)
    X = random.random((rows, 6))
    margins = 12 * (X[:, 0] - 0.5) + 8 * (X[:, 1] - 0.5) - shift
    y = (random.random(rows) < 1 / (1 + np.exp(-margins))).astype(int)
    heavy = X.copy()
    heavy[random.random(rows) < 0.2, 5] = 5000.0
    return X, heavy, y


def log_loss(model: Any, X: Any, y: Array, size: int = 200) -> float:
    losses = [model.observe(X[i : i + size], y[i : i + size]).log_losses() for i in range(0, len(y), size)]
    return float(np.concatenate(losses[1:]).mean())


def base_rate(y: Array) -> float:
    share = y.mean()
    return float(-(share * np.log(share) + (1 - share) * np.log(1 - share)))


@pytest.mark.parametrize("name", ["default", "softmax", "recommended"])
def test_a_heavy_tailed_noise_column_does_no_harm(name: str) -> None:
    def model() -> Any:
        if name == "recommended":
            return recommended("linear", random_state=0)
        return DriftSurfClassifier(SoftmaxRegression() if name == "softmax" else None, random_state=0)

    X, heavy, y = heavy_tailed()
    clean = log_loss(model(), X, y)
    assert log_loss(model(), heavy, y) < clean + 0.03 < 0.36
    assert log_loss(model(), csr_array(heavy), y) < clean + 0.03


def test_margins_and_numbers_survive_a_heavy_tailed_column_too() -> None:
    X, heavy, y = heavy_tailed()
    numbers = 300.0 + X @ [2.0, -1.0, 0.0, 0.5, 0.0, 0.0]
    for rows in (X, heavy):
        svm = DriftSurfClassifier(LinearSVM(), random_state=0)
        wrong = [svm.observe(rows[i : i + 200], y[i : i + 200]).errors for i in range(0, len(y), 200)]
        assert sum(wrong[1:]) / len(y) < 0.18
        values = DriftSurfRegressor(random_state=0)
        errors = [values.observe(rows[i : i + 200], numbers[i : i + 200]).error for i in range(0, len(y), 200)]
        assert np.mean(errors[15:]) < 0.1 * numbers.var()


def test_a_rare_class_has_probabilities_better_than_its_base_rate() -> None:
    for seed in range(3):
        _, heavy, y = heavy_tailed(4000, seed, shift=8.0)
        assert 0.03 < y.mean() < 0.12
        for model in (DriftSurfClassifier(random_state=seed), recommended("linear", random_state=seed)):
            assert log_loss(model, heavy, y, 100) < base_rate(y)


def sessions() -> dict[str, Any]:
    return {
        "classes": lambda **options: Session(DriftSurf(LogisticRegression(), seed=0), **options),
        "numbers": lambda **options: Session(DriftSurf(LinearRegression(), seed=0), **options),
    }


@pytest.mark.parametrize("name", list(sessions()))
@pytest.mark.parametrize("sparse", [False, True])
def test_a_session_with_limits_resumes_exactly_and_learns_the_same_on_every_path(name: str, sparse: bool) -> None:
    make = sessions()[name]
    _, heavy, y = heavy_tailed(1200)
    X: Any = csr_array(heavy) if sparse else heavy
    y = y if name == "classes" else heavy[:, 0] * 10.0
    plain, silent, late, buffered = make(), make(), DelayedLabels(make()), make(batch_size=100)
    resumed = make()
    for i in range(0, 1200, 100):
        rows, labels = X[i : i + 100], y[i : i + 100]
        seen = plain.observe(rows, labels)
        if i:
            shown = silent.predict(rows)
            assert shown.tolist() == seen.labels.tolist() == resumed.predict(rows).tolist()
            judged = silent.judge(rows, labels)
            assert judged.scores.tolist() == seen.scores.tolist()
        silent.learn(rows, labels)
        late.predict(range(i, i + 100), rows)
        late.label(range(i, i + 100), labels)
        half = (rows[:50], labels[:50]), (rows[50:], labels[50:])
        assert [v for part in half for v in buffered.observe(*part).labels.tolist()] == seen.labels.tolist()
        resumed.observe(rows, labels)
        saved, resumed = to_bytes(resumed.state()), make()
        resumed.restore(from_bytes(saved))
    state = to_bytes(plain.state())
    assert to_bytes(silent.state()) == to_bytes(late.model.state()) == to_bytes(resumed.state()) == state
    assert to_bytes(buffered.strategy.state()) == to_bytes(plain.strategy.state())


def test_a_failed_step_leaves_limits_and_range_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    one = sessions()["numbers"]()
    _, heavy, _ = heavy_tailed(400)
    one.learn(heavy[:200], heavy[:200, 0])
    before = to_bytes(one.state())

    def fail(*_: Any, **__: Any) -> None:
        raise ValueError("on purpose")

    monkeypatch.setattr(one.strategy._cell, "newest", fail)  # called once the rows are learned, with limited values
    with pytest.raises(ValueError, match="on purpose"):
        one.observe(1e6 * heavy[200:], 1e6 * heavy[200:, 0])
    assert to_bytes(one.state()) == before


@pytest.mark.parametrize("size", [10, 500])
def test_a_lasting_change_of_scale_is_followed(size: int) -> None:
    one = sessions()["classes"]()
    random = np.random.default_rng(0)
    X = random.normal(size=(3000, 3))
    y = (X[:, 0] > 0).astype(int)
    X[1500:] *= 1000.0
    for i in range(0, 3000, size):
        one.learn(X[i : i + size], y[i : i + size])
        if i + size == 1500:
            assert one.column_limits[1].max() < 10.0
    assert one.column_limits[1].min() > 3000.0


def test_columns_that_are_far_from_zero_counts_and_flags_are_left_alone() -> None:
    random = np.random.default_rng(0)
    rows = 1000
    X = np.column_stack(
        [
            2000 + np.arange(rows) // 100,
            random.normal(293.0, 8.0, rows),
            random.random(rows) < 0.01,
            random.poisson(0.3, rows),
            random.normal(size=rows),
        ]
    ).astype(float)
    one = sessions()["classes"]()
    one.learn(X, X[:, 4] > 0)
    assert np.array_equal(stored(one), X)


def stored(one: Session) -> Array:
    """Return the rows in the store of a session."""
    samples = one.strategy._pool.samples  # type: ignore[attr-defined]
    rows: Array = samples.view(Segment(samples.first_row, samples.next_row)).X
    return rows


def test_only_linear_learners_with_a_guard_get_limited_rows() -> None:
    _, heavy, y = heavy_tailed(400)
    tree = SklearnLearner(DecisionTreeClassifier(max_depth=3, random_state=0), rows=400)
    for strategy, guard, raw in (
        (DriftSurf(LogisticRegression(), seed=0), 2.0, False),
        (DriftSurf(LogisticRegression(), seed=0), None, True),
        (DriftSurf(tree, seed=0), 2.0, True),
    ):
        one = Session(strategy, guard=guard)
        one.learn(heavy, y)
        assert np.array_equal(stored(one), heavy) == raw
        assert (one.column_limits is None) == raw
    model = paper(1e-5, 1e-2, random_state=0).partial_fit(heavy, 2 * y - 1)
    assert np.array_equal(stored(model._session), heavy)


def seasonal(rows: int = 3000) -> tuple[Array, Array]:
    """Return rows with a month that starts in August, two noisy columns, and a target that depends on the season."""
    random = np.random.default_rng(0)
    month = 8 + 6 * np.arange(rows) / rows
    month = np.floor(np.where(month >= 13, month - 12, month))
    X = np.column_stack([month, random.normal(size=(rows, 2))])
    return X, 90 + 30 * np.cos(month / 12 * 2 * np.pi) + 20 * X[:, 1] + random.normal(0, 20, rows)


@pytest.mark.parametrize("learner", [None, LinearRegression(loss="huber", epsilon=20.0)])
def test_a_regression_is_not_worse_than_the_mean_at_values_it_has_not_seen(learner: Any) -> None:
    X, y = seasonal()
    model = DriftSurfRegressor(learner, random_state=0)
    errors = []
    means = []
    for i in range(0, 3000, 100):
        seen = model.observe(X[i : i + 100], y[i : i + 100])
        if i:
            errors.append(seen.squared_errors())
            means.append(np.square(y[i : i + 100] - y[:i].mean()))
            low, high = y[:i].min(), y[:i].max()
            assert seen.predicted.min() >= low - 0.1 * (high - low) - 1e-9
            assert seen.predicted.max() <= high + 0.1 * (high - low) + 1e-9
    assert np.concatenate(errors).mean() < np.concatenate(means).mean()


def test_numbers_are_bounded_by_the_targets_that_were_learned() -> None:
    X = np.linspace(0, 1, 100).reshape(-1, 1)
    model = DriftSurfRegressor(random_state=0).partial_fit(X, 10 * X[:, 0])
    far = model.predict([[1e6], [-1e6]])
    assert far.max() <= 11.0
    assert far.min() >= -1.0
    assert far[0] == pytest.approx(model.predict([[1.1]])[0])  # the column has never been above 1
    ridge = DriftSurfRegressor(SklearnLearner(Ridge(), rows=100), random_state=0).partial_fit(X, 10 * X[:, 0])
    assert ridge.predict([[1e6]]).tolist() == [11.0]
    unscaled = LinearRegression(step_size=0.1)
    free = DriftSurfRegressor(unscaled, random_state=0, guard=None).partial_fit(X, 10 * X[:, 0])
    assert free.predict([[1e6]])[0] > 1e5


def test_the_export_limits_values_and_numbers_as_the_model_does() -> None:
    _, heavy, y = heavy_tailed(800)
    classes = DriftSurfClassifier(random_state=0).partial_fit(heavy, y)
    values = SlidingWindowRegressor(random_state=0).partial_fit(heavy, heavy[:, 0])
    probe = heavy.copy()
    probe[::7] *= 50.0
    for model in (classes, values):
        assert np.allclose(model.export().predict(probe), model.predict(probe), rtol=1e-12)
    runtime = pytest.importorskip("onnxruntime")
    for model, name in ((classes, "label"), (values, "value")):
        service = runtime.InferenceSession(model.export().to_onnx(), providers=["CPUExecutionProvider"])
        (found,) = service.run([name], {"X": probe})
        assert np.allclose(found.reshape(-1), model.predict(probe), rtol=1e-12)


@pytest.mark.parametrize(("name", "size"), [("default", 20), ("default", 50), ("default", 100), ("linear", 50)])
def test_small_time_steps_follow_a_concept_that_flips_every_300_rows(name: str, size: int) -> None:
    wrong = []
    for seed in range(2):
        X = np.random.default_rng(seed).normal(size=(6000, 5))
        y = ((X[:, 0] + 0.5 * X[:, 1] > 0) ^ (np.arange(6000) // 300 % 2 == 1)).astype(int)
        model = (
            DriftSurfClassifier(random_state=seed) if name == "default" else recommended("linear", random_state=seed)
        )
        wrong += [model.observe(X[i : i + size], y[i : i + size]).error for i in range(0, 6000, size)][1:]
    assert np.mean(wrong) < 0.47  # the majority class is wrong for half of the rows
