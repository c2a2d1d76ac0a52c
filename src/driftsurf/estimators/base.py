"""Base classes of the scikit-learn estimators: how they learn and predict. What they keep is in ``fitted.py``."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from driftsurf import registry
from driftsurf.core.abilities import SinglePredictor, work_of
from driftsurf.core.contracts import FloatArray
from driftsurf.core.drifts import Drifts, InputChanges
from driftsurf.core.journal import Journal
from driftsurf.core.targets import ClassTargets, RegressionTargets
from driftsurf.core.typing import Classes, LearnerLike, RandomState, TableLike, TargetLike
from driftsurf.core.views import Experts
from driftsurf.errors import CapabilityError, OptionError, ShapeError
from driftsurf.estimators._parameters import as_column, fit_rows
from driftsurf.estimators._sklearn import ClassifierMixin, RegressorMixin, available_if
from driftsurf.estimators.fitted import Fitted
from driftsurf.estimators.saving import SavedEstimator
from driftsurf.session.observation import Observation
from driftsurf.session.snapshot import Snapshot

if TYPE_CHECKING:
    from driftsurf.learners.export import LinearModel

__all__ = ["AdaptiveClassifier", "AdaptiveEstimator", "AdaptiveRegressor"]


class AdaptiveEstimator(SavedEstimator):
    """Base class of all estimators: a strategy around a learner, with scikit-learn's interface.

    A subclass names its strategy in ``_strategy_class``, and its constructor has the options of that strategy.

    Rows come as arrays of finite numbers, sparse matrices, or tables: frames of pandas and polars, tables of pyarrow,
    or dictionaries of columns. A table may have text, categories, dates, booleans and missing values. Its first batch
    decides how columns are encoded (:class:`~driftsurf.data.encoding.TableEncoder`); later tables need the same
    columns, in any order. The encoding is part of the model: it is saved, loaded and copied with it.

    Any number of threads may predict while one learns, without waiting, and see whole steps only. Calls that learn,
    save, export, pickle or copy wait for one another.

    Parameters
    ----------
    learner
        Template of the models; None means the default learner of the task.
    batch_size
        None makes every call one time step. A number buffers rows, and every ``batch_size`` of them are one.
    guard
        Rows beyond this many times the usual norm get a small weight; None for no guard.
    random_state
        An integer makes every run the same.

    Examples
    --------
    >>> from driftsurf import DriftSurfClassifier
    >>> sales = {"price": [9.5, 2.0, None, 1.5] * 25, "city": ["Rome", "Oslo", "Bern", "Rome"] * 25}
    >>> model = DriftSurfClassifier(random_state=0).partial_fit(sales, ["no", "yes", "no", "yes"] * 25)
    >>> isinstance(model, AdaptiveEstimator)
    True
    >>> model.predict({"city": ["Oslo", "Bern"], "price": [2.5, 9.0]})
    array(['yes', 'no'], dtype='<U3')
    """

    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        batch_size: int | None = None,
        guard: float | None = 2.0,
        random_state: RandomState = None,
    ) -> None:
        self.learner = learner
        self.batch_size = batch_size
        self.guard = guard
        self.random_state = random_state

    # -------------------------------------------------------------------- learning

    def fit(self, X: TableLike, y: TargetLike, sample_weight: TargetLike | None = None) -> Self:
        """Forget everything, then learn the rows in order, in equal time steps.

        A time step has ``batch_size`` rows. Without ``batch_size`` it has a fiftieth of the rows, but at least 100 and
        at most 1,000: 5,000 rows make 50 steps of 100 rows, and 100,000 rows make 100 steps of 1,000. All rows of a
        table decide how its columns are encoded.
        """
        if sample_weight is not None and not np.any(np.asarray(sample_weight)):
            raise ShapeError("sample_weight is zero for every row: there is nothing to learn.")
        made = self._made_for(X)
        session, rows = made.session, made.rows(X)
        size = fit_rows(rows) if session.batch_size is None else session.batch_size
        session.learn_in_steps(rows, as_column(y), size, weight=sample_weight)
        self._publish(made)
        return self

    def flush(self) -> Self:
        """Learn the rows that wait in the buffer (``batch_size``) as one time step, if there are any."""
        if self._fitted is not None:
            self._fitted.session.flush()
        return self

    def _learn(self, X: TableLike, y: TargetLike, classes: Classes | None, sample_weight: TargetLike | None) -> Self:
        fitted = self._fitted
        if fitted is None:
            with self._first_session(X) as first:
                first.session.learn(first.rows(X), as_column(y), classes=classes, weight=sample_weight)
            return self
        fitted.session.learn(fitted.rows(X), as_column(y), classes=classes, weight=sample_weight, decided=False)
        return self

    def _observe(
        self,
        X: TableLike,
        y: TargetLike,
        classes: Classes | None,
        sample_weight: TargetLike | None,
        *,
        decided: bool = True,
    ) -> Observation:
        if self._fitted is not None:
            return _observed(self._fitted, X, y, classes, sample_weight, decided)
        with self._first_session(X) as first:
            return _observed(first, X, y, classes, sample_weight, decided)

    # -------------------------------------------------------------------- predicting

    def predict(self, X: TableLike) -> npt.NDArray[Any]:
        """Predict the label, or the number, of each row with the model that predicts now.

        Rows that wait in the buffer have not been learned yet and do not affect the predictions.
        """
        fitted = self._model
        return fitted.session.predict(fitted.rows(X))

    @property
    def drifts_(self) -> Drifts:
        """Drifts of the model so far, oldest first: when its error rose beyond chance, why, and until when."""
        return self._session.drifts

    @property
    def changes_(self) -> InputChanges:
        """Moves of the inputs that did no harm, oldest first."""
        return self._session.changes

    @property
    def experts_(self) -> Experts:
        """Experts of a portfolio or an ensemble with their shares after the last time step of this object.

        Empty for a single model, and after loading until the next time step.
        """
        journal = self._session.journal
        return Experts.of(journal[-1] if len(journal) else None)

    @property
    def journal_(self) -> Journal:
        """State, risks and decisions of the last 10,000 time steps and transitions."""
        return self._session.journal

    def report(self, path: str | Path, *, data: str = "data") -> Path:
        """Write a page of the last steps as one HTML file without external references; return its path.

        It shows risks and decisions, and the errors of steps learned with ``test_then_train`` or ``observe``: up to
        10,000 steps and 100,000 rows (fewer with more than two classes) since this object was made or loaded. ``data``
        names the rows in the title.
        """
        session = self._session
        labels = () if self._default_task == "regression" else tuple(np.array(session.targets.labels).tolist())
        work = work_of(session.strategy)
        registry.get("page", "model").make(type(self).__name__, data, session.journal, labels, Path(path), work)
        return Path(path)

    @property
    def nbytes_(self) -> int:
        """Bytes held for rows and models."""
        return self._session.strategy.nbytes

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        with contextlib.suppress(OptionError, CapabilityError):  # fit refuses an unusable learner by name
            tags.input_tags.sparse = self._template().capabilities.sparse
        return tags

    def export(self) -> LinearModel:
        """Return the model that predicts now as plain arrays, which need only numpy; ``to_onnx()`` exports to ONNX.

        CapabilityError unless a single linear model predicts.
        """
        from driftsurf.learners.export import linear_model

        session = self._session
        with session.lock:  # a compiled step changes its models in place
            session.settle()
            regression = self._default_task == "regression"
            labels = None if regression else np.array(session.targets.labels[: session.n_classes_learned])
            strategy = session.strategy
            predicting = strategy.predicting if isinstance(strategy, SinglePredictor) else None
            names = None if session.schema is None else session.schema.names
            span = session.targets.limits if isinstance(session.targets, RegressionTargets) else (-np.inf, np.inf)
            return linear_model(predicting, labels, names, session.column_limits, span)


class AdaptiveClassifier(ClassifierMixin, AdaptiveEstimator):
    """Base class of the classifiers: see :class:`AdaptiveEstimator`.

    The additional parameter ``classes`` lists the labels if they are known from the start; with None they are learned
    as they appear.

    Examples
    --------
    >>> from driftsurf import DriftSurfClassifier
    >>> X, y = [[9.5], [2.0], [8.0], [1.5]] * 25, ["no", "yes", "no", "yes"] * 25
    >>> model = DriftSurfClassifier(classes=["no", "yes"], random_state=0).partial_fit(X, y)
    >>> model.test_then_train([[2.5], [9.0]], ["yes", "yes"])
    array(['yes', 'no'], dtype='<U3')
    >>> model.predict_proba([[1.0]]).round(1)
    array([[0.3, 0.7]])
    """

    classes: Classes | None
    _default_task = "binary"

    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        batch_size: int | None = None,
        guard: float | None = 2.0,
        classes: Classes | None = None,
        random_state: RandomState = None,
    ) -> None:
        super().__init__(learner, batch_size=batch_size, guard=guard, random_state=random_state)
        self.classes = classes

    def partial_fit(
        self, X: TableLike, y: TargetLike, classes: Classes | None = None, sample_weight: TargetLike | None = None
    ) -> Self:
        """Learn one batch as one time step; with ``batch_size``, as many time steps as the buffer fills.

        ``classes`` in the first call fixes the set of labels.
        """
        return self._learn(X, y, classes, sample_weight)

    def test_then_train(
        self, X: TableLike, y: TargetLike, classes: Classes | None = None, sample_weight: TargetLike | None = None
    ) -> npt.NDArray[Any]:
        """Predict the batch, then learn it as one time step; return the predictions.

        The first batch is predicted by an untrained model, as the paper scores step 0. Only the names of its labels are
        used for that.
        """
        return self._observe(X, y, classes, sample_weight, decided=False).labels

    def observe(
        self, X: TableLike, y: TargetLike, classes: Classes | None = None, sample_weight: TargetLike | None = None
    ) -> Observation:
        """Predict the batch, then learn it; return predictions, scores, class codes and decisions."""
        return self._observe(X, y, classes, sample_weight)

    def decision_function(self, X: TableLike) -> FloatArray:
        """Return margins (n,), positive for ``classes_[1]``; for more classes, a column of scores for each of them."""
        fitted = self._model
        now, scores = fitted.session.scores_and_classes(fitted.rows(X))
        order = np.argsort(_labels(now.targets))
        if scores.ndim == 1:
            return -scores if len(order) == 2 and order[0] == 1 else scores
        if len(order) > 2:
            return scores[:, order]
        return scores[:, order[1]] - scores[:, order[0]] if len(order) == 2 else scores[:, 0]

    def _has_probabilities(self) -> bool:
        learner = self._template() if self._fitted is None else self._fitted.session.strategy.learner
        if not learner.capabilities.probabilities:
            raise AttributeError(f"{learner!r} has no probabilities (capability 'probabilities')")
        return True

    @available_if(_has_probabilities)
    def predict_proba(self, X: TableLike) -> FloatArray:
        """Return the probability of each class, with a column for each of ``classes_``."""
        fitted = self._model
        return self._probabilities(*fitted.session.scores_and_classes(fitted.rows(X)))

    def _probabilities(self, now: Snapshot, scores: FloatArray) -> FloatArray:
        known = _labels(now.targets)
        if scores.ndim == 2:
            return np.exp(scores[:, np.argsort(known)])
        if len(known) == 1 or (now.steps and now.n_classes_learned == 1):
            # Margins need two classes to tell apart: with a single one so far, that class is certain.
            return np.tile((np.sort(known) == known[0]).astype(np.float64), (len(scores), 1))
        shares = np.exp(-np.logaddexp(0.0, np.column_stack([scores, -scores])))
        return shares[:, np.argsort(known)]

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The known labels, sorted."""
        return np.sort(_labels(self._session.targets))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        with contextlib.suppress(OptionError, CapabilityError):
            strategy = registry.find("strategy", type(self)._strategy_class)
            tasks = self._template().capabilities.tasks if strategy is None or "multiclass" in strategy.tasks else ()
            tags.classifier_tags.multi_class = "multiclass" in tasks
        return tags


