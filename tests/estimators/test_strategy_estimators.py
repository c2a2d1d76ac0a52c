"""The estimators of all strategies: scikit-learn's checks, pipelines, tuning, saved state, detectors."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from estimator_checks import EXPECTED_FAILURES, stream
from sklearn.base import clone
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from driftsurf import estimators, registry, strategies
from driftsurf.core.state import from_bytes, to_bytes
from driftsurf.detectors import ADWIN, DDM, MDDM
from driftsurf.detectors.river import RiverDetector, as_detector
from driftsurf.errors import CapabilityError, OptionError, StateError
from driftsurf.estimators import (
    AUEClassifier,
    AwareRegressor,
    CandorClassifier,
    DWMClassifier,
    ObliviousClassifier,
    OnePassClassifier,
    PERMClassifier,
    ResetOnDriftClassifier,
    SlidingWindowClassifier,
    SlidingWindowRegressor,
    estimator_class,
)
from driftsurf.learners import LinearRegression, LogisticRegression, SoftmaxRegression

ESTIMATORS: dict[str, Any] = {
    kind.__name__: kind
    for entry in registry.entries("strategy")
    for task, tasks in (("classification", registry.CLASSIFICATION), ("regression", registry.REGRESSION))
    if entry.tasks & tasks and entry.name != "driftsurf"
    for kind in [estimator_class(entry.name, task)]  # type: ignore[call-overload]
}
CLASSIFIERS = {name for name in ESTIMATORS if name.endswith("Classifier")}
QUICK: dict[str, dict[str, Any]] = {
    "PERMClassifier": {"permutations": 19, "significance": 0.05},
    "PERMRegressor": {"permutations": 19, "significance": 0.05},
}
"""Options that make a test fast."""
VOTING = {"CandorClassifier"}


def made(name: str, **options: Any) -> Any:
    return ESTIMATORS[name](**(QUICK.get(name, {}) | options))


def targets(name: str, y: Any) -> Any:
    return y if name in CLASSIFIERS else y.astype(np.float64)


def test_the_tasks_of_a_strategy_decide_which_estimators_it_has() -> None:
    for entry in registry.entries("strategy"):
        for suffix, learner in (("Classifier", SoftmaxRegression()), ("Regressor", LinearRegression())):
            options = {"detector": DDM()} if "detector" in entry.needs else {}
            template = LogisticRegression() if "anchor" in entry.needs and suffix == "Classifier" else learner
            known = f"{entry.part.__name__}{suffix}" in estimators.__all__
            try:
                entry.make(template, **options).check()
            except CapabilityError:
                assert not known
            else:
                assert known


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_parameters_are_the_options_of_the_strategy(name: str) -> None:
    own = set(inspect.signature(ESTIMATORS[name]).parameters)
    strategy = set(inspect.signature(ESTIMATORS[name]._strategy_class).parameters)
    common = {"batch_size", "guard", "random_state"} | ({"classes"} if name in CLASSIFIERS else set())
    assert own == (strategy - {"seed"}) | common


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [*(made(name) for name in ESTIMATORS), ObliviousClassifier(DecisionTreeClassifier())],
    # A vote of two labels does not show the small differences that probabilities do, and a tree has none.
    expected_failed_checks=lambda estimator: (
        {} if type(estimator).__name__ in VOTING or estimator.learner is not None else EXPECTED_FAILURES
    ),
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_conventions(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_saved_model_resumes_exactly(name: str) -> None:
    batches = stream(8, 60, flip=4)
    model = made(name, random_state=0)
    for X, y in batches[:5]:
        model.partial_fit(X, targets(name, y))
    again = ESTIMATORS[name].from_bytes(model.to_bytes())
    copied = pickle.loads(pickle.dumps(model))
    for X, y in batches[5:]:
        first, second, third = (m.test_then_train(X, targets(name, y)) for m in (model, again, copied))
        assert np.array_equal(first, second)
        assert np.array_equal(first, third)
    assert model.to_bytes() == again.to_bytes()


@pytest.mark.parametrize("name", ESTIMATORS)
def test_it_works_in_a_pipeline_and_its_learner_is_tuned_over_time(name: str) -> None:
    X, y = (np.concatenate(part) for part in zip(*stream(6, 50, flip=99), strict=True))
    learner = (LogisticRegression if name in CLASSIFIERS else LinearRegression)(start="uniform")
    search = GridSearchCV(
        make_pipeline(StandardScaler(), made(name, learner=learner, random_state=0)),
        {f"{name.lower()}__learner__step_size": [1e-12, 0.1]},
        cv=TimeSeriesSplit(2),
    ).fit(X, targets(name, y))
    # The other experts of a portfolio make up for a learner that does not learn.
    chosen = [0.1] if not name.startswith("Portfolio") else [1e-12, 0.1]
    assert search.best_params_ in [{f"{name.lower()}__learner__step_size": size} for size in chosen]
    assert search.best_estimator_.predict(X).shape == y.shape


def test_parameters_are_cloned_and_set_by_name() -> None:
    model = AUEClassifier(SoftmaxRegression(l2=0.5), experts=3, batch_size=20)
    copied = clone(model)
    assert repr(copied) == repr(model)
    assert copied.get_params()["learner__l2"] == 0.5
    assert model.set_params(learner__l2=0.1, experts=7).learner.l2 == 0.1
    assert (model.experts, copied.experts) == (7, 3)
    assert "classes" not in SlidingWindowRegressor().get_params()
    with pytest.raises(TypeError, match="window"):
        AUEClassifier(window=3)  # type: ignore[call-arg]


def test_the_strategy_gets_the_options() -> None:
    X, y = stream(1)[0]
    model = SlidingWindowClassifier(window=30, max_rows=40, dtype="float32", random_state=5).partial_fit(X, y)
    strategy: Any = model._session.strategy
    assert (strategy.window, strategy.max_rows, strategy.dtype, strategy.seed) == (30, 40, "float32", 5)


@pytest.mark.parametrize(
    ("model", "named"),
    [
        (CandorClassifier(SoftmaxRegression()), "anchor"),
        (OnePassClassifier(SGDClassifier()), "one.pass"),
        (DWMClassifier(LinearRegression()), "regression"),
        (AwareRegressor(LogisticRegression()), "regression"),
        (PERMClassifier(permutations=3), "permutations"),
        (AUEClassifier(experts=0), "experts"),
    ],
)
def test_an_unusable_learner_or_option_is_refused_by_name(model: Any, named: str) -> None:
    X, y = stream(1)[0]
    with pytest.raises((CapabilityError, OptionError), match=named):
        model.partial_fit(X, y)


def test_any_learner_can_be_used() -> None:
    model = ObliviousClassifier(SGDClassifier(loss="log_loss"), random_state=0)
    for X, y in stream(6, flip=99):
        model.partial_fit(X, y)
    assert (model.predict(X) == y).mean() > 0.9


# ---------------------------------------------------------------------------- detectors


@pytest.mark.parametrize("detector", [None, DDM(), ADWIN(increase_only=True), "river"])
def test_a_detector_of_driftsurf_or_river_resets_the_model(detector: Any) -> None:
    if detector == "river":
        detector = pytest.importorskip("river.drift").binary.DDM()
    model = ResetOnDriftClassifier(detector=detector, random_state=0)
    for X, y in stream():
        model.partial_fit(X, y)
    resets = [transition.step for transition in model.journal_.transitions]
    assert resets
    assert all(12 <= step <= 14 for step in resets)


def test_the_detector_is_saved_with_the_model_and_its_options_are_parameters() -> None:
    model = ResetOnDriftClassifier(detector=MDDM(window=50), random_state=0)
    for X, y in stream(4):
        model.partial_fit(X, y)
    model.set_params(detector__window=70)  # takes effect with the next fit
    again = ResetOnDriftClassifier.from_bytes(model.to_bytes())
    assert again.detector.window == 50
    assert again.set_params(detector__window=60).detector.window == 60
    with pytest.raises(OptionError, match="'widow'"):
        again.detector.set_params(widow=3)


def test_a_detector_in_saved_bytes_must_be_registered() -> None:
    X, y = stream(1)[0]
    state = from_bytes(ResetOnDriftClassifier(detector=DDM(), random_state=0).partial_fit(X, y).to_bytes())
    state["params"] = str(state["params"]).replace('"DDM"', '"BDDM"')
    with pytest.raises(StateError, match="'BDDM'"):
        ResetOnDriftClassifier.from_bytes(to_bytes(state))


def test_a_river_detector_meets_the_contract() -> None:
    drift = pytest.importorskip("river.drift")
    detector: Any = as_detector(drift.binary.DDM())
    assert as_detector(detector) is detector
    detector.check()
    assert (detector.drift, detector.warning) == (False, False)
    detector.reset()
    errors = np.r_[np.zeros(50), np.nan, np.inf, np.ones(300)]
    taken = detector.update(errors).consumed
    assert (detector.drift, detector.warning) == (True, False)
    assert 52 < taken < 100
    assert detector.update([0.0, 0.0]) == (2, False)  # resets itself after a signal
    assert not detector.drift
    detector.reset()
    assert detector.update(errors) == (taken, True)
    assert detector.fresh().update(errors) == (taken, True)
    for call in (detector.state, lambda: detector.restore({}), lambda: type(detector).from_state(detector, {})):
        with pytest.raises(CapabilityError):
            call()


def test_a_model_with_a_river_detector_is_pickled_but_not_saved_as_bytes() -> None:
    drift = pytest.importorskip("river.drift")
    X, y = stream(1)[0]
    model = ResetOnDriftClassifier(detector=drift.ADWIN(), random_state=0).partial_fit(X, y)
    with pytest.raises((CapabilityError, StateError)):
        model.to_bytes()
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


@pytest.mark.parametrize("wrong", [DDM, 3, None])
def test_an_object_that_is_not_a_detector_is_refused(wrong: Any) -> None:
    with pytest.raises(OptionError):
        as_detector(wrong)
    with pytest.raises(OptionError):
        RiverDetector(wrong).check()


# ---------------------------------------------------------------------------- strategies of other packages


class NewestRows(strategies.SlidingWindow):
    """A strategy that is not registered."""


def test_a_strategy_that_is_not_registered_gets_an_estimator_class() -> None:
    X, y = stream(1)[0]
    kind: Any = estimator_class(NewestRows)
    assert kind is estimator_class(NewestRows)
    assert kind.__name__ == "NewestRowsClassifier"
    model = kind(window=30, random_state=0).partial_fit(X, y)
    assert model.predict(X).shape == y.shape
    assert clone(model).get_params() == model.get_params()
    assert kind.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()
    assert "NewestRows" in (kind.__doc__ or "")
    with pytest.raises(TypeError, match="widow"):
        kind(widow=30)


def test_a_registered_strategy_is_an_attribute_of_the_package(register: Any) -> None:
    register("strategy", "newest-rows", tasks=registry.CLASSIFICATION)(NewestRows)
    package: Any = estimators
    assert package.NewestRowsClassifier is estimator_class("newest-rows")
    X, y = stream(1)[0]
    model = package.NewestRowsClassifier(random_state=0).partial_fit(X, y)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    with pytest.raises(CapabilityError, match=r"'newest-rows'.*regression"):
        estimator_class("newest-rows", "regression")
    with pytest.raises(AttributeError, match="NewestRowsRegressor"):
        _ = package.NewestRowsRegressor
    with pytest.raises(OptionError, match="'clustering'"):
        estimator_class("newest-rows", "clustering")  # type: ignore[call-overload]
    with pytest.raises(OptionError, match="'driftsurff'"):
        estimator_class("driftsurff")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: estimators.recommended(half_lif=3.0),
            r"recommended\(\) got .* 'half_lif'; did you mean 'half_life'\? ",
        ),
        (
            lambda: estimators.recommended("linear", thresold=3),
            r"'thresold'; did you mean 'threshold'\? DriftSurfC.* takes",
        ),
        (lambda: estimators.recommended(wings=2), "'wings'; PortfolioClassifier takes"),
        (lambda: estimators.paper(1e-3, 1e-2, thresold=3), r"paper\(\) got .* did you mean 'threshold'"),
    ],
)
def test_a_misspelled_option_of_a_ready_made_model_is_named(make: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make()
