"""Portfolio as scikit-learn estimators. Made by ``make generate``: do not edit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from driftsurf.core.frames import Classes, LearnerLike, RandomState
from driftsurf.estimators.base import AdaptiveClassifier, AdaptiveRegressor
from driftsurf.strategies._pool import DEFAULT_MAX_ROWS
from driftsurf.strategies.portfolio import Portfolio

__all__ = ["PortfolioClassifier", "PortfolioRegressor"]


class PortfolioClassifier(AdaptiveClassifier):
    r"""Portfolio as a scikit-learn classifier.

    A portfolio of experts that all learn every batch, mixed by stacking that follows drift.

    Every call of ``partial_fit`` or ``test_then_train`` is one time step, unless ``batch_size`` is set.
    :class:`driftsurf.strategies.Portfolio` describes the method.

    Parameters
    ----------
    learner
        Template of the models: a learner of :mod:`driftsurf.learners`, any classifier of scikit-learn or river, or
        an adapter of :mod:`driftsurf.learners.foreign`. None means ``LogisticRegression()``, for two classes;
        ``SoftmaxRegression()`` is for any number of classes.
    experts
        None for the default experts; "light" without ``learner`` alone and without the trees on the last four
        batches, with trees that are fitted less often and three passes of the perceptron instead of five; or a list
        of strategies, learners, and estimators of this package, scikit-learn or river. A learner is trained on all
        rows and never replaced.
    half_life
        Number of batches in which the evidence for the weights loses half of its value; a batch of fewer than 100
        rows counts as so many hundredths of one. From 3 to 100 the mean error over streams is the same to .003.
    ridge
        How strongly the weights resist change while there is little evidence; from 5 to 20 it makes no difference.
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
    >>> from driftsurf.estimators import PortfolioClassifier
    >>> from driftsurf.streams import SEA
    >>> model = PortfolioClassifier(random_state=0)
    >>> for X, y in SEA(n_rows=2_000).batches(200):
    ...     model = model.partial_fit(X, y)
    >>> model.score(X, y) > 0.7
    True
    """

    _strategy_class = Portfolio

    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        experts: Sequence[Any] | Literal["light"] | None = None,
        half_life: float = 10.0,
        ridge: float = 10.0,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        classes: Classes | None = None,
        random_state: RandomState = None,
    ) -> None:
        super().__init__(learner, batch_size=batch_size, guard=guard, classes=classes, random_state=random_state)
        self.experts = experts
        self.half_life = half_life
        self.ridge = ridge
        self.max_rows = max_rows
        self.dtype = dtype


class PortfolioRegressor(AdaptiveRegressor):
    r"""Portfolio as a scikit-learn regressor.

    A portfolio of experts that all learn every batch, mixed by stacking that follows drift.

    Every call of ``partial_fit`` or ``test_then_train`` is one time step, unless ``batch_size`` is set.
    :class:`driftsurf.strategies.Portfolio` describes the method.

    Parameters
    ----------
    learner
        Template of the models: a learner of :mod:`driftsurf.learners`, any regressor of scikit-learn or river, or
        an adapter of :mod:`driftsurf.learners.foreign`. None means ``LinearRegression()``.
    experts
        None for the default experts; "light" without ``learner`` alone and without the trees on the last four
        batches, with trees that are fitted less often and three passes of the perceptron instead of five; or a list
        of strategies, learners, and estimators of this package, scikit-learn or river. A learner is trained on all
        rows and never replaced.
    half_life
        Number of batches in which the evidence for the weights loses half of its value; a batch of fewer than 100
        rows counts as so many hundredths of one. From 3 to 100 the mean error over streams is the same to .003.
    ridge
        How strongly the weights resist change while there is little evidence; from 5 to 20 it makes no difference.
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
    random_state
        An integer makes every run the same.

    Attributes
    ----------
    n_features_in_
        Number of columns of the first batch.
    feature_names_in_
        Names of the columns, if the first batch had any.
    journal_
        State, risks and decisions of every time step, and every transition with its reason.

    Examples
    --------
    >>> from driftsurf.estimators import PortfolioRegressor
    >>> from driftsurf.streams import Friedman
    >>> model = PortfolioRegressor(random_state=0)
    >>> for X, y in Friedman(n_rows=2_000).batches(200):
    ...     model = model.partial_fit(X, y)
    >>> model.score(X, y) > 0.0
    True
    """

    _strategy_class = Portfolio

    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        experts: Sequence[Any] | Literal["light"] | None = None,
        half_life: float = 10.0,
        ridge: float = 10.0,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        random_state: RandomState = None,
    ) -> None:
        super().__init__(learner, batch_size=batch_size, guard=guard, random_state=random_state)
        self.experts = experts
        self.half_life = half_life
        self.ridge = ridge
        self.max_rows = max_rows
        self.dtype = dtype
