"""The scikit-learn estimators: conventions, classes, and how they adapt."""

from __future__ import annotations

import copy
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from estimator_checks import EXPECTED_FAILURES, Batches, stream
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import driftsurf
from driftsurf import AwareClassifier, DriftSurfClassifier, DriftSurfRegressor
from driftsurf.errors import LabelError, StepInProgressError
from driftsurf.learners import LinearSVM, LogisticRegression

NAMES = ["a", "b", "c"]


def fed(batches: Batches, model: DriftSurfClassifier | None = None, **options: Any) -> DriftSurfClassifier:
    model = DriftSurfClassifier(random_state=0, **options) if model is None else model
    for X, y in batches:
        model.partial_fit(X, y)
    return model


# ---------------------------------------------------------------------------- scikit-learn


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [DriftSurfClassifier(), DriftSurfClassifier(batch_size=20), AwareClassifier()],
    expected_failed_checks=lambda _: EXPECTED_FAILURES,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_conventions(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


def test_clone_and_params() -> None:
    model = DriftSurfClassifier(LogisticRegression(l2=0.5), threshold=0.2, random_state=3)
    copied = clone(model)
    assert copied.threshold == 0.2
    assert copied.learner is not model.learner
    assert copied.learner.l2 == 0.5
    assert model.set_params(learner__l2=0.25).learner.l2 == 0.25


def test_the_template_is_never_changed() -> None:
    learner = LogisticRegression()
    before = copy.deepcopy(vars(learner))
    fed(stream(), learner=learner)
    assert vars(learner) == before


def test_works_in_a_pipeline() -> None:
    X, y = (np.concatenate(part) for part in zip(*stream(flip=99), strict=True))
    pipeline = make_pipeline(StandardScaler(), DriftSurfClassifier(random_state=0)).fit(X, y)
    assert pipeline.score(X, y) > 0.95


def test_before_the_first_batch_only_test_then_train_works() -> None:
    X, y = stream(1)[0]
    model = DriftSurfClassifier(random_state=0)
    for method in (model.predict, model.predict_proba, model.decision_function):
        with pytest.raises(NotFittedError):
            method(X)
    assert set(model.test_then_train(X, y)) <= {-1, 1}


def test_flush_before_the_first_batch_and_names_after_a_refit() -> None:
    model = DriftSurfClassifier(random_state=0).flush()
    X, y = stream(1)[0]
    assert model.fit(pd.DataFrame(X, columns=NAMES), y).feature_names_in_.tolist() == NAMES
    assert not hasattr(model.fit(X, y), "feature_names_in_")


@pytest.mark.parametrize("n", [10_001, 10_003, 10_999])
def test_fit_leaves_no_small_remainder(n: int) -> None:
    """A last step of a few rows would be all noise, and could hand the predictions to an untrained model."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = X[:, 0] > 0
    for seed in range(5):
        model = DriftSurfClassifier(random_state=seed).fit(X, y)
        assert min(step.rows for step in model.journal_) >= n // 50
        assert model.score(X, y) > 0.97


def test_fit_forgets_and_learns_in_batches() -> None:
    batches = stream(5, m=500)
    X, y = (np.concatenate(part) for part in zip(*batches, strict=True))
    fresh = DriftSurfClassifier(random_state=0, batch_size=500).fit(X, y)
    used = fed(stream(seed=9)).set_params(batch_size=500).fit(X, y)
    assert used.to_bytes() == fresh.to_bytes()
    assert len(fresh.journal_) == 5


@pytest.mark.parametrize(
    ("count", "steps", "rows"), [(150, 1, 150), (2_550, 25, 102), (10_000, 50, 200), (62_500, 62, 1008)]
)
def test_fit_without_a_batch_size_makes_about_fifty_steps(count: int, steps: int, rows: int) -> None:
    """Of at least 100 and at most 1,000 rows, without a small remainder to mistake for a drift."""
    X = np.random.default_rng(0).normal(size=(count, 2))
    journal = DriftSurfClassifier(random_state=0).fit(X, X[:, 0] > 0).journal_
    assert len(journal) == steps
    assert all(step.rows in (rows, rows + 1) for step in journal)


# ---------------------------------------------------------------------------- classes


def test_an_open_set_of_classes_grows_in_order_of_appearance() -> None:
    model = DriftSurfClassifier(random_state=0)
    X = np.array([[1.0], [2.0]])
    model.partial_fit(X, ["yes", "yes"])
    assert model.classes_.tolist() == ["yes"]
    assert model.predict(X).tolist() == ["yes", "yes"]
    assert model.predict_proba(X).tolist() == [[1.0], [1.0]]
    model.partial_fit(X, ["no", "yes"])
    assert model.classes_.tolist() == ["no", "yes"]
    assert model._session.targets.labels == ("yes", "no")
    model.partial_fit(X, ["no", "maybe"])
    assert model.classes_.tolist() == ["maybe", "no", "yes"]
    binary = DriftSurfClassifier(LinearSVM(), random_state=0).partial_fit(X, ["yes", "no"])
    before = binary.to_bytes()
    with pytest.raises(LabelError, match=r"'maybe'.*'yes', 'no'"):
        binary.partial_fit(X, ["no", "maybe"])
    assert binary.to_bytes() == before


def test_columns_of_probabilities_follow_classes_whatever_appeared_first() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    y = np.where(X[:, 0] > 0, "a", "b")
    for first in ("a", "b"):
        at = int(np.argmax(y == first))
        order = np.r_[at, np.delete(np.arange(len(y)), at)]
        model = DriftSurfClassifier(random_state=0, batch_size=100).partial_fit(X[order], y[order])
        assert model._session.targets.labels[0] == first
        positive = model.predict_proba(X)[:, 1]
        assert np.mean((positive > 0.5) == (y == "b")) > 0.95
        assert np.array_equal(model.decision_function(X) > 0, model.predict(X) == "b")


def test_a_closed_set_of_classes_is_fixed_by_the_first_call() -> None:
    X, y = stream(1)[0]
    model = DriftSurfClassifier(random_state=0).partial_fit(X, np.ones(len(y), int), classes=[-1, 1])
    assert model.classes_.tolist() == [-1, 1]
    assert model.predict_proba(X).shape == (len(y), 2)
    model.partial_fit(X, y, classes=[1, -1])
    with pytest.raises(LabelError, match=r"-1.* 1"):
        model.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(LabelError, match="3"):
        DriftSurfClassifier(LinearSVM()).partial_fit(X, y, classes=[-1, 0, 1])


@pytest.mark.parametrize(
    ("labels", "dtype"), [([0, 1], "i"), ([False, True], "b"), (["no", "yes"], "U"), ([-1.0, 1.0], "f")]
)
def test_labels_keep_their_type(labels: list[Any], dtype: str) -> None:
    X, y = stream(1)[0]
    named = np.array(labels)[(y > 0).astype(int)]
    model = DriftSurfClassifier(random_state=0)
    model.partial_fit(X, named).partial_fit(X, pd.Series(named))
    assert model.predict(X).dtype.kind == dtype
    assert model.classes_.tolist() == labels
    again = DriftSurfClassifier.from_bytes(model.to_bytes())
    assert again.predict(X).tolist() == model.predict(X).tolist()
    assert again.classes_.dtype.kind == dtype


def test_predictions_margins_and_probabilities_agree_at_every_stage() -> None:
    """Before the first step, with one class, with two that appeared against their order; ties as well."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    stages: list[tuple[dict[str, Any], list[list[str]]]] = [
        ({}, [["b"] * 20, ["a", "b"] * 10]),
        ({"batch_size": 30}, [["b"] * 10, ["b"] * 10, ["a", "b"] * 10, ["a"] * 20]),
        ({"learner": LogisticRegression(start="uniform", step_size=1e-6), "batch_size": 10}, [["b"] * 10, ["a"] * 5]),
        ({"learner": LogisticRegression(start="uniform")}, [["b", "a"] * 10]),
    ]
    for options, calls in stages:
        model = DriftSurfClassifier(random_state=0, **options)
        for labels in calls:
            model.partial_fit(X[: len(labels)], labels)
            share, margin, predicted = model.predict_proba(X), model.decision_function(X), model.predict(X)
            assert np.allclose(share.sum(axis=1), 1.0)
            assert share.shape == (40, len(model.classes_))
            assert predicted.tolist() == model.classes_[share.argmax(axis=1)].tolist()
            if len(model.classes_) == 2:
                assert predicted.tolist() == model.classes_[(margin > 0).astype(int)].tolist()


