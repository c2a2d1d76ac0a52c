"""Scores of several models for the same rows, in one pass where their learner supports it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from driftsurf.core.abilities import JointlyScored, abilities_of
from driftsurf.core.contracts import FloatArray, Learner, Rows

JointScorer = Callable[[Rows], Sequence[FloatArray]]


def joint_scorer(learners: Iterable[Learner]) -> JointScorer:
    """Return a function that scores rows with each model as it is now, in order."""
    models = list(learners)
    kinds = {type(model) for model in models}
    if len(kinds) == 1 and JointlyScored in abilities_of(models[0]):
        kind: Any = kinds.pop()
        scorer: JointScorer = kind.joint_scorer(models)
        return scorer
    return functools.partial(_one_by_one, [model.scorer() for model in models])


def _one_by_one(scorers: list[Callable[[Rows], FloatArray]], X: Rows) -> list[FloatArray]:
    return [scorer(X) for scorer in scorers]