class AdaptiveRegressor(RegressorMixin, AdaptiveEstimator):
    """Base class of the regressors: see :class:`AdaptiveEstimator`.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf import DriftSurfRegressor
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> model = DriftSurfRegressor(random_state=0).partial_fit(X, 3.0 * X[:, 0])
    >>> model.predict([[0.5]]).round(1)
    array([1.5])
    """

    _default_task = "regression"

    def partial_fit(self, X: TableLike, y: TargetLike, sample_weight: TargetLike | None = None) -> Self:
        """Learn one batch as one time step; with ``batch_size``, as many time steps as the buffer fills."""
        return self._learn(X, y, None, sample_weight)

    def test_then_train(self, X: TableLike, y: TargetLike, sample_weight: TargetLike | None = None) -> FloatArray:
        """Predict the batch, then learn it as one time step; return the predictions, 0 for the first batch."""
        return self._observe(X, y, None, sample_weight, decided=False).labels

    def observe(self, X: TableLike, y: TargetLike, sample_weight: TargetLike | None = None) -> Observation:
        """Predict the batch, then learn it; return predictions and decisions."""
        return self._observe(X, y, None, sample_weight)


def _observed(
    fitted: Fitted,
    X: TableLike,
    y: TargetLike,
    classes: Classes | None,
    sample_weight: TargetLike | None,
    decided: bool,
) -> Observation:
    """Predict and learn rows, and keep their predictions under their numbers.

    Unless ``decided``, nobody needs the decisions now; they are in the journal.
    """
    session, rows = fitted.session, fitted.rows(X)
    with session.lock:  # until the rows are numbered: another thread may learn too
        seen = session.observe(rows, as_column(y), classes=classes, weight=sample_weight, decided=decided)
        journal = session.journal
        next_row = journal.rows_seen + session.rows_pending
        journal.predictions.add(next_row, seen.true, seen.predicted, seen.scores, seen.probabilities)
    return seen


def _labels(targets: ClassTargets | RegressionTargets) -> npt.NDArray[Any]:
    """Return the known labels by code."""
    assert isinstance(targets, ClassTargets)
    return targets.array