def test_losses_before_the_first_step_are_those_of_the_predictions() -> None:
    X = np.random.default_rng(0).normal(size=(50, 2))
    for first, second in (("a", "b"), ("b", "a")):
        labels = np.array([first, second] * 25)
        seen = DriftSurfClassifier(LogisticRegression(start="uniform"), random_state=0).observe(X, labels)
        right = seen.labels == labels
        assert (seen.log_losses()[right] <= np.log(2)).all()
        assert (seen.log_losses()[~right] >= np.log(2)).all()


def test_a_method_of_river_is_answered_with_the_wrapper() -> None:
    for model, wrapper in ((DriftSurfClassifier(), "OnlineClassifier"), (DriftSurfRegressor(), "OnlineRegressor")):
        loose: Any = model
        with pytest.raises(AttributeError, match=rf"learn_one.*driftsurf\.estimators\.river\.{wrapper}"):
            loose.learn_one({"x": 1.0}, 1)
        assert not hasattr(model, "predict_one")
        with pytest.raises(AttributeError, match="before it is fitted"):
            _ = model.n_features_in_
        with pytest.raises(AttributeError, match="no attribute 'learn'"):
            loose.learn()


@pytest.mark.filterwarnings("ignore::driftsurf.errors.SmallBatchWarning")
@pytest.mark.parametrize("batch_size", [None, 12])
def test_threads_that_learn_take_turns_and_number_their_rows(batch_size: int | None) -> None:
    X, y = np.array([[0.0], [1.0], [2.0]]), [0, 1, 1]
    model = DriftSurfClassifier(batch_size=batch_size, random_state=0)
    errors = list[BaseException]()

    def work() -> None:
        try:
            for turn in range(300):
                model.test_then_train(X, y)
                if turn % 10 == 0:
                    model.journal_.predictions.table()
        except BaseException as error:  # told in the main thread
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert errors == []
    assert model.journal_.predictions.table()["row"].tolist() == list(range(4 * 300 * 3))


