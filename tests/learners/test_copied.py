"""Copies of scikit-learn models: equal to those of copy.deepcopy."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.linear_model import Perceptron, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from driftsurf.learners.foreign.sklearn import copied

X = np.random.default_rng(0).normal(size=(200, 3))
Y = (X[:, 0] > 0).astype(int)

MODELS = {
    "sgd": SGDClassifier(loss="log_loss", random_state=0),
    "averaged": SGDClassifier(loss="log_loss", random_state=0, average=True),
    "generator": SGDClassifier(loss="log_loss", random_state=np.random.RandomState(3)),
    "perceptron": Perceptron(random_state=0),
    "bayes": GaussianNB(),
    "network": MLPClassifier((4,), random_state=0),
}


class Plain(BaseEstimator):  # type: ignore[misc]
    """Does not customise copying."""


class Counted(Plain):
    """Customises copying."""

    copies = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        new = type(self)()
        new.copies = self.copies + 1
        return new


class Behind:
    """Customises copying, as a base class behind BaseEstimator."""

    def __getstate__(self) -> dict[str, Any]:
        return {"kept": True}


class Mixed(BaseEstimator, Behind):  # type: ignore[misc]
    """An estimator whose second base class customises copying."""


@pytest.mark.parametrize("name", list(MODELS))
def test_a_copy_learns_like_a_deepcopy_and_does_not_affect_the_model(name: str) -> None:
    model = copy.deepcopy(MODELS[name]).partial_fit(X[:100], Y[:100], classes=[0, 1])
    ask = "decision_function" if hasattr(model, "decision_function") else "predict_proba"
    before = getattr(model, ask)(X)
    one, other = copied(model), copy.deepcopy(model)
    assert type(one) is type(model)
    assert list(vars(one)) == list(vars(other))
    for each in (one, other):
        each.partial_fit(X[100:], Y[100:])
    assert np.array_equal(getattr(one, ask)(X), getattr(other, ask)(X))
    assert np.array_equal(getattr(model, ask)(X), before)
    assert not np.array_equal(getattr(one, ask)(X), before)


def test_an_object_shared_inside_a_model_is_shared_inside_its_copy() -> None:
    model = Plain()
    model.weights = np.zeros(3)
    model.same, model.me, model.listed = model.weights, model, [model.weights]
    new = copied(model)
    assert new.weights is not model.weights
    assert new.same is new.weights
    assert new.listed[0] is new.weights
    assert new.me is new


def test_customised_copying_is_respected() -> None:
    assert copied(Counted()).copies == 1
    assert copied(Mixed()).kept
    assert copied({"a": [1]}) == {"a": [1]}  # not an estimator


def test_a_pipeline_is_copied_whole() -> None:
    model = make_pipeline(StandardScaler(), SGDClassifier(loss="log_loss", random_state=0)).fit(X, Y)
    new = copied(model)
    new[-1].coef_ += 1.0
    assert not np.array_equal(new.predict_proba(X), model.predict_proba(X))
