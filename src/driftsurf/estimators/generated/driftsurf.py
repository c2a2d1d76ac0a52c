"""DriftSurf as scikit-learn estimators. Made by ``make generate``: do not edit."""

from __future__ import annotations

from typing import Literal

from driftsurf.core.frames import Classes, LearnerLike, RandomState
from driftsurf.estimators.base import AdaptiveClassifier, AdaptiveRegressor
from driftsurf.strategies._pool import DEFAULT_MAX_ROWS, BudgetRule, RiskName
from driftsurf.strategies.driftsurf import DriftSurf, Judge, ThresholdUnit, Variant

__all__ = ["DriftSurfClassifier", "DriftSurfRegressor"]


class DriftSurfClassifier(AdaptiveClassifier):
    r"""DriftSurf as a scikit-learn classifier.

    DriftSurf: learn a second model at a sign of drift, and keep the better of the two.

    Every call of ``partial_fit`` or ``test_then_train`` is one time step, unless ``batch_size`` is set.
    :class:`driftsurf.strategies.DriftSurf` describes the method.

    Parameters
    ----------
    learner
        Template of the models: a learner of :mod:`driftsurf.learners`, any classifier of scikit-learn or river, or
        an adapter of :mod:`driftsurf.learners.foreign`. None means ``LogisticRegression()``, for two classes;
        ``SoftmaxRegression()`` is for any number of classes.
    threshold
        delta, the tolerated rise of the risk.
    stable_threshold
        delta'; None means threshold / 2.
    reactive_length
        r, the number of batches in a reactive state.
    greedy
        Whether the better model predicts inside a reactive state. If False, w predicts until the end of it.
    variant
        "algorithm-1". "authors" is the old spelling of the strategy "driftsurf-authors", the authors' published
        code.
    risk
        Risk by which models are compared: "loss" with the penalty, as in the paper, or "zero-one", the share of
        errors.
    judge
        Risks by which w and w' are compared in a reactive state. "training", as in the paper: the risks on the last
        batch and on T after learning them. "prequential": the risks on each batch before learning it, summed over T
        without the first one, when w' was untrained, so that r must be at least 2, and w predicts until the second.
        A regression, whose risks vary more, needs a risk a third lower to predict, and to replace w a lower one on
        the last batch, too. A learner that can fit its training rows perfectly always has a low risk on them, and a
        new regression has one because it knows the level of the last rows; so "auto" is "prequential" for
        regression, for learners with the capability ``can_memorise`` and with ``significance``, else "training". A
        learner with that capability often forgets by itself, so that w' needs more evidence: the greedy policy is
        not applied while it has lost more than it gained in earlier reactive states, and a regression needs a risk
        that is lower by delta / 5 on every batch to replace w.
    threshold_unit
        "risk": thresholds are in units of the learner's risk. "trivial": they are multiplied by the risk of
        predicting the mean of the previous batch and divided by ln 2, the log loss of a coin toss, so that 0.1
        means the same for a regression in any unit as for log loss. "auto" is "trivial" for regression, else
        "risk".
    significance
        For batches of few rows, whose risks are noisy; try 1. Then R_b is the usual risk of w, its mean over the
        last 32 batches or so, since the lowest of many noisy risks is low by chance; and w' replaces w, or predicts
        in its place, only if its mean lead over T so far is more than this many standard errors of that mean. It
        needs the prequential judge and r of at least 3. 0 is the paper's rule.
    class_share
        w' neither predicts nor replaces w before it has seen every class that makes up this share of the last rows
        of w, unless w is worse than a coin toss (a risk above ln 2). Where a class is absent for a while, a model
        that does not know it looks better, until the class returns. The last rows are those of eight reactive
        states, as far as the learner keeps them. 0 is the paper's rule.
    budget
        "each" gives rho gradients to every model in training, "divided" splits rho between them.
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
    >>> import numpy as np
    >>> from driftsurf.streams import Mixed
    >>> model = DriftSurfClassifier(random_state=0)
    >>> errors = [(model.test_then_train(X, y) != y).mean() for X, y in Mixed().batches(1000)]
    >>> print(f"{np.mean(errors):.2f}")
    0.20
    >>> [(transition.kind, transition.step) for transition in model.journal_.transitions[:2]]
    [('entered', 20), ('greedy', 20)]
    """

    _strategy_class = DriftSurf

    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        threshold: float = 0.1,
        stable_threshold: float | None = None,
        reactive_length: int = 4,
        greedy: bool = True,
        variant: Variant = "algorithm-1",
        risk: RiskName = "loss",
        judge: Judge = "auto",
        threshold_unit: ThresholdUnit = "auto",
        significance: float = 0.0,
        class_share: float = 0.01,
        budget: BudgetRule = "each",
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        classes: Classes | None = None,
        random_state: RandomState = None,
    ) -> None:
        super().__init__(learner, batch_size=batch_size, guard=guard, classes=classes, random_state=random_state)
        self.threshold = threshold
        self.stable_threshold = stable_threshold
        self.reactive_length = reactive_length
        self.greedy = greedy
        self.variant = variant
        self.risk = risk
        self.judge = judge
        self.threshold_unit = threshold_unit
        self.significance = significance
        self.class_share = class_share
        self.budget = budget
        self.max_rows = max_rows
        self.dtype = dtype


