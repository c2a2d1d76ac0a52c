"""Base classes of the scikit-learn estimators: how they learn, predict and are saved."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, cast

import numpy as np
import numpy.typing as npt

from driftsurf import registry
from driftsurf.core.changes import ChangeLock
from driftsurf.core.contracts import Learner, Strategy
from driftsurf.core.drifts import DRIFT_RISK, SMALLEST_RISE
from driftsurf.core.frames import LearnerLike, RandomState, TableLike
from driftsurf.errors import CapabilityError, StateError
from driftsurf.errors._runs import reading_saved_options
from driftsurf.estimators._parameters import copied, option_of, seed_of
from driftsurf.estimators._sklearn import BaseEstimator, check_is_fitted, clone
from driftsurf.session.drift_monitor import DriftMonitor
from driftsurf.session.session import Session

if TYPE_CHECKING:
    from driftsurf.data.row_encoder import FrameEncoder
import json
from pathlib import Path
from typing import TYPE_CHECKING

from driftsurf.core import files
from driftsurf.core.abilities import SinglePredictor, work_of
from driftsurf.core.contracts import FloatArray
from driftsurf.core.drifts import Drifts, InputChanges
from driftsurf.core.fields import misfit
from driftsurf.core.frames import Classes, TargetLike
from driftsurf.core.journal import Journal
from driftsurf.core.state import from_bytes, pick, read_header
from driftsurf.core.targets import ClassTargets, RegressionTargets
from driftsurf.core.views import Experts
from driftsurf.errors import OptionError, ShapeError
from driftsurf.estimators._parameters import as_column, fit_rows
from driftsurf.estimators._sklearn import ClassifierMixin, RegressorMixin, available_if
from driftsurf.session.described import part_from_json, same_learner
from driftsurf.session.observation import Observation
from driftsurf.session.saved import FIELDS, estimator_bytes
from driftsurf.session.snapshot import Snapshot

if TYPE_CHECKING:
    from driftsurf.learners.export import LinearModel


COMMON = "learner", "batch_size", "guard", "classes", "random_state"
"""Parameters of every estimator; all others are options of its strategy."""
_NOT_PICKLED = "_first_call"
_OF_RIVER = "learn_one", "predict_one", "predict_proba_one", "learn_many", "predict_many", "predict_proba_many"
"""Methods of river's models, which estimators have only in a wrapper."""


class Fitted(NamedTuple):
    """Everything that fitting makes, as one value, so that a thread never sees the parts of two models."""

    session: Session
    params: dict[str, Any]
    """The parameters that the session was made with; ``set_params`` does not change them."""
    frames: FrameEncoder | None
    """How tables become rows; None for a model that learns arrays."""

    def rows(self, X: TableLike) -> Any:
        """Return X as the session takes it: a table encoded, an array as it is."""
        return X if self.frames is None else self.frames.rows(X)


