"""Models of scikit-learn, river and PyTorch as learners: the contract, undo, budgets, weights, risks."""

from __future__ import annotations

import copy
import sys
from typing import Any

import numpy as np
import pytest
from foreign_models import LEARNERS, LOG, river_model, rows, torch_learner, trained
from scipy.sparse import csr_matrix
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import Perceptron, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from driftsurf import DriftSurfClassifier, DriftSurfRegressor
from driftsurf.core.contracts import Segment
from driftsurf.core.samples import Samples
from driftsurf.errors import CapabilityError, OptionError, ShapeError
from driftsurf.learners import LogisticRegression
from driftsurf.learners.foreign import RiverLearner, SklearnLearner, TorchLearner, as_learner
from driftsurf.learners.foreign._base import array_bytes
from driftsurf.strategies import Aware, DriftSurf, OnePass

learners = pytest.mark.parametrize("name", list(LEARNERS))


@learners
def test_it_learns_and_its_scores_have_the_required_shape(name: str) -> None:
    make, k = LEARNERS[name]
    template = make()
    fresh = template.fresh(1, 3, k)
    model, samples = trained(template, k)
    X, y = rows(300, k, seed=8)
    scores, batch = model.scores(X), samples.view(Segment(samples.first_row, samples.next_row))
    assert scores.shape == ((300,) if k == 0 else (300, k))
    assert np.isfinite(scores).all()
    assert scores.dtype == np.float64
    if k:
        assert np.exp(scores).sum(axis=1) == pytest.approx(np.ones(300), abs=1e-5)
        assert np.exp(fresh.scores(X)) == pytest.approx(np.full((300, k), 1 / k))
        assert np.mean(scores.argmax(axis=1) == y) > 0.7
    else:
        assert (fresh.scores(X) == 0.0).all()
        assert np.mean((scores - y) ** 2) < 0.5 * y.var()
    losses, untrained = (one.row_losses(one.scores(batch.X), batch.y) for one in (model, fresh))
    assert losses.shape == batch.y.shape
    assert losses.mean() < untrained.mean()
    assert (model.penalty(), fresh.needs()) == (0.0, None)
    assert model.gradients > 0


@learners
def test_an_update_can_be_undone_and_repeated_and_a_scorer_is_frozen(name: str) -> None:
    make, k = LEARNERS[name]
    model, samples = trained(make(), k)
    X, y = rows(200, k, seed=3)
    before, scorer, spent, needed = model.scores(X), model.scorer(), model.gradients, model.needs()
    new = samples.append(X, y)
    undo = model.update(samples, new, model.budget(new))
    after = model.scores(X)
    assert not np.array_equal(after, before)
    assert np.array_equal(scorer(X), before)
    undo()
    assert np.array_equal(model.scores(X), before)
    assert (model.gradients, model.needs()) == (spent, needed)
    model.update(samples, new, model.budget(new))
    assert np.array_equal(model.scores(X), after)
    undo = model.forget(samples, 100)
    assert model._fitted.lo >= 100  # the rows of the last fit are kept to save it
    undo()
    assert np.array_equal(model.scores(X), after)


@learners
def test_the_seed_decides_and_the_template_is_never_changed(name: str) -> None:
    make, k = LEARNERS[name]
    template = make()
    inner = getattr(template, "estimator", None)
    before = None if inner is None else copy.deepcopy(inner.__dict__)
    first, second = (trained(template, k)[0].scores(rows(50, k)[0]) for _ in range(2))
    assert np.array_equal(first, second)
    if inner is not None:
        assert inner.__dict__.keys() == before.keys()  # type: ignore[union-attr]
    with pytest.raises(CapabilityError, match=r"binary|regression"):
        template.fresh(0, 3, 0 if k else 2)


def test_without_rows_or_budget_nothing_is_learned() -> None:
    for make, k in LEARNERS.values():
        try:
            template = make()
        except pytest.skip.Exception:
            continue
        model, samples = template.fresh(0, 3, k), Samples(3)
        model.update(samples, Segment(0, 0), 10)
        assert np.ptp(model.scores(rows(5, k)[0])) == 0.0


