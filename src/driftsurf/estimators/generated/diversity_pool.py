"""DiversityPool as scikit-learn estimators. Made by ``make generate``: do not edit."""

from __future__ import annotations

from typing import Any, Literal

from driftsurf.core.typing import Classes, DetectorLike, LearnerLike, RandomState
from driftsurf.estimators.base import AdaptiveClassifier
from driftsurf.strategies._pool import DEFAULT_MAX_ROWS
from driftsurf.strategies.diversity_pool import DiversityPool

__all__ = ["DiversityPoolClassifier"]


class DiversityPoolClassifier(AdaptiveClassifier):
    r"""Diversity Pool as a scikit-learn classifier.

    Diversity Pool: old models are kept if they are diverse, and the best one returns if its concept does.

    Every call of ``partial_fit`` or ``test_then_train`` is one time step, unless ``batch_size`` is set.
    :class:`driftsurf.strategies.DiversityPool` describes the method.

    Parameters
    ----------
    learner
        Template of the models: a learner of :mod:`driftsurf.learners`, any classifier of scikit-learn or river, or
        an adapter of :mod:`driftsurf.learners.foreign`. None means ``LogisticRegression()``, for two classes;
        ``SoftmaxRegression()`` is for any number of classes.
    detector
        A detector of :mod:`driftsurf.detectors`, or one of river. None means ``MDDM()``.
    pool_size
        The largest number of models, the current one included.
    test_rows
        b, the number of rows after which a model is chosen, rounded up to whole batches.
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
    >>> model = DiversityPoolClassifier(random_state=0)
    >>> for X, y in SEA(n_rows=2_000).batches(200):
    ...     model = model.partial_fit(X, y)
    >>> model.score(X, y) > 0.7
    True
    """

    _strategy_class = DiversityPool

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
    ) -> None:
        super().__init__(learner, batch_size=batch_size, guard=guard, classes=classes, random_state=random_state)
        self.detector: Any = detector
        self.pool_size = pool_size
        self.test_rows = test_rows
        self.max_rows = max_rows
        self.dtype = dtype
