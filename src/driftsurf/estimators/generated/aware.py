"""Aware as scikit-learn estimators. Made by ``make generate``: do not edit."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from driftsurf.core.frames import Classes, LearnerLike, RandomState
from driftsurf.estimators.base import AdaptiveClassifier, AdaptiveRegressor
from driftsurf.strategies._pool import DEFAULT_MAX_ROWS
from driftsurf.strategies.aware import Aware

__all__ = ["AwareClassifier", "AwareRegressor"]


class AwareClassifier(AdaptiveClassifier):
    r"""Aware as a scikit-learn classifier.

    One model that is replaced by a fresh one at each known drift.

    Every call of ``partial_fit`` or ``test_then_train`` is one time step, unless ``batch_size`` is set.
    :class:`driftsurf.strategies.Aware` describes the method.

    Parameters
    ----------
    learner
        Template of the models: a learner of :mod:`driftsurf.learners`, any classifier of scikit-learn or river, or
        an adapter of :mod:`driftsurf.learners.foreign`. None means ``LogisticRegression()``, for two classes;
        ``SoftmaxRegression()`` is for any number of classes.
    drift_steps
        Steps, from 0, of the first batch of each new concept.
    informed
        "before": a fresh model predicts and learns the first batch of the new concept, as in the paper. "after":
        the old model predicts that batch and the fresh model only learns it, as in the alternative of the paper's
        appendix.
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
    >>> stream = SEA(n_rows=20_000)
    >>> model = AwareClassifier(drift_steps=stream.drift_steps(500), random_state=0)
    >>> errors = [(model.test_then_train(X, y) != y).mean() for X, y in stream.batches(500)]
    >>> [transition.step for transition in model.journal_.transitions]
    [10, 20, 30]
    """

    _strategy_class = Aware

    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        drift_steps: Collection[int] = (),
        informed: Literal["before", "after"] = "before",
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        classes: Classes | None = None,
        random_state: RandomState = None,
    ) -> None:
        super().__init__(learner, batch_size=batch_size, guard=guard, classes=classes, random_state=random_state)
        self.drift_steps = drift_steps
        self.informed = informed
        self.max_rows = max_rows
        self.dtype = dtype


class AwareRegressor(AdaptiveRegressor):
    r"""Aware as a scikit-learn regressor.

    One model that is replaced by a fresh one at each known drift.

    Every call of ``partial_fit`` or ``test_then_train`` is one time step, unless ``batch_size`` is set.
    :class:`driftsurf.strategies.Aware` describes the method.

    Parameters
    ----------
    learner
        Template of the models: a learner of :mod:`driftsurf.learners`, any regressor of scikit-learn or river, or
        an adapter of :mod:`driftsurf.learners.foreign`. None means ``LinearRegression()``.
    drift_steps
        Steps, from 0, of the first batch of each new concept.
    informed
        "before": a fresh model predicts and learns the first batch of the new concept, as in the paper. "after":
        the old model predicts that batch and the fresh model only learns it, as in the alternative of the paper's
        appendix.
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
    >>> from driftsurf.estimators import AwareRegressor
    >>> from driftsurf.streams import Friedman
    >>> model = AwareRegressor(random_state=0)
    >>> for X, y in Friedman(n_rows=2_000).batches(200):
    ...     model = model.partial_fit(X, y)
    >>> model.score(X, y) > 0.0
    True
    """

    _strategy_class = Aware

    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        drift_steps: Collection[int] = (),
        informed: Literal["before", "after"] = "before",
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        random_state: RandomState = None,
    ) -> None:
        super().__init__(learner, batch_size=batch_size, guard=guard, random_state=random_state)
        self.drift_steps = drift_steps
        self.informed = informed
        self.max_rows = max_rows
        self.dtype = dtype