# ---------------------------------------------------------------------------- scikit-learn


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("estimator", [SGDClassifier(**LOG), DecisionTreeClassifier(max_depth=4)])
def test_an_adapted_model_predicts_like_the_original(estimator: Any, kind: str) -> None:
    """Without drift it predicts what the same estimator predicts when trained by hand."""
    model = DriftSurfClassifier(estimator, threshold=np.inf, guard=None, random_state=0)
    kept: Any = csr_matrix if kind == "csr" else np.asarray
    bare: Any = None
    seen_X, seen_y = np.zeros((0, 3)), np.zeros(0)
    for step in range(4):
        X, y = rows(100, 2, seed=step)
        model.partial_fit(kept(X), y)
        seen_X, seen_y = np.vstack([seen_X, X]), np.append(seen_y, y)
        if bare is None:
            learner = model._session.strategy._live.predictive.learner  # type: ignore[attr-defined]
            bare = learner._new(learner._fitted)
        if hasattr(bare, "partial_fit"):
            bare.partial_fit(kept(X), y.astype(int), classes=[0, 1])
        else:
            bare.fit(kept(seen_X), seen_y)
    X, _ = rows(50, 2, seed=77)
    assert model.predict_proba(kept(X)) == pytest.approx(bare.predict_proba(kept(X)), abs=1e-12)


def test_partial_fit_keeps_no_rows_and_a_refit_keeps_a_bounded_number() -> None:
    model, _ = trained(SklearnLearner(SGDClassifier(**LOG)), 2)
    assert model.needs() == 400
    model, _ = trained(SklearnLearner(DecisionTreeClassifier(), rows=150), 2)
    assert model.needs() == 250
    assert model.gradients == 100 + 150 * 3
    assert model.nbytes == array_bytes(model._fitted.model)


def test_passes_repeat_the_batch_and_a_partial_pass_takes_its_last_rows() -> None:
    X, y = rows(10, 2)
    samples = Samples(3)
    new = samples.append(X, y)
    template = SklearnLearner(SGDClassifier(**LOG), passes=2.5)
    assert template.budget(new) == 25
    model = template.fresh(3, 3, 2)
    model.update(samples, new, 25)
    bare = model._new(model._fitted)
    for part in (slice(None), slice(None), slice(5, None)):
        bare.partial_fit(X[part], y[part].astype(int), classes=[0, 1])
    assert np.exp(model.scores(X)) == pytest.approx(bare.predict_proba(X))
    assert model.gradients == 25


def test_a_refit_waits_until_its_budget_is_saved_up() -> None:
    template = SklearnLearner(DecisionTreeClassifier(), passes=2.0)
    samples, model = Samples(3), template.fresh(0, 3, 2)
    fits = []
    for step in range(12):
        new = samples.append(*rows(100, 2, seed=step))
        before = model.gradients
        model.update(samples, new, model.budget(new))
        fits.append(model.gradients - before)
    # 200 visits a batch: the first fit is due at once, then whenever what was saved covers all rows.
    assert fits == [100, 200, 300, 0, 0, 600, 0, 0, 0, 0, 0, 1200]


def test_rows_of_one_class_need_no_model_and_missing_classes_get_no_probability() -> None:
    X, y = rows(100, 3)
    samples, model = Samples(3), SklearnLearner(RandomForestClassifier(5)).fresh(0, 3, 3)
    model.update(samples, samples.append(X, np.full(100, 2.0)), 1000)
    assert (np.exp(model.scores(X)).round(6) == [0.0, 0.0, 1.0]).all()
    model.update(samples, samples.append(X, np.where(y == 1, 2.0, y)), 1000)
    assert np.exp(model.scores(X))[:, 1].max() < 1e-9
    undo = model.grow(n_classes=4)
    assert model.scores(X).shape == (100, 4)
    undo()
    assert model.scores(X).shape == (100, 3)


