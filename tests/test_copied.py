"""Copies of scikit-learn's models: those of copy.deepcopy, in less time."""

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

from driftsurf.adapters.sklearn import copied

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
    """Leaves copies to scikit-learn."""


class Counted(Plain):
    """Has a say in its copies."""

    copies = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        new = type(self)()
        new.copies = self.copies + 1
        return new


class Behind:
    """Has a say in them from behind scikit-learn's class."""

    def __getstate__(self) -> dict[str, Any]:
        return {"kept": True}


class Mixed(BaseEstimator, Behind):  # type: ignore[misc]
    """Both."""


@pytest.mark.parametrize("name", list(MODELS))
def test_a_copy_learns_on_as_that_of_deepcopy_and_leaves_the_model_alone(name: str) -> None:
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


def test_what_is_one_object_in_a_model_is_one_in_its_copy() -> None:
    model = Plain()
    model.weights = np.zeros(3)
    model.same, model.me, model.listed = model.weights, model, [model.weights]
    new = copied(model)
    assert new.weights is not model.weights
    assert new.same is new.weights
    assert new.listed[0] is new.weights
    assert new.me is new


def test_a_class_that_has_a_say_in_its_copies_is_heard() -> None:
    assert copied(Counted()).copies == 1
    assert copied(Mixed()).kept
    assert copied({"a": [1]}) == {"a": [1]}  # no estimator of scikit-learn at all


def test_a_pipeline_is_copied_whole() -> None:
    model = make_pipeline(StandardScaler(), SGDClassifier(loss="log_loss", random_state=0)).fit(X, Y)
    new = copied(model)
    new[-1].coef_ += 1.0
    assert not np.array_equal(new.predict_proba(X), model.predict_proba(X))
