"""Scores of many models for the same rows, in one pass where their learner can do that."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from driftsurf.base import FloatArray, Learner, Rows

JointScorer = Callable[[Rows], Sequence[FloatArray]]


def joint_scorer(learners: Iterable[Learner]) -> JointScorer:
    """The scores of each model as it is now, in order; what is learnt later does not show in them."""
    models: list[Any] = list(learners)
    kinds = {type(model) for model in models}
    if len(kinds) == 1 and hasattr(models[0], "joint_scorer"):
        scorer: JointScorer = models[0].joint_scorer(models)
        return scorer
    return functools.partial(_one_by_one, [model.scorer() for model in models])


def _one_by_one(scorers: list[Callable[[Rows], FloatArray]], X: Rows) -> list[FloatArray]:
    return [scorer(X) for scorer in scorers]