def test_a_model_that_keeps_rows_gets_a_copy() -> None:
    samples, model = Samples(3), SklearnLearner(KNeighborsClassifier(1)).fresh(0, 3, 2)
    X, y = rows(100, 2)
    model.update(samples, samples.append(X, y), 1000)
    before = model.scores(X)
    samples.release(100)
    samples.append(-X, y)  # the store reuses the memory
    samples.append(-X, y)
    assert np.array_equal(model.scores(X), before)


def test_partial_fit_gets_all_classes_in_advance_and_cannot_grow() -> None:
    X, y = rows(100, 3)
    samples, model = Samples(3), SklearnLearner(SGDClassifier(**LOG)).fresh(0, 3, 2)
    model.grow(n_classes=3)  # nothing was learned yet
    model.update(samples, samples.append(X, y), 100)
    with pytest.raises(CapabilityError, match="grows_classes"):
        model.grow(n_classes=4)
    late = DriftSurfClassifier(SGDClassifier(**LOG), random_state=0).partial_fit(X[y < 2], y[y < 2])
    with pytest.raises(CapabilityError, match=r"classes=\[...\]"):
        late.partial_fit(X, y)
    closed = DriftSurfClassifier(SGDClassifier(**LOG), classes=[0, 1, 2], random_state=0)
    assert closed.partial_fit(X[y < 2], y[y < 2]).partial_fit(X, y).predict_proba(X).shape == (100, 3)


@pytest.mark.parametrize("estimator", [SGDClassifier(**LOG), DecisionTreeClassifier(), GaussianNB()])
def test_weights_reach_the_model(estimator: Any) -> None:
    X, y = rows(400, 2)
    wrong = np.where(np.arange(400) % 2 == 0, 1 - y, y)
    for inside in (estimator, make_pipeline(StandardScaler(), estimator)):
        model = DriftSurfClassifier(inside, random_state=0, guard=None)
        for _ in range(3):
            model.partial_fit(X, wrong, sample_weight=np.tile([0.0, 1.0], 200))
        assert model.score(X, y) > 0.85


def test_a_model_without_weights_leaves_out_rows_of_little_weight() -> None:
    X, y = rows(100, 2)
    model = DriftSurfClassifier(KNeighborsClassifier(), random_state=0)
    with pytest.raises(CapabilityError, match="'weights'"):
        model.partial_fit(X, y, sample_weight=np.ones(100))
    X[0] = 1e9  # the guard gives it almost no weight
    inside = model.partial_fit(X, y)._session.strategy._live.predictive.learner  # type: ignore[attr-defined]
    assert inside._fitted.model.n_samples_fit_ == 99


def test_a_model_that_does_not_support_sparse_rows_gets_none() -> None:
    X, y = rows(100, 2)
    model = DriftSurfClassifier(GaussianNB(), random_state=0)
    with pytest.raises(CapabilityError, match="'sparse'"):
        model.partial_fit(csr_matrix(X), y)
    assert model.partial_fit(X, y).score(csr_matrix(X), y) > 0.8  # a model of dense rows accepts sparse ones


@pytest.mark.parametrize(
    ("risk", "k"), [("auto", 2), ("log", 2), ("zero-one", 2), ("auto", 0), ("squared", 0), ("absolute", 0)]
)
def test_risks_have_their_definition(risk: Any, k: int) -> None:
    estimator = DecisionTreeClassifier(max_depth=2) if k else DecisionTreeRegressor(max_depth=2)
    model, _ = trained(SklearnLearner(estimator, risk=risk), k)
    X, y = rows(50, k, seed=4)
    scores = model.scores(X)
    measures: dict[str, Any] = {
        "log": lambda: -np.log(np.maximum(np.exp(scores)[np.arange(50), y.astype(int)], 0.01)),
        "zero-one": lambda: (scores.argmax(axis=1) != y) * 1.0,
        "squared": lambda: (scores - y) ** 2,
        "absolute": lambda: np.abs(scores - y),
    }
    name = risk if risk != "auto" else "log" if k else "squared"
    assert model.row_losses(scores, y) == pytest.approx(measures[name]())