# ---------------------------------------------------------------------------- behaviour


def test_it_adapts_to_a_drift_that_an_old_model_would_miss() -> None:
    model = DriftSurfClassifier(random_state=0)
    errors = [float(np.mean(model.test_then_train(X, y) != y)) for X, y in stream(30, m=300, flip=15)]
    assert np.mean(errors[5:15]) < 0.06
    assert errors[15] > 0.9
    assert np.mean(errors[18:]) < 0.1
    assert "switched" in {t.kind for t in model.journal_.transitions}
    assert "began to test a new model" in model.journal_.explain()


def test_unscaled_columns_are_learned_without_tuning() -> None:
    rng = np.random.default_rng(0)
    model = DriftSurfClassifier(random_state=0)
    for _ in range(60):
        X = rng.normal(size=(200, 3)) * [1.0, 1000.0, 0.01]
        model.partial_fit(X, X[:, 1] > 0)
    assert model.score(X, X[:, 1] > 0) > 0.95


def test_memory_is_bounded_by_default() -> None:
    model = DriftSurfClassifier(random_state=0, max_rows=2000)
    sizes = [fed(stream(20, seed=k, flip=99), model).nbytes_ for k in range(12)]
    assert max(sizes[4:]) <= sizes[3] * 1.01


def test_weights_matter() -> None:
    """Rows of weight zero beside rows of weight one: the model follows the latter."""
    rng = np.random.default_rng(0)
    model = DriftSurfClassifier(random_state=0)
    for _ in range(20):
        X = rng.normal(size=(200, 2))
        truth = X[:, 0] > 0
        lies = np.arange(200) % 2 == 0
        model.partial_fit(X, truth ^ lies, sample_weight=np.where(lies, 0.0, 1.0))
    assert model.score(X, truth) > 0.95


def test_paper_is_the_papers_model() -> None:
    model = driftsurf.paper(1e-3, 1e-2, random_state=0, variant="authors", steps_per_row=4.0)
    assert model.max_rows is None
    assert model.guard is None
    assert model.variant == "authors"
    assert isinstance(model.learner, LogisticRegression)
    assert model.learner.steps_per_row == 4.0
    X, y = stream(1)[0]
    with pytest.warns(FutureWarning, match="driftsurf-authors") as found:
        model.test_then_train(X, y)
    assert [one.filename for one in found] == [__file__]
    assert model.classes_.tolist() == [-1, 1]
    weights = model._session.strategy._live.predictive.learner  # type: ignore[attr-defined]
    assert weights.intercept != 0.0


def test_a_model_is_not_exported_in_the_middle_of_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).normal(size=(40, 2))
    model = DriftSurfClassifier(random_state=0).partial_fit(X, X[:, 0] > 0.0)
    strategy: Any = model._session.strategy
    monkeypatch.setattr(strategy, "observe", lambda *_, **__: model.export(), raising=False)
    with pytest.raises(StepInProgressError):  # a step of the session, ...
        model.partial_fit(X, X[:, 0] > 0.0, sample_weight=np.ones(40))
    monkeypatch.setattr(strategy._cell, "newest", lambda *_: model.export())
    with pytest.raises(StepInProgressError):  # ... and one of the native core
        model.partial_fit(1e6 * X, X[:, 0] > 0.0)
    assert model.export().coef.shape == (1, 2)
