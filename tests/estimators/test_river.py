"""Our models and detectors in river: its own checks, progressive validation, names that come and go."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest

pytest.importorskip("river")

import pandas as pd
from river import checks, datasets, drift, evaluate, metrics, naive_bayes
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from driftsurf import DriftSurfClassifier, DriftSurfRegressor
from driftsurf.data.vocabulary import RowBuffer, Vocabulary
from driftsurf.detectors import DDM, MDDM
from driftsurf.errors import CapabilityError, InputError, LabelError, NonFiniteError, OptionError, ValueTypeError
from driftsurf.estimators import ObliviousClassifier, SlidingWindowClassifier
from driftsurf.estimators.river import OnlineClassifier, OnlineDetector, OnlineRegressor
from driftsurf.learners import LinearSVM, LogisticRegression


def cases() -> list[Any]:
    found = []
    for kind in (OnlineClassifier, OnlineRegressor):
        for number, options in enumerate(kind._unit_test_params()):
            model = kind(**options)
            found += [
                pytest.param(model, check, id=f"{kind.__name__}-{number}-{place}-{check.__name__}")
                for place, check in enumerate(checks.yield_checks(model))
            ]
    return found


@pytest.mark.parametrize(("model", "check"), cases())
def test_rivers_own_checks(model: Any, check: Any) -> None:
    check(model.clone())


def rows(count: int, *, flip: int = 10**9, seed: int = 0) -> list[tuple[dict[str, Any], str]]:
    """Mixed columns; the concept turns around at row ``flip``."""
    random = np.random.default_rng(seed)
    found = []
    for place, (a, b, city) in enumerate(
        zip(random.normal(size=count), random.normal(size=count), random.choice(["Oslo", "Rome"], count), strict=True)
    ):
        above = (a + (2.0 if city == "Rome" else -2.0) > 0) == (place < flip)
        found.append(({"a": float(a), "b": float(b), "city": str(city)}, "up" if above else "down"))
    return found


@pytest.mark.parametrize("delay", [None, 30])
def test_progressive_validation_with_text_columns_a_drift_and_delay(delay: int | None) -> None:
    model = OnlineClassifier(seed=0)
    data: list[tuple[dict[str, Any], str]] = rows(4_000, flip=2_000)
    dataset = ((dict(x), y) for x, y in data)
    score = evaluate.progressive_val_score(dataset, model, metrics.Accuracy(), delay=delay)
    assert score.get() > 0.85
    assert next(transition.kind for transition in model.journal.transitions) == "entered"


def test_a_frame_is_learned_and_predicted_like_its_rows() -> None:
    data = rows(300)
    X, y = pd.DataFrame([x for x, _ in data]), pd.Series([label for _, label in data])
    one, many = OnlineClassifier(seed=0), OnlineClassifier(seed=0)
    for x, label in data:
        one.learn_one(x, label)
    many.learn_many(X, y)
    assert one._ready().estimator.to_bytes() == many._ready().estimator.to_bytes()
    shares = many.predict_proba_many(X)
    assert shares.iloc[7].to_dict() == one.predict_proba_one(data[7][0])
    assert many.predict_many(X).tolist() == [one.predict_one(x) for x, _ in data]


@pytest.mark.parametrize("gap", [False, True])
@pytest.mark.parametrize("max_features", [2, 100])
def test_a_frame_of_numbers_is_learned_like_its_rows(gap: bool, max_features: int) -> None:
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(250, 4)), columns=["d", "b", "c", "a"])
    y = pd.Series(np.where(X["b"] > 0, "up", "down"))
    if gap:
        X.loc[17, "a"] = np.nan
    one, many = (OnlineClassifier(max_features=max_features, n_hashes=2, seed=0) for _ in range(2))
    for x, label in zip(X.to_dict("records"), y, strict=True):
        one.learn_one(x, label)
    many.learn_many(X[:30], y[:30])
    many.learn_many(X[30:], y[30:])
    assert one._ready().estimator.to_bytes() == many._ready().estimator.to_bytes()
    assert len(many._ready().waiting) == 50
    shares = many.predict_proba_many(X)
    assert [row.to_dict() for _, row in shares.iterrows()] == [one.predict_proba_one(x) for x in X.to_dict("records")]
    assert many.predict_many(X[["a"]]).tolist() == [one.predict_one({"a": a}) for a in X["a"]]


class TwoClasses(LogisticRegression):
    """A binary learner with probabilities."""

    capabilities = dataclasses.replace(
        LogisticRegression.capabilities, tasks=frozenset({"binary"}), grows_classes=False
    )


def test_the_rows_before_a_bad_label_are_buffered() -> None:
    model = OnlineClassifier(DriftSurfClassifier(TwoClasses()), batch_size=10)
    with pytest.raises(LabelError, match="'z'"):
        model.learn_many(pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0]}), pd.Series(["x", "y", "z", "x"]))
    assert model._ready().waiting.targets == ["x", "y"]


def test_before_the_first_time_step_label_frequencies_predict() -> None:
    model = OnlineClassifier(batch_size=50)
    assert model.predict_one({"a": 1}) is None
    assert model.predict_proba_one({"a": 1}) == {}
    for label in ("x", "y", "y"):
        model.learn_one({"a": 1.0}, label)
    assert model.predict_one({"a": 1}) == "y"
    assert model.predict_proba_one({"a": 1}) == {"x": 1 / 3, "y": 2 / 3}
    model.flush()
    model.flush()  # nothing waits any more
    assert set(model.predict_proba_one({"a": 1})) == {"x", "y"}
    model.learn_one({"a": 1.0}, "z")  # waits
    assert model.predict_proba_one({"a": 1})["z"] == 0.0
    values = OnlineRegressor()
    assert values.predict_one({"a": 1}) == 0.0
    values.learn_one({"a": 1}, 4.0)
    assert values.predict_one({"a": 1}) == 4.0


def test_a_binary_learner_knows_false_and_true_from_the_start_and_refuses_a_third_label() -> None:
    model = OnlineClassifier(DriftSurfClassifier(TwoClasses()), batch_size=5)
    assert model.predict_proba_one({}) == {False: 0.5, True: 0.5}
    model.learn_one({"a": 1.0}, True)
    assert model.predict_proba_one({}) == {False: 0.0, True: 1.0}
    other = OnlineClassifier(DriftSurfClassifier(TwoClasses()), batch_size=5)
    for label in ("x", "y"):
        other.learn_one({"a": 1.0}, label)
    with pytest.raises(LabelError, match="'z'"):
        other.learn_one({"a": 1.0}, "z")
    assert set(other.predict_proba_one({})) == {"x", "y"}


@pytest.mark.parametrize("learner", [GaussianNB(), SGDClassifier(loss="log_loss")])
def test_any_learner_and_strategy_dense_or_sparse(learner: Any) -> None:
    model = OnlineClassifier(ObliviousClassifier(learner, classes=["down", "up"]), n_hashes=4, seed=0)
    for x, label in rows(300):
        model.learn_one(x, label)
    known = rows(100, seed=1)
    assert np.mean([model.predict_one(x) == label for x, label in known]) > 0.8
    assert model.predict_one({"new": 3.0, "city": "Paris"}) in ("down", "up")
    frame = pd.DataFrame([x for x, _ in known])
    assert model.predict_many(frame).tolist() == [model.predict_one(x) for x, _ in known]


def test_without_probabilities_only_labels_are_predicted() -> None:
    model = OnlineClassifier(DriftSurfClassifier(LinearSVM()), seed=0)
    for x, label in rows(200):
        model.learn_one(x, label)
    assert model.predict_one({"a": 3.0, "city": "Rome"}) == "up"
    with pytest.raises(NotImplementedError, match="probabilities"):
        model.predict_proba_one({"a": 1.0})


@pytest.mark.parametrize(
    ("row", "label", "error"),
    [
        ({"a": float("inf")}, 1.0, NonFiniteError),
        ({"a": [1]}, 1.0, ValueTypeError),
        ({"a": 1.0}, float("nan"), NonFiniteError),
    ],
)
def test_a_bad_row_is_refused_and_leaves_nothing(row: dict[str, Any], label: float, error: type[Exception]) -> None:
    model = OnlineRegressor(batch_size=3)
    model.learn_one({"a": 1.0}, 2.0)
    before = pickle.dumps(model)
    with pytest.raises(error):
        model.learn_one(row, label)
    assert pickle.dumps(model) == before


def test_rows_have_weights_where_the_learner_has() -> None:
    # Two labels for the same row: the weights decide.
    shares = []
    for weights in ((1.0, 9.0), (9.0, 1.0)):
        model = OnlineClassifier(batch_size=50, seed=0)
        for place in range(200):
            model.learn_one({"a": 1.0}, place % 2, w=weights[place % 2])
        shares.append(model.predict_proba_one({"a": 1.0})[1])
    assert shares[0] > 0.7 > 0.3 > shares[1]
    with pytest.raises(InputError, match="weight"):
        model.learn_one({"a": 1.0}, 1, w=-1.0)
    plain = OnlineClassifier(ObliviousClassifier(KNeighborsClassifier()))
    with pytest.raises(CapabilityError, match="'weights'"):
        plain.learn_one({"a": 1.0}, 1, w=2.0)
    assert len(plain._ready().waiting) == 0


def test_rows_that_cannot_be_learned_are_dropped() -> None:
    model = OnlineClassifier(SlidingWindowClassifier(window=0), batch_size=2)
    model.learn_one({"a": 1.0}, "x")
    with pytest.raises(OptionError, match="window"):
        model.learn_one({"a": 1.0}, "y")
    assert len(model._ready().waiting) == 0


@pytest.mark.parametrize(
    "options", [{"model": SGDClassifier()}, {"batch_size": 0}, {"max_features": 0}, {"n_hashes": 0}]
)
def test_options_that_cannot_be_used_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        OnlineClassifier(**options).learn_one({"a": 1.0}, True)


def test_the_template_is_never_changed() -> None:
    template = DriftSurfRegressor(batch_size=7, random_state=3)
    model = OnlineRegressor(template, batch_size=4, seed=5)
    for place in range(8):
        model.learn_one({"a": float(place)}, float(place))
    assert (template.batch_size, template.random_state) == (7, 3)
    assert not template.__sklearn_is_fitted__()


# ---------------------------------------------------------------------------- detectors


def test_our_detector_signals_in_river_where_it_does_here() -> None:
    errors = (np.random.default_rng(0).random(600) < np.repeat([0.1, 0.6], 300)).astype(float)
    ours, theirs = MDDM(), OnlineDetector()
    taken = ours.update(errors).consumed
    signals = []
    for place, value in enumerate(errors, start=1):
        theirs.update(value)
        signals += [place] if theirs.drift_detected else []
    assert signals[0] == taken
    theirs._reset()
    assert not theirs.drift_detected
    OnlineDetector()._reset()


def test_our_detector_retrains_a_model_of_river() -> None:
    data = rows(4_000, flip=2_000)
    scores = {}
    for name, detector in {"with": OnlineDetector(DDM()), "without": drift.NoDrift()}.items():
        model = drift.DriftRetrainingClassifier(naive_bayes.GaussianNB(), detector, train_in_background=False)
        dataset = (({"a": x["a"], "rome": float(x["city"] == "Rome")}, label) for x, label in data)
        scores[name] = evaluate.progressive_val_score(dataset, model, metrics.Accuracy()).get()
    assert scores["with"] > scores["without"] + 0.2
    assert repr(OnlineDetector(DDM()).clone().detector) == repr(DDM())


def test_a_river_dataset_of_regression() -> None:
    score = evaluate.progressive_val_score(datasets.TrumpApproval(), OnlineRegressor(seed=0), metrics.MAE())
    assert score.get() < 1.5


# ---------------------------------------------------------------------------- names


def test_names_get_columns_up_to_the_cap_and_share_the_rest() -> None:
    words = Vocabulary(max_features=2, n_hashes=1)
    assert words.learn({"c": 1.0, "b": 2.0, "a": 3.0}) == ([0, 1, 2], [3.0, 2.0, 1.0])
    assert words.lookup({"d": 1.0, "e": 5, "a": True, "f": None, "g": float("nan")}) == ([0, 2], [1.0, 6.0])
    assert words.width == 3
    words.close()
    assert words.width == 3
    empty = Vocabulary()
    empty.close()
    assert empty.width == 257


def test_the_buffer_takes_rows_of_any_length() -> None:
    waiting = RowBuffer(1)
    waiting.add((list(range(100)), [1.0] * 100), 0)
    assert waiting.full
    assert waiting.rows(200).data.sum() == 100.0