class DriftSurfRegressor(AdaptiveRegressor):
    r"""DriftSurf as a scikit-learn regressor.

    DriftSurf: learn a second model at a sign of drift, and keep the better of the two.

    Every call of ``partial_fit`` or ``test_then_train`` is one time step, unless ``batch_size`` is set.
    :class:`driftsurf.strategies.DriftSurf` describes the method.

    Parameters
    ----------
    learner
        Template of the models: a learner of :mod:`driftsurf.learners`, any regressor of scikit-learn or river, or
        an adapter of :mod:`driftsurf.learners.foreign`. None means ``LinearRegression()``.
    threshold
        delta, the tolerated rise of the risk.
    stable_threshold
        delta'; None means threshold / 2.
    reactive_length
        r, the number of batches in a reactive state.
    greedy
        Whether the better model predicts inside a reactive state. If False, w predicts until the end of it.
    variant
        "algorithm-1". "authors" is the old spelling of the strategy "driftsurf-authors", the authors' published
        code.
    risk
        Risk by which models are compared: "loss" with the penalty, as in the paper, or "zero-one", the share of
        errors.
    judge
        Risks by which w and w' are compared in a reactive state. "training", as in the paper: the risks on the last
        batch and on T after learning them. "prequential": the risks on each batch before learning it, summed over T
        without the first one, when w' was untrained, so that r must be at least 2, and w predicts until the second.
        A regression, whose risks vary more, needs a risk a third lower to predict, and to replace w a lower one on
        the last batch, too. A learner that can fit its training rows perfectly always has a low risk on them, and a
        new regression has one because it knows the level of the last rows; so "auto" is "prequential" for
        regression, for learners with the capability ``can_memorise`` and with ``significance``, else "training". A
        learner with that capability often forgets by itself, so that w' needs more evidence: the greedy policy is
        not applied while it has lost more than it gained in earlier reactive states, and a regression needs a risk
        that is lower by delta / 5 on every batch to replace w.
    threshold_unit
        "risk": thresholds are in units of the learner's risk. "trivial": they are multiplied by the risk of
        predicting the mean of the previous batch and divided by ln 2, the log loss of a coin toss, so that 0.1
        means the same for a regression in any unit as for log loss. "auto" is "trivial" for regression, else
        "risk".
    significance
        For batches of few rows, whose risks are noisy; try 1. Then R_b is the usual risk of w, its mean over the
        last 32 batches or so, since the lowest of many noisy risks is low by chance; and w' replaces w, or predicts
        in its place, only if its mean lead over T so far is more than this many standard errors of that mean. It
        needs the prequential judge and r of at least 3. 0 is the paper's rule.
    class_share
        w' neither predicts nor replaces w before it has seen every class that makes up this share of the last rows
        of w, unless w is worse than a coin toss (a risk above ln 2). Where a class is absent for a while, a model
        that does not know it looks better, until the class returns. The last rows are those of eight reactive
        states, as far as the learner keeps them. 0 is the paper's rule.
    budget
        "each" gives rho gradients to every model in training, "divided" splits rho between them.
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
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> model = DriftSurfRegressor(random_state=0)
    >>> for step in range(30):  # the slope turns around at step 15
    ...     X = rng.normal(size=(100, 1))
    ...     y = 1e6 + (2e3 if step < 15 else -2e3) * X[:, 0] + rng.normal(size=100)
    ...     model = model.partial_fit(X, y)
    >>> [(transition.kind, transition.step) for transition in model.journal_.transitions]
    [('entered', 15), ('greedy', 16), ('switched', 18)]
    """

    _strategy_class = DriftSurf

    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        threshold: float = 0.1,
        stable_threshold: float | None = None,
        reactive_length: int = 4,
        greedy: bool = True,
        variant: Variant = "algorithm-1",
        risk: RiskName = "loss",
        judge: Judge = "auto",
        threshold_unit: ThresholdUnit = "auto",
        significance: float = 0.0,
        class_share: float = 0.01,
        budget: BudgetRule = "each",
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        random_state: RandomState = None,
    ) -> None:
        super().__init__(learner, batch_size=batch_size, guard=guard, random_state=random_state)
        self.threshold = threshold
        self.stable_threshold = stable_threshold
        self.reactive_length = reactive_length
        self.greedy = greedy
        self.variant = variant
        self.risk = risk
        self.judge = judge
        self.threshold_unit = threshold_unit
        self.significance = significance
        self.class_share = class_share
        self.budget = budget
        self.max_rows = max_rows
        self.dtype = dtype
