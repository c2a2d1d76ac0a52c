"""Joint scoring: several models score rows in one pass, with the result of each alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from driftsurf.core.contracts import Segment
from driftsurf.core.input import Schema, read_rows
from driftsurf.core.samples import Samples
from driftsurf.errors import ShapeError
from driftsurf.learners import LogisticRegression
from driftsurf.strategies._votes import joint_scorer

RNG = np.random.default_rng(5)


def trained(count: int, width: int = 3) -> list[LogisticRegression]:
    X = RNG.normal(size=(300, width)) + 4.0  # far from zero, so that models have a centre
    samples, models = Samples(width), []
    samples.append(X, (X[:, 0] > 4).astype(float))
    for k in range(count):
        model = LogisticRegression().fresh(k, width, 2)
        model.update(samples, Segment(0, 300), 500)
        models.append(model)
    return models


class Slow(LogisticRegression):
    """A learner of another kind."""


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("count", [1, 2, 10])
def test_each_model_has_its_own_scores(count: int, sparse: bool) -> None:
    models = trained(count)
    X = read_rows(RNG.normal(size=(50, 3)), Schema(3, sparse=sparse))
    together = joint_scorer(models)(X)
    assert len(together) == count
    for scores, model in zip(together, models, strict=True):
        np.testing.assert_allclose(scores, model.scores(X), rtol=1e-12, atol=1e-12)


def test_models_of_several_kinds_score_one_by_one() -> None:
    models: list[Any] = [*trained(2), Slow().fresh(0, 3, 2)]
    X = RNG.normal(size=(5, 3))
    for scores, model in zip(joint_scorer(models)(X), models, strict=True):
        assert scores.tolist() == model.scores(X).tolist()


def test_without_models_there_are_no_scores() -> None:
    assert list(joint_scorer([])(np.ones((2, 3)))) == []


def test_later_updates_do_not_affect_the_scorer() -> None:
    models, X = trained(2), RNG.normal(size=(5, 3))
    scorer = joint_scorer(models)
    before = np.array(scorer(X))
    samples = Samples(3)
    samples.append(RNG.normal(size=(310, 3)), np.ones(310))
    models[0].update(samples, Segment(300, 310), 20)
    assert not np.array_equal(models[0].scores(X), before[0])
    assert np.array_equal(scorer(X), before)


def test_rows_of_another_width_are_refused() -> None:
    with pytest.raises(ShapeError, match="4 features"):
        joint_scorer(trained(2))(np.ones((2, 4)))
