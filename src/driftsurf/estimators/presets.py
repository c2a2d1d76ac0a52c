"""Ready-made models: the paper's, and the recommended ones."""

from __future__ import annotations

from inspect import signature
from typing import Any, Literal, TypeAlias, overload

from driftsurf.core.options import choice
from driftsurf.data.row_encoder import Task
from driftsurf.estimators._made import (
    DriftSurfClassifier,
    DriftSurfRegressor,
    PortfolioClassifier,
    PortfolioRegressor,
)
from driftsurf.learners import paper_learner
from driftsurf.registry import nearest
from driftsurf.session.model_names import make_learner, read_model


def paper(
    step_size: float,
    l2: float,
    *,
    optimizer: Literal["strsaga", "sgd"] = "strsaga",
    steps_per_row: float = 2.0,
    steps_per_batch: int | None = None,
    **options: Any,
) -> DriftSurfClassifier:
    """Return the paper's model: no scaling, no cap on the rows, no guard, weights that start from uniform(0, 1).

    Parameters
    ----------
    step_size, l2
        Step size and penalty of logistic regression; the paper gives them for each data set.
    optimizer
        "strsaga" or "sgd".
    steps_per_row, steps_per_batch
        Budget of an update: gradients for each new row, or a fixed number for every batch.
    **options
        Options of :class:`driftsurf.DriftSurfClassifier`. The labels are -1 and +1 unless ``classes`` names others.

    Examples
    --------
    >>> model = paper(step_size=1e-3, l2=1e-2, random_state=0)
    >>> model.max_rows, model.guard, model.learner.start
    (None, None, 'uniform')
    """
    budget = {"steps_per_row": steps_per_row, "steps_per_batch": steps_per_batch}
    learner = paper_learner(step_size, l2, optimizer=optimizer, **budget)
    usual = {"class_share": 0.0, "max_rows": None, "guard": None, "classes": (-1, 1)}
    _check_names("paper", options, DriftSurfClassifier)
    return DriftSurfClassifier(learner, **(usual | options))


Kind: TypeAlias = Literal["portfolio", "light", "trees", "linear"]
_NAMES = {"portfolio": "recommended"} | {name: f"recommended-{name}" for name in ("light", "trees", "linear")}


@overload
def recommended(
    learner: Literal["portfolio", "light"] = "portfolio",
    *,
    task: Literal["classification"] = "classification",
    **options: Any,
) -> PortfolioClassifier: ...
@overload
def recommended(
    learner: Literal["portfolio", "light"] = "portfolio", *, task: Literal["regression"], **options: Any
) -> PortfolioRegressor: ...
@overload
def recommended(
    learner: Literal["trees", "linear"], *, task: Literal["classification"] = "classification", **options: Any
) -> DriftSurfClassifier: ...
@overload
def recommended(
    learner: Literal["trees", "linear"], *, task: Literal["regression"], **options: Any
) -> DriftSurfRegressor: ...
def recommended(
    learner: Kind = "portfolio",
    *,
    task: Literal["classification", "regression"] = "classification",
    **options: Any,
) -> PortfolioClassifier | PortfolioRegressor | DriftSurfClassifier | DriftSurfRegressor:
    """Return the model to start with: it takes frames as they come, with text, dates and gaps, and needs no tuning.

    Parameters
    ----------
    learner
        "portfolio" mixes linear models under DriftSurf, a perceptron, naive Bayes, nearest neighbours and
        boosted trees (:class:`driftsurf.strategies.Portfolio`): the most accurate. "light" is a portfolio of fewer and
        cheaper experts. "trees" is DriftSurf around LightGBM alone
        (:class:`driftsurf.learners.foreign.BoostedTrees`). "linear" is DriftSurf around softmax or linear regression
        with eight gradients for each row and the prequential judge: milliseconds for a batch. docs/evidence.md
        compares them.
    task
        "classification", with any number of classes, or "regression".
    **options
        Options of :class:`driftsurf.PortfolioClassifier` or :class:`driftsurf.PortfolioRegressor`; for "trees" and
        "linear", of :class:`driftsurf.DriftSurfClassifier` or :class:`driftsurf.DriftSurfRegressor`.

    Examples
    --------
    >>> recommended(half_life=20.0, random_state=0).half_life
    20.0
    >>> recommended("linear", random_state=0).judge
    'prequential'
    >>> type(recommended("linear", task="regression").learner).__name__
    'LinearRegression'
    """
    choice("learner", learner, tuple(_NAMES))
    choice("task", task, ("classification", "regression"))
    named = read_model(_NAMES[learner])
    inner_task: Task = "regression" if task == "regression" else "multiclass"
    inner = make_learner(named.learner_for(inner_task), inner_task)
    classes = PortfolioClassifier, PortfolioRegressor, DriftSurfClassifier, DriftSurfRegressor
    made = classes[2 * (named.strategy.name != "portfolio") + (task == "regression")]
    _check_names("recommended", options, made)
    return made(inner, **{**named.strategy.options, **options})


def _check_names(function: str, options: dict[str, Any], made: type) -> None:
    """Raise TypeError, as Python does, for an option that the model does not have."""
    known = [name for name in signature(made).parameters if name != "learner"]
    for name in options.keys() - set(known):
        raise TypeError(
            f"{function}() got an unexpected keyword argument {name!r}; {nearest(name, known)}"
            f"{made.__name__} takes {', '.join(known)}"
        )