class AdaptiveEstimator(BaseEstimator):
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

    learner: Any
    batch_size: int | None
    guard: float | None
    random_state: RandomState

    _strategy_class: ClassVar[Callable[..., Strategy]]
    _default_task: ClassVar[str]
    """The task whose default learner is used when none is given."""
    _fitted: Fitted | None = None
    """None until the first batch has been learned."""
    _drift_options: Mapping[str, float] | None = MappingProxyType({})
    """Options of the monitor for drifts that differ from the defaults; None for no monitor."""

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

    if not TYPE_CHECKING:  # for a type checker, any name would be an attribute

        def __getattr__(self, name: str) -> Any:
            if name in _OF_RIVER:
                wrapper = "OnlineRegressor" if self._default_task == "regression" else "OnlineClassifier"
                raise AttributeError(
                    f"{type(self).__name__} has no {name!r}, which is of river; "
                    f"driftsurf.estimators.river.{wrapper}(model) has it (extra 'river')"
                )
            return object.__getattribute__(self, name)  # raises the error of a property again

    @property
    def n_features_in_(self) -> int:
        """Number of columns of the first batch."""
        session, _, frames = self._known_as("n_features_in_")
        assert session.schema is not None
        return session.schema.n_features if frames is None else frames.n_columns

    @property
    def feature_names_in_(self) -> npt.NDArray[Any]:
        """Names of the columns of the first batch, if it was a table."""
        frames = self._known_as("feature_names_in_").frames
        if frames is None:
            raise AttributeError(f"this {type(self).__name__} has learned an array, whose columns have no names")
        return np.array(frames.columns, dtype=object)

    def _known_as(self, name: str) -> Fitted:
        """Return the fitted part; AttributeError before the first batch, as scikit-learn expects of attributes."""
        if self._fitted is None:
            raise AttributeError(f"this {type(self).__name__} has no {name!r} before it is fitted")
        return self._fitted

    @property
    def _model(self) -> Fitted:
        """The fitted part of the estimator; NotFittedError before the first batch."""
        if self._fitted is None:
            check_is_fitted(self)  # raises scikit-learn's own error; the check is slow, so a fitted model skips it
        assert self._fitted is not None
        return self._fitted

    @property
    def _session(self) -> Session:
        return self._model.session

    def __sklearn_is_fitted__(self) -> bool:
        return self._fitted is not None

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {name: value for name, value in state.items() if name != _NOT_PICKLED}

    # -------------------------------------------------------------------- the first batch

    def _template(self) -> Learner:
        """Return the learner; a model of another library in its adapter."""
        if self.learner is None:
            made: Learner = registry.default("learner", self._default_task).make()
            return made
        from driftsurf.learners.foreign import as_learner

        learner = as_learner(self.learner)
        if (self._default_task == "regression") != learner.capabilities.regression:
            wanted = "'regression'" if self._default_task == "regression" else "'binary' or 'multiclass'"
            raise CapabilityError(
                f"learner is {learner!r}, whose tasks are {', '.join(sorted(learner.capabilities.tasks))}; "
                f"{type(self).__name__} needs {wanted}"
            )
        return learner

    def _own_parameters(self) -> set[str]:
        """Return the parameters that a subclass has in addition to those of its estimator: its strategy has none."""
        known = inspect.signature(type(self)._strategy_class).parameters
        if any(one.kind is one.VAR_KEYWORD for one in known.values()):
            return set()
        return set(self.get_params(deep=False)) - known.keys()

    def new_strategy(self, seed: int) -> Strategy:
        """Return a new strategy with the parameters of this estimator, such as for an expert of a portfolio."""
        params = {name: copied(value) for name, value in self.get_params(deep=False).items() if name != "learner"}
        return self._strategy_around(self._template(), params | {"random_state": seed})

    def _strategy_around(self, learner: Learner, params: Mapping[str, Any]) -> Strategy:
        options = {
            name: option_of(name, value)
            for name, value in params.items()
            if name not in COMMON and name not in self._own_parameters()
        }
        return type(self)._strategy_class(clone(learner), **options, seed=params["random_state"])

    def _new_session(self, learner: Learner, frames: FrameEncoder | None = None) -> tuple[Session, dict[str, Any]]:
        """Make a session around a learner, for rows that ``frames`` encodes; return the parameters with it."""
        params = {name: copied(value) for name, value in self.get_params(deep=False).items() if name != "learner"}
        params["random_state"] = seed_of(self.random_state)
        strategy = self._strategy_around(learner, params)
        session = Session(
            strategy,
            classes=params.get("classes"),
            batch_size=self.batch_size,
            guard=self.guard,
            owner=type(self).__name__,
            categories=tuple if frames is None else frames.encoder.categories,
            monitor=self._monitor(regression=learner.capabilities.regression),
        )
        return session, params

    def set_drift_monitor(
        self, *, smallest_rise: float = SMALLEST_RISE, drift_risk: float = DRIFT_RISK, enabled: bool = True
    ) -> Self:
        """Choose what counts as a drift, before the first batch; return the estimator.

        Parameters
        ----------
        smallest_rise
            Smallest rise of the error that is a drift: a share of rows, or of four times the usual error in regression.
        drift_risk
            Largest probability with which data without a change are reported as a drift, however many rows come.
        enabled
            False turns the detection off; ``drifts_`` stays empty.
        """
        if self._fitted is not None:
            raise StateError("the model has learned rows; call set_drift_monitor() before the first batch")
        options = {"smallest_rise": smallest_rise, "drift_risk": drift_risk}
        DriftMonitor(regression=False, **options)
        self._drift_options = options if enabled else None
        return self

    def _monitor(self, *, regression: bool) -> DriftMonitor | None:
        options = self._drift_options
        return None if options is None else DriftMonitor(regression=regression, **options)

    def make_session(self) -> Session:
        """Return a session with the parameters of this estimator that has seen no row, for arrays of numbers."""
        return self._new_session(self._template())[0]

    def _first_frames(self, X: TableLike, learner: Learner) -> FrameEncoder | None:
        """Return the encoder that a first table fixes; None for an array."""
        if isinstance(X, np.ndarray | list):
            return None
        from driftsurf.data.frames import is_table
        from driftsurf.data.row_encoder import FrameEncoder

        if not is_table(X):
            return None
        # A model of a run still ignores the label and the columns that the run left out when it is fitted again.
        before = None if self._fitted is None else self._fitted.frames
        ignored = () if before is None else before.ignored
        return FrameEncoder.of(X, sparse=learner.capabilities.sparse, ignored=ignored)

    @contextlib.contextmanager
    def _first_session(self, X: TableLike) -> Iterator[Fitted]:
        """Make the session of the first batch, unless another thread has just done it.

        It is kept even if a later time step of the same call fails.
        """
        with vars(self).setdefault(_NOT_PICKLED, ChangeLock()):
            if self._fitted is not None:
                yield self._fitted
                return
            made = self._made_for(X)
            try:
                yield made
            finally:
                if made.session.schema is not None:
                    self._publish(made)

    def _made_for(self, X: TableLike) -> Fitted:
        """Return a session that has learned nothing, with the encoder that a first table fixes."""
        learner = self._template()
        frames = self._first_frames(X, learner)
        return Fitted(*self._new_session(learner, frames), frames)

    def _publish(self, made: Fitted) -> None:
        if made.frames is not None:
            made.session.name_columns(tuple(made.frames.encoder.feature_names()))
        self._fitted = made

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
        session.learn_in_steps(rows, _targets(y), size, weight=sample_weight)
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
                first.session.learn(first.rows(X), _targets(y), classes=classes, weight=sample_weight)
            return self
        fitted.session.learn(fitted.rows(X), _targets(y), classes=classes, weight=sample_weight, decided=False)
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

    # -------------------------------------------------------------------- saving

    def to_bytes(self, *, trust_pickle: bool = False) -> bytes:
        """Return the whole model as bytes; ``from_bytes`` resumes it exactly.

        A learner of another library that only pickle can save is refused by name unless ``trust_pickle`` is true; then
        it has to be true for loading, too. The journal is not saved with the model; keep it with
        ``journal_.to_jsonl()``, or set ``model.journal_.sink = write_line``.
        """
        session, params, frames = self._model
        return estimator_bytes(type(self).__name__, params, session, frames, trust_pickle=trust_pickle)

    def save(self, path: str | Path, *, trust_pickle: bool = False) -> None:
        """Write ``to_bytes()`` to a file, completely or not at all; a previous file is renamed to ``path.previous``."""
        files.write_with_backup(Path(path), self.to_bytes(trust_pickle=trust_pickle), good=read_header)

    @classmethod
    def load(cls, path: str | Path, learner: LearnerLike | None = None, *, trust_pickle: bool = False) -> Self:
        """Load a model that ``save`` wrote; the arguments are those of ``from_bytes``.

        StateWarning if the file is damaged and ``path.previous`` was loaded instead.
        """
        return cls.from_bytes(files.read_with_backup(Path(path), good=read_header), learner, trust_pickle=trust_pickle)

    @classmethod
    def from_bytes(cls, data: bytes, learner: LearnerLike | None = None, *, trust_pickle: bool = False) -> Self:
        """Return the model that ``to_bytes`` was called on.

        Parameters
        ----------
        data
            The saved bytes.
        learner
            The learner, if it is one of another library; one of a registered class is restored from the bytes.
        trust_pickle
            Whether to load bytes that hold a pickle. Pickles can run any code: trust only files of your own.
        """
        return cls.from_state(from_bytes(data, trust_pickle=trust_pickle), learner)

    @classmethod
    @reading_saved_options()
    def from_state(cls, state: Mapping[str, Any], learner: LearnerLike | None = None) -> Self:
        """Return the model with these saved entries, as :func:`driftsurf.core.state.from_bytes` reads them."""
        if str(state.get("estimator")) != cls.__name__:
            raise StateError(f"these bytes hold a {state.get('estimator')!r}, not a {cls.__name__}", entry="estimator")
        known = FIELDS.read(state)
        try:
            params = json.loads(known["params"], object_hook=part_from_json)
            template = same_learner(learner, known["learner"], known["learner_params"])
            model = cls(template, **params)
            session, params = model._new_session(model._template())
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, StateError):
                raise
            raise StateError(f"the parameters in these bytes cannot be read: {error}") from error
        session.restore(pick("session", state))
        if session.schema is None:
            raise StateError("these bytes hold a model that has not learned any batch")
        frames = None
        if encoder := pick("encoder", state):
            from driftsurf.data.row_encoder import FrameEncoder

            frames = FrameEncoder.from_state(encoder)
            if frames.encoder.width != session.schema.n_features:
                raise misfit(encoder, "parts", f"make {frames.encoder.width} columns, not {session.schema.n_features}")
        model._publish(Fitted(session, params, frames))
        return model


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

    def _has_intervals(self) -> bool:
        if getattr(self._strategy_class, "half_width", None) is None:
            raise AttributeError(f"{type(self).__name__} has no intervals; recommended(task='regression') has")
        return True

    @available_if(_has_intervals)
    def predict_interval(self, X: TableLike, coverage: float = 0.9) -> FloatArray:
        """Return an interval for the number of each row, an array (rows, 2), that holds the share ``coverage`` of them.

        Portfolios alone have intervals, by adaptive conformal inference: they widen where errors grow, so that in the
        long run the share of numbers inside is right, however the data drifts. That is a share of all rows: a single
        row may be harder than others. Labels that come late make it smaller, since errors are those of predictions from
        just before a row was learned. Before the second batch, intervals are infinite.

        Examples
        --------
        >>> import numpy as np
        >>> from driftsurf import recommended
        >>> random = np.random.default_rng(0)
        >>> model = recommended("light", task="regression", random_state=0)
        >>> for _ in range(10):
        ...     X = random.normal(size=(100, 1))
        ...     model = model.partial_fit(X, 3.0 * X[:, 0] + random.normal(size=100))
        >>> low, high = model.predict_interval([[0.5]], coverage=0.9)[0]
        >>> bool(low < 1.5 < high)
        True
        """
        fitted = self._model
        # Numbers and widths are of the same step, whatever another thread learns meanwhile.
        now, scores = fitted.session.scores_and_classes(fitted.rows(X))
        predicted = now.targets.decode(now.targets.predicted(scores))
        width = cast("Any", fitted.session.strategy).half_width(coverage, now.scorer)
        return np.column_stack([predicted - width, predicted + width])


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
        seen = session.observe(rows, _targets(y), classes=classes, weight=sample_weight, decided=decided)
        journal = session.journal
        next_row = journal.rows_seen + session.rows_pending
        journal.predictions.add(next_row, seen.true, seen.predicted, seen.scores, seen.probabilities)
    return seen


def _targets(y: TargetLike) -> TargetLike:
    return as_column(y) if getattr(y, "ndim", 1) == 2 else y


def _labels(targets: ClassTargets | RegressionTargets) -> npt.NDArray[Any]:
    """Return the known labels by code."""
    assert isinstance(targets, ClassTargets)
    return targets.array
