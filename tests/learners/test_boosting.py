"""The recommended learner, with a stand-in for LightGBM: its size depends on the number of classes."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from driftsurf import DriftSurfClassifier, recommended
from driftsurf.comparison.models import Situation, model
from driftsurf.core.input import Schema
from driftsurf.core.samples import Samples
from driftsurf.errors import MissingExtraError, OptionError, StateError
from driftsurf.estimators import estimator_class
from driftsurf.learners.foreign import BoostedTrees
from driftsurf.learners.foreign.boosting import CategoryColumns
from driftsurf.session.model_names import make_strategy
from driftsurf.session.session import Session
from driftsurf.strategies import DriftSurf


class _Tree(BaseEstimator):  # type: ignore[misc]
    """A single tree with the interface of LightGBM."""

    kind: Any

    def __init__(
        self,
        n_estimators: int = 100,
        num_leaves: int = 31,
        min_child_samples: int = 20,
        random_state: int | None = None,
        n_jobs: int | None = None,
        verbose: int = 1,
        deterministic: bool = False,
        force_col_wise: bool = False,
        histogram_pool_size: float = -1.0,
    ) -> None:
        self.n_estimators = n_estimators
        self.num_leaves = num_leaves
        self.min_child_samples = min_child_samples
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.deterministic = deterministic
        self.force_col_wise = force_col_wise
        self.histogram_pool_size = histogram_pool_size

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, categorical_feature: Any = "auto") -> _Tree:
        self.rows_ = len(y)
        self.shape_, self.categories_ = X.shape, categorical_feature
        self.tree_ = self.kind(max_leaf_nodes=self.num_leaves, random_state=0).fit(X, y, sample_weight)
        return self

    @property
    def booster_(self) -> Any:
        return SimpleNamespace(predict=self._raw)

    def _raw(self, X: Any, num_threads: int) -> Any:
        assert num_threads == 1
        assert isinstance(X, np.ndarray | csr_matrix), "LightGBM warns of others"
        if isinstance(self, RegressorMixin):
            return self.tree_.predict(X)
        shares = self.tree_.predict_proba(X)
        return shares[:, 1] if shares.shape[1] == 2 else shares


class _Classifier(ClassifierMixin, _Tree):  # type: ignore[misc]
    kind = DecisionTreeClassifier

    def predict_proba(self, X: Any) -> Any:
        return pytest.fail("the Booster is asked, not its face")


class _Regressor(RegressorMixin, _Tree):  # type: ignore[misc]
    kind = DecisionTreeRegressor


STAND_IN = SimpleNamespace(LGBMClassifier=_Classifier, LGBMRegressor=_Regressor)


@pytest.fixture(params=["stand-in", "LightGBM"])
def trees(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "stand-in":
        monkeypatch.setitem(sys.modules, "lightgbm", STAND_IN)
    elif find_spec("lightgbm") is None:
        pytest.skip("lightgbm is not installed")


def rows(count: int, classes: int, seed: int = 0) -> tuple[Any, Any]:
    X = np.random.default_rng(seed).normal(size=(count, 3))
    return X, np.digitize(X[:, 0], np.linspace(-1, 1, classes + 1)[1:-1]).astype(float)


@pytest.mark.usefixtures("trees")
@pytest.mark.parametrize(("classes", "trees_", "leaves", "most"), [(2, 50, 31, 10_000), (5, 20, 15, 4_000)])
def test_the_size_depends_on_the_number_of_classes(classes: int, trees_: int, leaves: int, most: int) -> None:
    samples, model = Samples(3), BoostedTrees().fresh(0, 3, classes)
    X, y = rows(12_000, classes)
    new = samples.append(X, y)
    model.update(samples, new, model.budget(new))
    inside = model._fitted.model
    assert (inside.n_estimators, inside.num_leaves) == (trees_, leaves)
    assert model.needs() == 12_000 - most
    assert model.gradients == most
    assert np.exp(model.scores(X)).sum(axis=1) == pytest.approx(1.0)
    assert np.mean(model.scores(X).argmax(axis=1) != y) < 0.1


@pytest.mark.usefixtures("trees")
@pytest.mark.parametrize(("count", "least"), [(40, 5), (300, 6), (1_000, 20), (3_000, 20)])
def test_leaves_grow_with_the_rows_of_a_fit(count: int, least: int) -> None:
    samples, model = Samples(3), BoostedTrees().fresh(0, 3, 2)
    new = samples.append(*rows(count, 2))
    model.update(samples, new, model.budget(new))
    assert model._fitted.model.min_child_samples == least
    again = BoostedTrees.from_state(BoostedTrees(), model.state())
    samples.append(*rows(500, 2))  # rows after the fit do not matter
    again.refit(samples)
    assert again._fitted.model.min_child_samples == least


@pytest.mark.usefixtures("trees")
def test_sparse_rows_are_predicted_like_dense_ones_without_a_warning() -> None:
    scores = []
    for form in (np.asarray, csr_array):
        session = Session(DriftSurf(BoostedTrees()))
        for step in range(3):
            X, y = rows(200, 3, seed=step)
            session.observe(form(X * (np.abs(X) > 0.3)), y)
        scores.append(session.scores(form(X)))
    assert scores[0] == pytest.approx(scores[1])


@pytest.mark.usefixtures("trees")
def test_a_model_that_gains_a_third_class_is_made_smaller() -> None:
    samples, model = Samples(3), BoostedTrees().fresh(0, 3, 2)
    first = samples.append(*rows(300, 2))
    model.update(samples, first, 10_000)
    model.grow(n_classes=3)
    new = samples.append(*rows(300, 3, seed=1))
    model.update(samples, new, 10_000)
    assert model._fitted.model.n_estimators == 20
    assert model.scores(rows(5, 3)[0]).shape == (5, 3)


@pytest.mark.usefixtures("trees")
def test_the_regressor_predicts_numbers() -> None:
    model = BoostedTrees(task="regression", passes=2.0)
    session = Session(DriftSurf(model, seed=0))
    for step in range(8):
        X, _ = rows(100, 2, seed=step)
        error = session.observe(X, 10.0 * X[:, 0]).error
    assert error < 20.0
    assert model.budget(Samples(3).append(*rows(10, 2))) == 20


@pytest.mark.usefixtures("trees")
def test_the_recommended_model_learns_new_classes_and_adapts_to_drift() -> None:
    face = recommended("trees", random_state=0)
    names = np.array(["low", "middle", "high"])
    errors = []
    for step in range(24):
        X, y = rows(80, 3, seed=step)
        codes = y.astype(int) if step < 12 else 2 - y.astype(int)
        codes = np.minimum(codes, 1) if step == 0 else codes
        errors.append(np.mean(face.test_then_train(X, names[codes]) != names[codes]))
    assert list(face.classes_) == sorted(names)
    assert np.mean(errors[8:12]) < 0.2
    assert np.mean(errors[20:]) < 0.2
    assert face.judge == "auto"


def test_missing_lightgbm_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(MissingExtraError, match="pip install lightgbm"):
        recommended("trees")
    with pytest.raises(OptionError, match="'ranking'"):
        BoostedTrees(task="ranking")  # type: ignore[arg-type]


@pytest.mark.usefixtures("trees")
def test_its_name_is_lightgbm() -> None:
    at = Situation(n_classes=2)
    session = model("recommended-trees").make(at)
    face = recommended("trees", random_state=0)
    assert session.strategy.learner.get_params() == face.learner.get_params() == BoostedTrees().get_params()
    assert session.strategy.judge == face.judge
    assert model("driftsurf:lightgbm(passes=3)").make(at).strategy.learner.passes == 3
    for task in ("binary", "multiclass", "regression"):
        run: Any = make_strategy("driftsurf(threshold=0.2):lightgbm", None, task, {"passes": 3})
        assert (run.threshold, run.learner.passes) == (0.2, 3)
        assert run.learner.task == ("regression" if task == "regression" else "classification")


@pytest.mark.usefixtures("trees")
def test_a_model_that_has_gained_a_class_since_its_last_fit_is_the_same_after_loading() -> None:
    def mixed(classes: int, seed: int) -> tuple[Any, Any]:
        """Return rows that need as many leaves as the model has."""
        X, y = rows(300, classes, seed)
        return X, np.where(np.random.default_rng(seed).random(300) < 0.3, y[::-1], y)

    learner = BoostedTrees(passes=0.3)
    model = DriftSurfClassifier(learner, random_state=0)
    for step in range(6):
        model.partial_fit(*mixed(2, step))
    model.partial_fit(*mixed(3, 7))
    strategy: Any = model._session.strategy
    fitted = strategy.predicting._fitted
    assert (fitted.n_classes, fitted.model.n_estimators) == (3, 50), "the model is still that of two classes"
    again = DriftSurfClassifier.from_bytes(model.to_bytes(), learner)
    assert again.to_bytes() == model.to_bytes()
    X, _ = rows(200, 3, seed=8)
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    for one in (model, again):
        one.partial_fit(*mixed(3, 9))
    assert again.to_bytes() == model.to_bytes()


@pytest.mark.skipif(find_spec("lightgbm") is None, reason="LightGBM is not installed")
def test_a_saved_recommendation_is_loaded_without_naming_its_learner() -> None:
    X = np.random.default_rng(0).normal(size=(300, 2))
    model = recommended("trees", random_state=0).partial_fit(X, X[:, 0] > 0)
    again = DriftSurfClassifier.from_bytes(model.to_bytes())
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))


@pytest.mark.skipif(find_spec("lightgbm") is None, reason="needs lightgbm")
def test_the_limit_of_histograms_does_not_change_a_model_of_some_hundred_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from driftsurf.learners.foreign import boosting

    chance, found = np.random.default_rng(0), []
    X = chance.normal(size=(200, 300))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    for limit in (boosting.HISTOGRAMS, -1):  # -1: no limit
        monkeypatch.setattr(boosting, "HISTOGRAMS", limit)
        model = DriftSurfClassifier(BoostedTrees(), random_state=0)
        assert model.learner.estimator.get_params()["histogram_pool_size"] == limit
        found.append(model.partial_fit(X, y).predict_proba(X).tobytes())
    assert found[0] == found[1]


# ---------------------------------------------------------------------------- categories

CITIES = np.array([f"city {place}" for place in range(40)])
SPLIT = CategoryColumns(((1, 4), (5, 7)), 8)


def test_columns_of_a_category_become_one_column_of_codes() -> None:
    X = np.arange(16.0).reshape(2, 8) + 1.0
    X[:, 1:4], X[:, 5:7] = [[0, 0, 1], [1, 0, 0]], [[0, 1], [0, 1]]
    expected = [[1.0, 5.0, 8.0, 2.0, 1.0], [9.0, 13.0, 16.0, 0.0, 1.0]]
    assert SPLIT.coded_rows(X).tolist() == expected
    assert SPLIT.coded_rows(csr_array(X)).tolist() == expected
    wide = CategoryColumns(((1, 4), (5, 7)), 108).coded_rows(csr_array(np.hstack([X, np.eye(2, 100)])))
    assert isinstance(wide, csr_array)
    assert wide.toarray()[:, [0, 1, 2, -2, -1]].tolist() == expected
    assert SPLIT.coded == [3, 4]


def visits(count: int, seed: int) -> tuple[dict[str, Any], Any]:
    """Return a table in which two of three cities, in no order, decide the label."""
    rng = np.random.default_rng(seed)
    place = rng.permutation(count) % 40
    return {"x": rng.normal(size=count), "city": CITIES[place].tolist()}, np.where(place * 7 % 3 > 0, "yes", "no")


@pytest.mark.usefixtures("trees")
@pytest.mark.parametrize("strategy", ["driftsurf", "aue", "sliding-window"])
def test_text_of_a_table_is_a_category_before_and_after_saving(strategy: str) -> None:
    model: Any = estimator_class(strategy, "classification")(BoostedTrees(), random_state=0)
    for step in range(3):
        model.partial_fit(*visits(200, step))
    again = type(model).from_bytes(model.to_bytes())
    later, labels = visits(300, 9)
    later["city"][:3] = ["a new city", None, "another"]
    for one in (model, again):
        template = one._session.strategy.learner
        assert template._categories == ((1, 1 + 2 * 40 + 1),)
        assert template.get_params() == BoostedTrees().get_params()
    assert np.array_equal(again.predict_proba(later), model.predict_proba(later))
    for one in (model, again):
        one.partial_fit(later, labels)
    assert again.to_bytes() == model.to_bytes()
    fitted = model._session.strategy._live.members[0].learner._fitted.model
    if isinstance(fitted, _Tree):
        assert (fitted.shape_[1], fitted.categories_) == (3, [2])


@pytest.mark.skipif(find_spec("lightgbm") is None, reason="LightGBM is not installed")
def test_a_category_is_learned_as_by_lightgbm_itself() -> None:
    import lightgbm
    import pandas as pd

    table, labels = visits(1_000, 0)
    model = recommended("trees", random_state=0, guard=None).partial_fit(table, labels)
    words = pd.CategoricalDtype(sorted(CITIES))
    sizes = {"n_estimators": 50, "num_leaves": 31, "min_child_samples": 20}
    alone = lightgbm.LGBMClassifier(n_jobs=1, verbose=-1, deterministic=True, force_col_wise=True, **sizes)
    alone.fit(pd.DataFrame(table).astype({"city": words}), labels != labels[0])  # classes in order of appearance
    other, truth = visits(500, 1)
    expected = alone.predict_proba(pd.DataFrame(other).astype({"city": words}))
    columns = expected if labels[0] == "no" else expected[:, ::-1]
    assert model.predict_proba(other) == pytest.approx(columns, abs=1e-9)
    assert model.score(other, truth) == 1.0


@pytest.mark.usefixtures("trees")
def test_categories_are_restored_with_a_session_and_a_failure_leaves_its_template() -> None:
    session, again = (
        Session(DriftSurf(BoostedTrees()), categories=lambda: ((0, 2),)),
        Session(DriftSurf(BoostedTrees())),
    )
    session.observe(*rows(50, 2))
    template, state = again.strategy.learner, session.state()
    with pytest.raises(StateError):
        again.restore(state | {"strategy.step": -1})
    assert again.strategy.learner is template
    again.restore(state)
    assert again.schema == session.schema
    for one in (session, again):
        assert one.strategy.learner._categories == ((0, 2),)  # type: ignore[attr-defined]


@pytest.mark.usefixtures("trees")
def test_a_state_without_categories_is_restored_without_those_of_the_session() -> None:
    X, y = rows(50, 2)
    grouped = Session(DriftSurf(BoostedTrees()), categories=lambda: ((0, 2),))
    plain = Session(DriftSurf(BoostedTrees()))
    for one in (grouped, plain):
        one.observe(X, y)
    grouped.restore(plain.state())
    assert grouped.strategy.learner._categories == ()  # type: ignore[attr-defined]
    assert grouped.scores(X).tolist() == plain.scores(X).tolist()


@pytest.mark.parametrize("categories", [[[0, 0]], [[2, 1]], [[0, 4]], [[0, 2], [1, 3]]])
def test_damaged_categories_are_refused(categories: list[list[int]]) -> None:
    state = Schema(3, categories=((0, 1), (1, 3))).state()
    assert Schema.from_state(state, "a model").categories == ((0, 1), (1, 3))
    with pytest.raises(StateError, match="categories"):
        Schema.from_state(state | {"categories": np.array(categories, np.int64)}, "a model")
