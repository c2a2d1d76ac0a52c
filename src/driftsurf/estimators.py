"""The scikit-learn faces of DriftSurf."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal, overload

from driftsurf._face import AdaptiveClassifier, AdaptiveRegressor
from driftsurf._options import choice
from driftsurf.adapters import BoostedTrees
from driftsurf.base import Learner, Strategy
from driftsurf.learners import LinearRegression, SoftmaxRegression, paper_learner
from driftsurf.strategies import DEFAULT_MAX_ROWS, BudgetRule, DriftSurf, Judge, Variant

__all__ = ["DriftSurfClassifier", "DriftSurfRegressor", "paper", "recommended"]


class DriftSurfClassifier(AdaptiveClassifier):
    """A classifier that stays right while the world changes: DriftSurf around a learner.

    Each ``partial_fit`` or ``test_then_train`` is one time step. In its stable state the model
    watches for a rise of its risk; in its reactive state a fresh model competes with the old one
    until the evidence decides. ``journal_`` says what was decided and why. Named columns may come in
    any order. ``sample_weight`` scales the gradient and the loss of a row. ``predict`` uses the model as
    the last whole time step left it: rows that wait in the buffer do not show yet.

    Parameters
    ----------
    learner
        The template of its models; None means ``LogisticRegression(step_size="auto")``, for two classes. A learner
        of :mod:`driftsurf.learners` (``SoftmaxRegression`` for more classes), any classifier of scikit-learn or
        river as it is, or an adapter of :mod:`driftsurf.adapters`.
    threshold
        delta: the rise of the risk over the best seen that is a sign of drift.
    stable_threshold
        delta': the same against the stable model; None means threshold / 2.
    reactive_length
        r: how many batches the two models compete.
    greedy
        Whether the better of the two predicts meanwhile.
    variant
        "algorithm-1" of the paper, or "authors" for their published code.
    judge
        How the two are compared: "training", on rows they have learnt, as in the paper; "prequential", by what they
        lost before learning; "auto", the first unless the learner can memorise its rows.
    budget
        "each": the learner's budget for every model in training; "divided": shared between them.
    batch_size
        None: one call is one time step. A number: rows are buffered, and each that many are one.
    max_rows
        At most this many rows are kept to train on, first in, first out. None keeps all.
    dtype
        Type of the kept rows: "float64" or "float32".
    guard
        Rows beyond this many times the usual norm are learnt with a small weight, so that one absurd
        value cannot ruin the model. None for no guard.
    classes
        The labels, if they are known; None learns them as they appear.
    random_state
        An integer makes every run the same.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_
        As everywhere in scikit-learn.
    journal_
        Every step: state, risks, thresholds; every transition and why.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.streams import Mixed
    >>> model = DriftSurfClassifier(random_state=0)
    >>> errors = [(model.test_then_train(X, y) != y).mean() for X, y in Mixed().batches(1000)]
    >>> print(f"{np.mean(errors):.2f}")
    0.20
    >>> print(model.journal_.transitions[0].describe())
    step 20: risk 1.80 > best 0.41 + 0.10: reactive
    """

    def __init__(
        self,
        learner: Any = None,
        *,
        threshold: float = 0.1,
        stable_threshold: float | None = None,
        reactive_length: int = 4,
        greedy: bool = True,
        variant: Variant = "algorithm-1",
        judge: Judge = "auto",
        budget: BudgetRule = "each",
        batch_size: int | None = None,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        guard: float | None = 2.0,
        classes: Collection[Any] | None = None,
        random_state: Any = None,
    ) -> None:
        self.learner = learner
        self.threshold = threshold
        self.stable_threshold = stable_threshold
        self.reactive_length = reactive_length
        self.greedy = greedy
        self.variant = variant
        self.judge = judge
        self.budget = budget
        self.batch_size = batch_size
        self.max_rows = max_rows
        self.dtype = dtype
        self.guard = guard
        self.classes = classes
        self.random_state = random_state

    def _strategy(self, learner: Learner, seed: int) -> Strategy:
        return DriftSurf(
            learner,
            threshold=self.threshold,
            stable_threshold=self.stable_threshold,
            reactive_length=self.reactive_length,
            greedy=self.greedy,
            variant=self.variant,
            judge=self.judge,
            budget=self.budget,
            max_rows=self.max_rows,
            dtype=self.dtype,
            seed=seed,
        )


class DriftSurfRegressor(AdaptiveRegressor):
    """A regressor that stays right while the world changes: DriftSurf around a learner of values.

    As :class:`DriftSurfClassifier`, with thresholds that are relative to the scale of the risk: they are
    multiplied by the risk of the trivial prediction (each batch by the mean of the one before), over ln 2,
    the log loss of tossing a coin. So 0.1 means the same for prices in cents and in millions.

    Parameters
    ----------
    learner
        The template of its models; None means ``LinearRegression()``. Any regressor of scikit-learn or river as
        it is, or an adapter of :mod:`driftsurf.adapters`.
    threshold, stable_threshold
        delta and delta', relative to the trivial risk; None for the second means threshold / 2.
    reactive_length, greedy, judge, budget, batch_size, max_rows, dtype, guard, random_state
        As for :class:`DriftSurfClassifier`.

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
    [('entered', 15), ('greedy', 15), ('switched', 18)]
    """

    def __init__(
        self,
        learner: Any = None,
        *,
        threshold: float = 0.1,
        stable_threshold: float | None = None,
        reactive_length: int = 4,
        greedy: bool = True,
        judge: Judge = "auto",
        budget: BudgetRule = "each",
        batch_size: int | None = None,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        guard: float | None = 2.0,
        random_state: Any = None,
    ) -> None:
        self.learner = learner
        self.threshold = threshold
        self.stable_threshold = stable_threshold
        self.reactive_length = reactive_length
        self.greedy = greedy
        self.judge = judge
        self.budget = budget
        self.batch_size = batch_size
        self.max_rows = max_rows
        self.dtype = dtype
        self.guard = guard
        self.random_state = random_state

    def _strategy(self, learner: Learner, seed: int) -> Strategy:
        return DriftSurf(
            learner,
            threshold=self.threshold,
            stable_threshold=self.stable_threshold,
            reactive_length=self.reactive_length,
            greedy=self.greedy,
            judge=self.judge,
            budget=self.budget,
            max_rows=self.max_rows,
            dtype=self.dtype,
            seed=seed,
        )


def paper(
    step_size: float,
    l2: float,
    *,
    optimizer: Literal["strsaga", "sgd"] = "strsaga",
    steps_per_row: float = 2.0,
    steps_per_batch: int | None = None,
    **options: Any,
) -> DriftSurfClassifier:
    """The paper's model: no scaling, no cap, no guard, a unit intercept, weights from uniform(0, 1).

    The labels are -1 and +1 unless ``classes`` says otherwise. ``options`` are those of
    :class:`DriftSurfClassifier`.

    >>> model = paper(step_size=1e-3, l2=1e-2, random_state=0)
    >>> model.max_rows, model.guard, model.learner.start
    (None, None, 'uniform')
    """
    budget = {"steps_per_row": steps_per_row, "steps_per_batch": steps_per_batch}
    learner = paper_learner(step_size, l2, optimizer=optimizer, **budget)
    return DriftSurfClassifier(learner, **({"max_rows": None, "guard": None, "classes": (-1, 1)} | options))


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
    """The model to begin with, raw columns and no tuning; docs/comparing.md says when which.

    "trees": DriftSurf around LightGBM (:class:`driftsurf.adapters.BoostedTrees`, the extra ``lightgbm``), the most
    accurate. "linear": around softmax regression (any number of classes), for values around linear regression, with
    eight gradients a row, judged prequentially: milliseconds a batch, nothing to install, exact state. ``options`` are
    those of :class:`DriftSurfClassifier`, or with the task "regression" of :class:`DriftSurfRegressor`.

    >>> recommended("linear", random_state=0).judge
    'prequential'
    >>> type(recommended("linear", task="regression").learner).__name__
    'LinearRegression'
    """
    choice("learner", learner, ("trees", "linear"))
    choice("task", task, ("classification", "regression"))
    inner: Learner
    if learner == "trees":
        inner = BoostedTrees(task=task)
    else:
        linear = LinearRegression if task == "regression" else SoftmaxRegression
        inner, options = linear(steps_per_row=8.0), {"judge": "prequential"} | options
    return DriftSurfRegressor(inner, **options) if task == "regression" else DriftSurfClassifier(inner, **options)
