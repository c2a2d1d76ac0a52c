"""DTEL as scikit-learn estimators. Made by ``make generate``: do not edit."""

from __future__ import annotations

from typing import Literal

from driftsurf.core.typing import Classes, LearnerLike, RandomState
from driftsurf.estimators.base import AdaptiveClassifier
from driftsurf.strategies._pool import DEFAULT_MAX_ROWS, BudgetRule
from driftsurf.strategies.dtel import DTEL

__all__ = ["DTELClassifier"]


class DTELClassifier(AdaptiveClassifier):
    r"""DTEL as a scikit-learn classifier.

    Diversity and Transfer-based Ensemble Learning: diverse old models, each trained further on the newest batch.

    Every call of ``partial_fit`` or ``test_then_train`` is one time step, unless ``batch_size`` is set.
    :class:`driftsurf.strategies.DTEL` describes the method.

    Parameters
    ----------
    learner
        Template of the models: a learner of :mod:`driftsurf.learners`, any classifier of scikit-learn or river, or
        an adapter of :mod:`driftsurf.learners.foreign`. None means ``LogisticRegression()``, for two classes;
        ``SoftmaxRegression()`` is for any number of classes.
    experts
        m, the largest number of historical models.
    budget
        "each" gives rho gradients to every model, "divided" splits rho equally.
    max_rows
        Keep at most this many rows and drop the oldest first; None keeps all. The rows of T are kept until the end
        of the reactive state in any case.
    dtype
        Type of the stored rows, "float64" or "float32".
    batch_size
        None makes every call one time step. A number buffers rows, and every ``batch_size`` of them are one.
    guard
        Rows beyond this many times the usual norm are learned with a small weight, so that one absurd value cannot
        ruin the model. None for no guard.
    classes
        The labels, if they are known from the start; None learns them as they appear.
    random_state
        An integer makes every run the same.

    Attributes
    ----------
    classes_
        Labels known so far, sorted.
    n_features_in_
        Number of columns of the first batch.
    feature_names_in_
        Names of the columns, if the first batch had any.
    journal_
        State, risks and decisions of every time step, and every transition with its reason.

    Examples
    --------
    >>> from driftsurf.streams import SEA
    >>> model = DTELClassifier(random_state=0)
    >>> for X, y in SEA(n_rows=2_000).batches(200):
    ...     model = model.partial_fit(X, y)
    >>> model.score(X, y) > 0.7
    True
    """

    _strategy_class = DTEL

    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        experts: int = 25,
        budget: BudgetRule = "each",
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        classes: Classes | None = None,
        random_state: RandomState = None,
    ) -> None:
        super().__init__(learner, batch_size=batch_size, guard=guard, classes=classes, random_state=random_state)
        self.experts = experts
        self.budget = budget
        self.max_rows = max_rows
        self.dtype = dtype
