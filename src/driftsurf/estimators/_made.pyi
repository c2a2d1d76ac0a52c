"""Types of the estimators that ``estimator_class`` makes. Made by ``make generate``: do not edit."""

from collections.abc import Collection, Sequence
from typing import Any, Literal

from driftsurf.core.frames import Classes, DetectorLike, LearnerLike, RandomState
from driftsurf.estimators.base import AdaptiveClassifier, AdaptiveRegressor
from driftsurf.strategies._pool import DEFAULT_MAX_ROWS, BudgetRule, RiskName
from driftsurf.strategies.driftsurf import Judge, ThresholdUnit, Variant

class AUEClassifier(AdaptiveClassifier):
    experts: int
    budget: Literal["each", "divided", "equal"]
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        experts: int = 10,
        budget: Literal["each", "divided", "equal"] = "each",
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        classes: Classes | None = None,
        random_state: RandomState = None,
    ) -> None: ...

class AUERegressor(AdaptiveRegressor):
    experts: int
    budget: Literal["each", "divided", "equal"]
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        experts: int = 10,
        budget: Literal["each", "divided", "equal"] = "each",
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        random_state: RandomState = None,
    ) -> None: ...

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
    >>> from driftsurf import AwareClassifier
    >>> from driftsurf.streams import SEA
    >>> stream = SEA(n_rows=20_000)
    >>> model = AwareClassifier(drift_steps=stream.drift_steps(500), random_state=0)
    >>> errors = [(model.test_then_train(X, y) != y).mean() for X, y in stream.batches(500)]
    >>> [transition.step for transition in model.journal_.transitions]
    [10, 20, 30]
    """

    drift_steps: Collection[int]
    informed: Literal["before", "after"]
    max_rows: int | None
    dtype: Literal["float64", "float32"]
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
    ) -> None: ...

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

    drift_steps: Collection[int]
    informed: Literal["before", "after"]
    max_rows: int | None
    dtype: Literal["float64", "float32"]
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
    ) -> None: ...

class CandorClassifier(AdaptiveClassifier):
    experts: int
    decay: float
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        experts: int = 25,
        decay: float = 0.75,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        classes: Classes | None = None,
        random_state: RandomState = None,
    ) -> None: ...

class DiversityPoolClassifier(AdaptiveClassifier):
    detector: Any
    pool_size: int
    test_rows: int
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        detector: DetectorLike | None = None,
        pool_size: int = 10,
        test_rows: int = 400,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        classes: Classes | None = None,
        random_state: RandomState = None,
    ) -> None: ...

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
    >>> from driftsurf import DriftSurfClassifier
    >>> from driftsurf.streams import Mixed
    >>> model = DriftSurfClassifier(random_state=0)
    >>> errors = [(model.test_then_train(X, y) != y).mean() for X, y in Mixed().batches(1000)]
    >>> print(f"{np.mean(errors):.2f}")
    0.20
    >>> [(transition.kind, transition.step) for transition in model.journal_.transitions[:2]]
    [('entered', 20), ('greedy', 20)]
    """

    threshold: float
    stable_threshold: float | None
    reactive_length: int
    greedy: bool
    variant: Variant
    risk: RiskName
    judge: Judge
    threshold_unit: ThresholdUnit
    significance: float
    class_share: float
    budget: BudgetRule
    max_rows: int | None
    dtype: Literal["float64", "float32"]
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
    ) -> None: ...

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
    >>> from driftsurf import DriftSurfRegressor
    >>> rng = np.random.default_rng(0)
    >>> model = DriftSurfRegressor(random_state=0)
    >>> for step in range(30):  # the slope turns around at step 15
    ...     X = rng.normal(size=(100, 1))
    ...     y = 1e6 + (2e3 if step < 15 else -2e3) * X[:, 0] + rng.normal(size=100)
    ...     model = model.partial_fit(X, y)
    >>> [(transition.kind, transition.step) for transition in model.journal_.transitions]
    [('entered', 15), ('greedy', 16), ('switched', 18)]
    """

    threshold: float
    stable_threshold: float | None
    reactive_length: int
    greedy: bool
    variant: Variant
    risk: RiskName
    judge: Judge
    threshold_unit: ThresholdUnit
    significance: float
    class_share: float
    budget: BudgetRule
    max_rows: int | None
    dtype: Literal["float64", "float32"]
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
    ) -> None: ...

class AuthorsDriftSurfClassifier(AdaptiveClassifier):
    threshold: float
    stable_threshold: float | None
    reactive_length: int
    greedy: bool
    risk: RiskName
    threshold_unit: ThresholdUnit
    budget: BudgetRule
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        threshold: float = 0.1,
        stable_threshold: float | None = None,
        reactive_length: int = 4,
        greedy: bool = True,
        risk: RiskName = "loss",
        threshold_unit: ThresholdUnit = "auto",
        budget: BudgetRule = "each",
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        classes: Classes | None = None,
        random_state: RandomState = None,
    ) -> None: ...

class AuthorsDriftSurfRegressor(AdaptiveRegressor):
    threshold: float
    stable_threshold: float | None
    reactive_length: int
    greedy: bool
    risk: RiskName
    threshold_unit: ThresholdUnit
    budget: BudgetRule
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        threshold: float = 0.1,
        stable_threshold: float | None = None,
        reactive_length: int = 4,
        greedy: bool = True,
        risk: RiskName = "loss",
        threshold_unit: ThresholdUnit = "auto",
        budget: BudgetRule = "each",
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        random_state: RandomState = None,
    ) -> None: ...

class DTELClassifier(AdaptiveClassifier):
    experts: int
    budget: BudgetRule
    max_rows: int | None
    dtype: Literal["float64", "float32"]
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
    ) -> None: ...

class DWMClassifier(AdaptiveClassifier):
    beta: float
    period: int
    removal: float
    experts: int
    budget: BudgetRule
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        beta: float = 0.5,
        period: int = 50,
        removal: float = 0.01,
        experts: int = 10,
        budget: BudgetRule = "each",
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        classes: Classes | None = None,
        random_state: RandomState = None,
    ) -> None: ...

class DWMILClassifier(AdaptiveClassifier):
    bags: int
    removal: float
    experts: int
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        bags: int = 11,
        removal: float = 0.1,
        experts: int = 10,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        classes: Classes | None = None,
        random_state: RandomState = None,
    ) -> None: ...

class ExponentialDecayClassifier(AdaptiveClassifier):
    half_life: float
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        half_life: float = 2000.0,
        max_rows: int | None = None,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        classes: Classes | None = None,
        random_state: RandomState = None,
    ) -> None: ...

class ExponentialDecayRegressor(AdaptiveRegressor):
    half_life: float
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        half_life: float = 2000.0,
        max_rows: int | None = None,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        random_state: RandomState = None,
    ) -> None: ...

class LearnNSEClassifier(AdaptiveClassifier):
    experts: int | None
    slope: float
    crossing: float
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        experts: int | None = 100,
        slope: float = 0.5,
        crossing: float = 10.0,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        classes: Classes | None = None,
        random_state: RandomState = None,
    ) -> None: ...

class LinearDecayClassifier(AdaptiveClassifier):
    window: int
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        window: int = 10000,
        max_rows: int | None = None,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        classes: Classes | None = None,
        random_state: RandomState = None,
    ) -> None: ...

class LinearDecayRegressor(AdaptiveRegressor):
    window: int
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        window: int = 10000,
        max_rows: int | None = None,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        random_state: RandomState = None,
    ) -> None: ...

class ObliviousClassifier(AdaptiveClassifier):
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        classes: Classes | None = None,
        random_state: RandomState = None,
    ) -> None: ...

class ObliviousRegressor(AdaptiveRegressor):
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        random_state: RandomState = None,
    ) -> None: ...

class OnePassClassifier(AdaptiveClassifier):
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        classes: Classes | None = None,
        random_state: RandomState = None,
    ) -> None: ...

class OnePassRegressor(AdaptiveRegressor):
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        random_state: RandomState = None,
    ) -> None: ...

class PairedLearnersClassifier(AdaptiveClassifier):
    window: int
    threshold: float
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        window: int = 1000,
        threshold: float = 0.1,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        classes: Classes | None = None,
        random_state: RandomState = None,
    ) -> None: ...

class PERMClassifier(AdaptiveClassifier):
    window: int
    permutations: int
    significance: float
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        window: int = 1000,
        permutations: int = 99,
        significance: float = 0.01,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        classes: Classes | None = None,
        random_state: RandomState = None,
    ) -> None: ...

class PERMRegressor(AdaptiveRegressor):
    window: int
    permutations: int
    significance: float
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        window: int = 1000,
        permutations: int = 99,
        significance: float = 0.01,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        random_state: RandomState = None,
    ) -> None: ...

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

    experts: Sequence[Any] | Literal["light"] | None
    half_life: float
    ridge: float
    max_rows: int | None
    dtype: Literal["float64", "float32"]
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
    ) -> None: ...

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

    experts: Sequence[Any] | Literal["light"] | None
    half_life: float
    ridge: float
    max_rows: int | None
    dtype: Literal["float64", "float32"]
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
    ) -> None: ...

class ResetOnDriftClassifier(AdaptiveClassifier):
    detector: Any
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        detector: DetectorLike | None = None,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        classes: Classes | None = None,
        random_state: RandomState = None,
    ) -> None: ...

class SlidingWindowClassifier(AdaptiveClassifier):
    window: int
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        window: int = 10000,
        max_rows: int | None = None,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        classes: Classes | None = None,
        random_state: RandomState = None,
    ) -> None: ...

class SlidingWindowRegressor(AdaptiveRegressor):
    window: int
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        window: int = 10000,
        max_rows: int | None = None,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        random_state: RandomState = None,
    ) -> None: ...