def test_without_probabilities_the_risk_is_the_share_of_wrong_rows() -> None:
    model, _ = trained(SklearnLearner(Perceptron()), 3)
    X, y = rows(50, 3, seed=4)
    assert set(model.row_losses(model.scores(X), y).tolist()) <= {0.0, 1.0}
    assert not model.capabilities.probabilities


def test_a_user_defined_function_can_be_the_risk() -> None:
    def brier(y: Any, shares: Any) -> Any:
        return np.square(shares - np.eye(3)[y.astype(int)]).sum(axis=1)

    model, _ = trained(SklearnLearner(DecisionTreeClassifier(max_depth=3), risk=brier), 3)
    X, y = rows(50, 3, seed=4)
    assert model.row_losses(model.scores(X), y) == pytest.approx(brier(y, np.exp(model.scores(X))))
    bad, _ = trained(SklearnLearner(DecisionTreeClassifier(), risk=lambda y, p: 0.0), 3)
    with pytest.raises(ShapeError, match="50 rows"):
        bad.row_losses(bad.scores(X), y)


@pytest.mark.parametrize(
    ("learner", "words"),
    [
        (SklearnLearner(DecisionTreeClassifier, mode="refit"), "DecisionTreeClassifier"),
        (SklearnLearner(DecisionTreeClassifier(), mode="twice"), "'twice'"),  # type: ignore[arg-type]
        (SklearnLearner(DecisionTreeClassifier(), mode="partial_fit"), "partial_fit"),
        (SklearnLearner(DecisionTreeClassifier(), rows=0), "rows"),
        (SklearnLearner(DecisionTreeClassifier(), passes=0), "passes"),
        (SklearnLearner(DecisionTreeClassifier(), risk="squared"), "'squared'"),
        (SklearnLearner(DecisionTreeRegressor(), risk="log"), "'log'"),
    ],
)
def test_invalid_options_are_refused(learner: Any, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        learner.fresh(0, 3, 2)


def test_log_loss_needs_probabilities() -> None:
    with pytest.raises(CapabilityError, match="'probabilities'"):
        SklearnLearner(LinearSVC(), risk="log").fresh(0, 3, 2)


def test_one_pass_needs_the_capability() -> None:
    with pytest.raises(CapabilityError, match="one_pass"):
        OnePass(SklearnLearner(SGDClassifier())).check()


# ---------------------------------------------------------------------------- estimators


def test_foreign_models_are_wrapped_in_one_line() -> None:
    own = LogisticRegression()
    assert as_learner(own) is own
    assert isinstance(as_learner(SGDClassifier()), SklearnLearner)
    for wrong in (SGDClassifier, 3, "tree", LogisticRegression):
        with pytest.raises(OptionError, match="learner"):
            as_learner(wrong)
    with pytest.raises(OptionError, match=r"'logistic'\?.* LogisticRegression\(\)"):
        as_learner("logistik")
    X, y = rows(300, 2)
    model = DriftSurfClassifier(SGDClassifier(**LOG), random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.set_params(learner__alpha=0.5).learner.alpha == 0.5
    with pytest.raises(CapabilityError, match="trust_pickle=True"):
        model.to_bytes()


def test_river_models_are_wrapped_in_one_line() -> None:
    X, y = rows(600, 2)
    model = DriftSurfClassifier(river_model("logistic"), random_state=0)
    for part in np.array_split(np.arange(600), 6):
        model.partial_fit(X[part], y[part])
    assert model.score(X, y) > 0.9
    assert DriftSurfRegressor(river_model("linear"), random_state=0).fit(*rows(600, 0)).predict(X).shape == (600,)


def test_a_foreign_model_adapts() -> None:
    X, y = rows(4000, 2)
    y[2000:] = 1 - y[2000:]
    for learner in (SGDClassifier(**LOG), DecisionTreeClassifier(max_depth=5)):
        model = DriftSurfClassifier(learner, random_state=0)
        errors = [
            np.mean(model.test_then_train(X[part], y[part]) != y[part]) for part in np.array_split(np.arange(4000), 40)
        ]
        assert errors[20] > 0.7
        assert np.mean(errors[30:]) < 0.2


def test_aware_accepts_foreign_models() -> None:
    strategy = Aware(SklearnLearner(DecisionTreeClassifier()), [2])
    strategy.check()
    DriftSurf(SklearnLearner(DecisionTreeRegressor())).check()


# ---------------------------------------------------------------------------- river and PyTorch


def test_river_rows_may_be_sparse_and_weighted() -> None:
    X, y = rows(400, 2)
    X[np.abs(X) < 0.3] = 0.0
    wrong = np.where(np.arange(400) % 2 == 0, 1 - y, y)
    model = DriftSurfClassifier(river_model("tree"), random_state=0, guard=None)
    for _ in range(2):
        model.partial_fit(csr_matrix(X), wrong, sample_weight=np.tile([0.0, 1.0], 200))
    assert model.score(csr_matrix(X), y) > 0.8


def test_a_random_river_model_gets_the_seed() -> None:
    model, _ = trained(RiverLearner(river_model("forest")), 2)
    other = RiverLearner(river_model("forest")).fresh(2, 3, 2)
    assert model._fitted.model.seed != other._new(2).seed


def test_unsupported_river_models_are_refused() -> None:
    with pytest.raises(OptionError, match="StandardScaler"):
        RiverLearner(river_model("scaler")).fresh(0, 3, 2)
    with pytest.raises(OptionError, match="learn_many"):
        RiverLearner(river_model("tree"), mode="many").fresh(0, 3, 2)
    with pytest.raises(CapabilityError, match=r"binary|regression"):
        RiverLearner(river_model("logistic")).fresh(0, 3, 3)


def test_torch_options_are_checked() -> None:
    good = torch_learner()
    torch: Any = sys.modules["torch"]
    with pytest.raises(OptionError, match="Linear"):
        TorchLearner(torch.nn.Linear(3, 2)).fresh(0, 3, 2)
    model = TorchLearner(good.module, loss=torch.nn.functional.cross_entropy).fresh(0, 3, 2)
    samples = Samples(3)
    with pytest.raises(OptionError, match="reduction='none'"):
        model.update(samples, samples.append(*rows(50, 2)), 50)
    with pytest.raises(CapabilityError, match="'sparse'"):
        DriftSurfClassifier(good).partial_fit(csr_matrix(np.eye(3)), [0, 1, 0])


@pytest.mark.parametrize(
    ("module", "learner", "command"),
    [
        ("river", RiverLearner(object()), "driftsurf[river]"),
        ("torch", TorchLearner(lambda columns, outputs: None), "driftsurf[torch]"),
    ],
)
def test_a_missing_extra_is_named_with_its_command(
    module: str, learner: Any, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match="driftsurf") as error:
        learner.fresh(0, 3, 2)
    assert command in str(error.value)


@pytest.mark.parametrize("package", ["lightgbm", "xgboost"])
@pytest.mark.filterwarnings("ignore")
def test_gradient_boosting_libraries_are_adapted(package: str) -> None:
    boosting = pytest.importorskip(package, reason=f"{package} is not installed")
    if package == "lightgbm":
        classifier: Any = boosting.LGBMClassifier(n_estimators=10, verbose=-1, n_jobs=1)
        regressor: Any = boosting.LGBMRegressor(n_estimators=10, verbose=-1, n_jobs=1)
    else:
        classifier = boosting.XGBClassifier(n_estimators=10, n_jobs=1)
        regressor = boosting.XGBRegressor(n_estimators=10, n_jobs=1)
    X, y = rows(600, 3)
    model = DriftSurfClassifier(classifier, random_state=0)
    for part in np.array_split(np.arange(600), 3):
        model.partial_fit(X[part], y[part])
    assert model.score(X, y) > 0.8
    X, y = rows(600, 0)
    assert DriftSurfRegressor(regressor, random_state=0).fit(X, y).score(X, y) > 0.5
