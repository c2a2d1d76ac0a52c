"""The faces of all strategies: scikit-learn's checks, pipelines, tuning, saved state, detectors inside."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from driftsurf import baselines, strategies
from driftsurf.adapters import RiverDetector, as_detector
from driftsurf.baselines import (
    AdaptiveClassifier,
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
    face_of,
)
from driftsurf.detectors import ADWIN, DDM, MDDM
from driftsurf.errors import CapabilityError, OptionError, StateError
from driftsurf.learners import LinearRegression, LogisticRegression, SoftmaxRegression
from driftsurf.state import from_bytes, to_bytes
from test_estimators import EXPECTED_FAILURES, stream

FACES: dict[str, Any] = {
    name: getattr(baselines, name) for name in baselines.__all__ if inspect.isclass(getattr(baselines, name))
}
FACES = {name: face for name, face in FACES.items() if not name.startswith("Adaptive")}
CLASSIFIERS = {name: face for name, face in FACES.items() if name.endswith("Classifier")}
SMALL: dict[str, dict[str, Any]] = {
    "PERMClassifier": {"permutations": 19, "significance": 0.05},
    "PERMRegressor": {"permutations": 19, "significance": 0.05},
}
"""Options with which a test is quick."""
VOTING = {"AUEClassifier", "CandorClassifier", "DWMClassifier", "LearnNSEClassifier"}


def made(name: str, **options: Any) -> Any:
    return FACES[name](**(SMALL.get(name, {}) | options))


def test_every_strategy_has_a_face_and_those_that_compare_risks_have_two() -> None:
    from driftsurf import estimators

    known = set(FACES) | set(estimators.__all__)
    kinds: dict[str, Any] = {name: getattr(strategies, name) for name in strategies.__all__}
    for name, kind in kinds.items():
        if not hasattr(kind, "begin"):
            continue
        assert f"{name}Classifier" in known
        try:
            kind(LinearRegression(), **({"detector": DDM()} if name == "ResetOnDrift" else {})).check()
        except CapabilityError:
            assert f"{name}Regressor" not in known
        else:
            assert f"{name}Regressor" in known


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [*(made(name) for name in FACES), ObliviousClassifier(DecisionTreeClassifier())],
    # A vote of labels does not see the small differences that others' probabilities show, and a tree has none.
    expected_failed_checks=lambda face: (
        {} if type(face).__name__ in VOTING or face.learner is not None else EXPECTED_FAILURES
    ),
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_conventions(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


def targets(face: Any, y: Any) -> Any:
    return y.astype(np.float64) if face.__name__.endswith("Regressor") else y


@pytest.mark.parametrize("name", FACES)
def test_a_saved_model_goes_on_as_if_there_had_been_no_break(name: str) -> None:
    batches = stream(8, 60, flip=4)
    model = made(name, random_state=0)
    for X, y in batches[:5]:
        model.partial_fit(X, targets(FACES[name], y))
    again = FACES[name].from_bytes(model.to_bytes())
    copied = pickle.loads(pickle.dumps(model))
    for X, y in batches[5:]:
        first, second, third = (m.test_then_train(X, targets(FACES[name], y)) for m in (model, again, copied))
        assert np.array_equal(first, second)
        assert np.array_equal(first, third)
    assert model.to_bytes() == again.to_bytes()


@pytest.mark.parametrize("name", FACES)
def test_it_works_in_a_pipeline_and_its_learner_is_tuned_over_time(name: str) -> None:
    X, y = (np.concatenate(part) for part in zip(*stream(6, 50, flip=99), strict=True))
    learner = (LogisticRegression if name in CLASSIFIERS else LinearRegression)(start="uniform")
    face = made(name, learner=learner, random_state=0)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), face),
        {f"{name.lower()}__learner__step_size": [1e-12, 0.1]},
        cv=TimeSeriesSplit(2),
    ).fit(X, targets(FACES[name], y))
    assert search.best_params_ == {f"{name.lower()}__learner__step_size": 0.1}
    assert search.best_estimator_.predict(X).shape == y.shape


def test_parameters_are_the_options_of_the_strategy() -> None:
    model = AUEClassifier(SoftmaxRegression(l2=0.5), experts=3, batch_size=20)
    copied = clone(model)
    assert repr(copied) == repr(model)
    assert copied.get_params()["learner__l2"] == 0.5
    assert model.set_params(learner__l2=0.1, experts=7).learner.l2 == 0.1
    assert (model.experts, copied.experts) == (7, 3)
    assert "classes" not in SlidingWindowRegressor().get_params()
    with pytest.raises(TypeError, match="window"):
        AUEClassifier(window=3)


def test_the_strategy_gets_the_options() -> None:
    X, y = stream(1)[0]
    model = SlidingWindowClassifier(window=30, max_rows=40, dtype="float32", random_state=5).partial_fit(X, y)
    made: Any = model._session.strategy
    assert (made.window, made.max_rows, made.dtype, made.seed) == (30, 40, "float32", 5)


@pytest.mark.parametrize(
    ("model", "what"),
    [
        (CandorClassifier(SoftmaxRegression()), "anchor"),
        (OnePassClassifier(SGDClassifier()), "one pass"),
        (DWMClassifier(LinearRegression()), "regression"),
        (AwareRegressor(LogisticRegression()), "regression"),
        (PERMClassifier(permutations=3), "permutations"),
        (AUEClassifier(experts=0), "experts"),
    ],
)
def test_what_cannot_be_is_refused_by_name(model: Any, what: str) -> None:
    X, y = stream(1)[0]
    with pytest.raises((CapabilityError, OptionError), match=what):
        model.partial_fit(X, y)


def test_any_learner_goes_inside() -> None:
    model = ObliviousClassifier(SGDClassifier(loss="log_loss"), random_state=0)
    for X, y in stream(6, flip=99):
        model.partial_fit(X, y)
    assert (model.predict(X) == y).mean() > 0.9


# ---------------------------------------------------------------------------- detectors inside


@pytest.mark.parametrize("detector", [None, DDM(), ADWIN(increase_only=True), "river"])
def test_a_detector_of_ours_or_of_river_resets_the_model(detector: Any) -> None:
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
    model.set_params(detector__window=70)  # waits for the next fit
    again = ResetOnDriftClassifier.from_bytes(model.to_bytes())
    assert again.detector.window == 50
    assert again.set_params(detector__window=60).detector.window == 60
    with pytest.raises(OptionError, match="no parameter 'widow'"):
        again.detector.set_params(widow=3)


def test_a_detector_in_bytes_must_be_one_of_ours() -> None:
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
    taken = detector.update(errors)
    assert (detector.drift, detector.warning) == (True, False)
    assert 52 < taken < 100
    assert detector.update([0.0, 0.0]) == 2  # begins anew
    assert not detector.drift
    detector.reset()
    assert detector.update(errors) == taken
    assert detector.fresh().update(errors) == taken
    for call in (detector.state, lambda: detector.restore({}), lambda: type(detector).from_state(detector, {})):
        with pytest.raises(CapabilityError, match="no exact state"):
            call()


def test_a_model_with_a_river_detector_is_not_saved_in_bytes() -> None:
    drift = pytest.importorskip("river.drift")
    X, y = stream(1)[0]
    model = ResetOnDriftClassifier(detector=drift.ADWIN(), random_state=0).partial_fit(X, y)
    with pytest.raises((CapabilityError, StateError)):
        model.to_bytes()
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


@pytest.mark.parametrize("wrong", [DDM, 3, None])
def test_what_is_no_detector_is_refused(wrong: Any) -> None:
    with pytest.raises(OptionError, match="does not meet"):
        as_detector(wrong)
    with pytest.raises(OptionError, match="no drift detector of river"):
        RiverDetector(wrong).check()


def test_a_strategy_of_the_users_own_gets_a_face() -> None:
    @face_of(strategies.SlidingWindow)
    class Own(AdaptiveClassifier):
        pass

    X, y = stream(1)[0]
    assert Own(window=30).partial_fit(X, y).predict(X).shape == y.shape
