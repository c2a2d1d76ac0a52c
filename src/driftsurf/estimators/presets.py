"""Ready-made models: the paper's, and the recommended ones."""

from __future__ import annotations

from typing import Any, Literal, overload

from driftsurf.core.options import choice
from driftsurf.data.target import Task
from driftsurf.estimators.generated.driftsurf import DriftSurfClassifier, DriftSurfRegressor
from driftsurf.learners import paper_learner
from driftsurf.session.model_names import make_learner, read_model

__all__ = ["paper", "recommended"]


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
    return DriftSurfClassifier(learner, **(usual | options))


@overload
def recommended(
    learner: Literal["trees", "linear"] = "trees", *, task: Literal["classification"] = "classification", **options: Any
) -> DriftSurfClassifier: ...
@overload
def recommended(
    learner: Literal["trees", "linear"] = "trees", *, task: Literal["regression"], **options: Any
) -> DriftSurfRegressor: ...
def recommended(
    learner: Literal["trees", "linear"] = "trees",
    *,
    task: Literal["classification", "regression"] = "classification",
    **options: Any,
) -> DriftSurfClassifier | DriftSurfRegressor:
    """Return the model to start with: it takes frames as they come, with text, dates and gaps, and needs no tuning.

    Parameters
    ----------
    learner
        "trees" is DriftSurf around LightGBM (:class:`driftsurf.learners.foreign.BoostedTrees`, from the extra
        ``lightgbm``): the most accurate. "linear" is DriftSurf around softmax or linear regression with eight gradients
        for each row and the prequential judge: milliseconds for a batch, nothing to install, an exact state.
        docs/comparing.md compares the two.
    task
        "classification", with any number of classes, or "regression".
    **options
        Options of :class:`driftsurf.DriftSurfClassifier` or :class:`driftsurf.DriftSurfRegressor`.

    Examples
    --------
    >>> recommended("linear", random_state=0).judge
    'prequential'
    >>> type(recommended("linear", task="regression").learner).__name__
    'LinearRegression'
    """
    choice("learner", learner, ("trees", "linear"))
    choice("task", task, ("classification", "regression"))
    named = read_model("recommended" if learner == "trees" else "recommended-linear")
    inner_task: Task = "regression" if task == "regression" else "multiclass"
    inner = make_learner(named.learner_for(inner_task), inner_task)
    chosen: dict[str, Any] = {**named.strategy.options, **options}
    return DriftSurfRegressor(inner, **chosen) if task == "regression" else DriftSurfClassifier(inner, **chosen)
