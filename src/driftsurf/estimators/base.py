"""Base classes of the scikit-learn estimators: parameters and conventions around a session."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from driftsurf import registry
from driftsurf.core import files
from driftsurf.core.abilities import SinglePredictor
from driftsurf.core.contracts import FloatArray, Learner, Strategy
from driftsurf.core.journal import Journal
from driftsurf.core.state import from_bytes, pick, read_header
from driftsurf.core.targets import ClassTargets, RegressionTargets
from driftsurf.core.typing import Classes, LearnerLike, RandomState, TableLike, TargetLike
from driftsurf.data.frame_encoder import FrameEncoder
from driftsurf.data.frames import is_table
from driftsurf.errors import CapabilityError, OptionError, ShapeError, StateError
from driftsurf.estimators._parameters import (
    as_column,
    copied,
    detector_from_json,
    detector_of,
    fit_rows,
    same_learner,
    seed_of,
)
from driftsurf.estimators._sklearn import (
    BaseEstimator,
    ClassifierMixin,
    RegressorMixin,
    available_if,
    check_is_fitted,
    clone,
)
from driftsurf.estimators.saved import estimator_bytes
from driftsurf.learners.export import LinearModel, linear_model
from driftsurf.learners.foreign import as_learner
from driftsurf.session.observation import Observation
from driftsurf.session.session import Session

__all__ = ["AdaptiveClassifier", "AdaptiveEstimator", "AdaptiveRegressor"]

COMMON = "learner", "batch_size", "guard", "classes", "random_state"
"""Parameters of every estimator; all others are options of its strategy."""


class AdaptiveEstimator(BaseEstimator):
    """Base class of all estimators: a strategy around a learner, with scikit-learn's interface.

    A subclass names its strategy in ``_strategy_class``, and its constructor has the options of that strategy.

    Rows come as arrays of finite numbers, sparse matrices, or tables: frames of pandas and polars, tables of pyarrow,
    or dictionaries of columns. A table may have text, categories, dates, booleans and missing values. Its first batch
    decides how columns are encoded (:class:`~driftsurf.data.encoding.TableEncoder`); later tables need the same
    columns, in any order. The encoding is part of the model: it is saved, loaded and copied with it.

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
    """

    learner: Any
    batch_size: int | None
    guard: float | None
    random_state: RandomState
    n_features_in_: int
    feature_names_in_: npt.NDArray[Any]

    _strategy_class: ClassVar[Callable[..., Strategy]]
    _default_task: ClassVar[str]
    """The task whose default learner is used when none is given."""
    _current: Session | None = None
    """None until the first batch has been learned."""
    _frames: FrameEncoder | None = None
    """How tables become rows; None for a model that learns arrays."""
    _params: dict[str, Any]
    """The parameters that the session was made with; ``set_params`` does not change them."""

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
        session, params = self._new_session()
        frames = self._first_frames(X, session)
        rows: Any = X if frames is None else frames.rows(X)
        size = fit_rows(rows) if session.batch_size is None else session.batch_size
        session.learn_in_steps(rows, as_column(y), size, weight=sample_weight)
        self._publish(session, params, frames)
        return self

    def flush(self) -> Self:
        """Learn the rows that wait in the buffer (``batch_size``) as one time step, if there are any."""
        if self._current is not None:
            self._current.flush()
        return self

    def _learn(self, X: TableLike, y: TargetLike, classes: Classes | None, sample_weight: TargetLike | None) -> Self:
        session = self._current
        if session is None:
            with self._first_session(X) as (session, rows):
                session.learn(rows, as_column(y), classes=classes, weight=sample_weight)
            return self
        rows = self._rows(X)
        if classes is not None or sample_weight is not None or not session.try_buffer_one(rows, y):
            session.learn(rows, as_column(y), classes=classes, weight=sample_weight)
        return self

    def _observe(
        self, X: TableLike, y: TargetLike, classes: Classes | None, sample_weight: TargetLike | None
    ) -> Observation:
        session = self._current
        if session is not None:
            seen = session.observe(self._rows(X), as_column(y), classes=classes, weight=sample_weight)
        else:
            with self._first_session(X) as (session, rows):
                seen = session.observe(rows, as_column(y), classes=classes, weight=sample_weight)
        journal = session.journal
        next_row = (journal[-1].rows_seen if len(journal) else 0) + session.rows_pending
        journal.predictions.add(next_row, seen.true, seen.predicted, seen.log_losses)
        return seen

    def _rows(self, X: TableLike) -> Any:
        """Return X as the session takes it: a table encoded, an array as it is."""
        return X if self._frames is None else self._frames.rows(X)

    def _first_frames(self, X: TableLike, session: Session) -> FrameEncoder | None:
        """Return the encoder that a first table fixes; None for an array."""
        if not is_table(X):
            return None
        # A model of a run still ignores the label and the columns that the run left out when it is fitted again.
        ignored = () if self._frames is None else self._frames.ignored
        return FrameEncoder.of(X, sparse=session.strategy.learner.capabilities.sparse, ignored=ignored)

    def _template(self) -> Learner:
        """Return the learner; a model of another library in its adapter."""
        if self.learner is None:
            made: Learner = registry.default("learner", self._default_task).make()
            return made
        learner = as_learner(self.learner)
        if (self._default_task == "regression") != learner.capabilities.regression:
            wanted = "'regression'" if self._default_task == "regression" else "'binary' or 'multiclass'"
            raise CapabilityError(
                f"learner is {learner!r}, whose tasks are {', '.join(sorted(learner.capabilities.tasks))}; "
                f"{type(self).__name__} needs {wanted}"
            )
        return learner

    def _new_session(self) -> tuple[Session, dict[str, Any]]:
        """Make a session with the parameters of this moment, and return these parameters with it."""
        params = {name: copied(value) for name, value in self.get_params(deep=False).items() if name != "learner"}
        params["random_state"] = seed_of(self.random_state)
        options = {
            name: detector_of(value) if name == "detector" else value
            for name, value in params.items()
            if name not in COMMON
        }
        strategy = type(self)._strategy_class(clone(self._template()), **options, seed=params["random_state"])
        session = Session(
            strategy,
            classes=params.get("classes"),
            batch_size=self.batch_size,
            guard=self.guard,
            owner=type(self).__name__,
        )
        return session, params

    @contextlib.contextmanager
    def _first_session(self, X: TableLike) -> Iterator[tuple[Session, Any]]:
        """Make the first session and its first rows. It is kept even if a later time step of the same call fails."""
        session, params = self._new_session()
        frames = self._first_frames(X, session)
        try:
            yield session, X if frames is None else frames.rows(X)
        finally:
            if session.schema is not None:
                self._publish(session, params, frames)

    def _publish(self, session: Session, params: dict[str, Any], frames: FrameEncoder | None) -> None:
        assert session.schema is not None
        if frames is not None:
            session.name_columns(tuple(frames.encoder.feature_names()))
        self._current, self._params, self._frames = session, params, frames
        self.__dict__.pop("feature_names_in_", None)
        if frames is None:
            self.n_features_in_ = session.schema.n_features
        else:
            self.n_features_in_ = frames.n_columns
            self.feature_names_in_ = np.array(frames.columns, dtype=object)

    # -------------------------------------------------------------------- predicting

    @property
    def _session(self) -> Session:
        if self._current is None:
            check_is_fitted(self)  # raises scikit-learn's own error; the check is slow, so a fitted model skips it
        assert self._current is not None
        return self._current

    def predict(self, X: TableLike) -> npt.NDArray[Any]:
        """Predict the label, or the number, of each row with the model that predicts now.

        Rows that wait in the buffer have not been learned yet and do not affect the predictions.
        """
        session = self._session
        return session.predict(self._rows(X))

    @property
    def journal_(self) -> Journal:
        """State, risks and decisions of the last 10,000 time steps and transitions."""
        return self._session.journal

    def report(self, path: str | Path, *, data: str = "data") -> Path:
        """Write a page of the last steps as one HTML file without external references; return its path.

        It shows risks and decisions, and the errors of steps learned with ``test_then_train`` or ``observe``: up to
        10,000 steps and 100,000 rows since this object was made or loaded. ``data`` names the rows in the title.
        """
        session = self._session
        labels = () if self._default_task == "regression" else tuple(np.array(session.targets.labels).tolist())
        registry.get("page", "model").make(type(self).__name__, data, session.journal, labels, Path(path))
        return Path(path)

    @property
    def nbytes_(self) -> int:
        """Bytes held for rows and models."""
        return self._session.strategy.nbytes

    def __sklearn_is_fitted__(self) -> bool:
        return self._current is not None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        with contextlib.suppress(OptionError, CapabilityError):  # fit refuses an unusable learner by name
            tags.input_tags.sparse = self._template().capabilities.sparse
        return tags

    def export(self) -> LinearModel:
        """Return the model that predicts now as plain arrays, which need only numpy; ``to_onnx()`` exports to ONNX.

        CapabilityError unless a single linear model predicts.
        """
        session = self._session
        regression = self._default_task == "regression"
        labels = None if regression else np.array(session.targets.labels[: session.n_classes_learned])
        strategy = session.strategy
        predicting = strategy.predicting if isinstance(strategy, SinglePredictor) else None
        names = None if session.schema is None else session.schema.names
        span = session.targets.limits if isinstance(session.targets, RegressionTargets) else (-np.inf, np.inf)
        return linear_model(predicting, labels, names, session.column_limits, span)

    # -------------------------------------------------------------------- state

    def to_bytes(self, *, trust_pickle: bool = False) -> bytes:
        """Return the whole model as bytes; ``from_bytes`` resumes it exactly.

        A learner of another library that only pickle can save is refused by name unless ``trust_pickle`` is true; then
        it has to be true for loading, too. The journal is not saved with the model; keep it with
        ``journal_.to_jsonl()``, or set ``model.journal_.sink = write_line``.
        """
        return estimator_bytes(
            type(self).__name__, self._params, self._session, self._frames, trust_pickle=trust_pickle
        )

    def save(self, path: str | Path, *, trust_pickle: bool = False) -> None:
        """Write ``to_bytes()`` to a file, completely or not at all; a previous file is kept as ``path.previous``."""
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
        state = from_bytes(data, trust_pickle=trust_pickle)
        if state.get("estimator") != cls.__name__:
            raise StateError(f"these bytes hold a {state.get('estimator')!r}, not a {cls.__name__}")
        try:
            params = json.loads(str(state["params"]), object_hook=detector_from_json)
            template = same_learner(learner, str(state["learner"]), str(state["learner_params"]))
            model = cls(template, **params)
            session, params = model._new_session()
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, StateError):
                raise
            raise StateError(f"the parameters in these bytes cannot be read: {error}") from error
        session.restore(pick("session", state))
        if session.schema is None:
            raise StateError("these bytes hold a model that has not learned any batch")
        encoder = pick("encoder", state)
        frames = FrameEncoder.from_state(encoder) if encoder else None
        if frames is not None and frames.encoder.width != session.schema.n_features:
            raise StateError(f"the saved encoder makes {frames.encoder.width} columns, not {session.schema.n_features}")
        model._publish(session, params, frames)
        return model


class AdaptiveClassifier(ClassifierMixin, AdaptiveEstimator):
    """Base class of the classifiers: see :class:`AdaptiveEstimator`.

    ``classes``, its additional parameter, are the labels, if they are known from the start; None learns them as they
    appear.
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
        return self._observe(X, y, classes, sample_weight).labels

    def observe(
        self, X: TableLike, y: TargetLike, classes: Classes | None = None, sample_weight: TargetLike | None = None
    ) -> Observation:
        """Predict the batch, then learn it; return predictions, scores, class codes and decisions."""
        return self._observe(X, y, classes, sample_weight)

    def decision_function(self, X: TableLike) -> FloatArray:
        """Return margins (n,), positive for ``classes_[1]``; for more classes, a column of scores for each of them."""
        session = self._session
        scores = session.scores(self._rows(X))
        order = np.argsort(self._known)
        if scores.ndim == 1:
            return -scores if len(order) == 2 and order[0] == 1 else scores
        if len(order) > 2:
            return scores[:, order]
        return scores[:, order[1]] - scores[:, order[0]] if len(order) == 2 else scores[:, 0]

    def _has_probabilities(self) -> bool:
        learner = self._template() if self._current is None else self._current.strategy.learner
        if not learner.capabilities.probabilities:
            raise AttributeError(f"{learner!r} has no probabilities (capability 'probabilities')")
        return True

    @available_if(_has_probabilities)
    def predict_proba(self, X: TableLike) -> FloatArray:
        """Return the probability of each class, with a column for each of ``classes_``."""
        session = self._session
        return self._probabilities(session.scores(self._rows(X)))

    def _probabilities(self, scores: FloatArray) -> FloatArray:
        known, session = self._known, self._session
        if scores.ndim == 2:
            return np.exp(scores[:, np.argsort(known)])
        if len(known) == 1 or (session.steps and session.n_classes_learned == 1):
            # Margins need two classes to tell apart: with a single one so far, that class is certain.
            return np.tile((np.sort(known) == known[0]).astype(np.float64), (len(scores), 1))
        shares = np.exp(-np.logaddexp(0.0, np.column_stack([scores, -scores])))
        return shares[:, np.argsort(known)]

    @property
    def _known(self) -> npt.NDArray[Any]:
        """The known labels by code."""
        targets = self._session.targets
        assert isinstance(targets, ClassTargets)
        return targets.array

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The known labels, sorted."""
        return np.sort(self._known)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        with contextlib.suppress(OptionError, CapabilityError):
            strategy = registry.find("strategy", type(self)._strategy_class)
            tasks = self._template().capabilities.tasks if strategy is None or "multiclass" in strategy.tasks else ()
            tags.classifier_tags.multi_class = "multiclass" in tasks
        return tags


class AdaptiveRegressor(RegressorMixin, AdaptiveEstimator):
    """Base class of the regressors: see :class:`AdaptiveEstimator`."""

    _default_task = "regression"

    def partial_fit(self, X: TableLike, y: TargetLike, sample_weight: TargetLike | None = None) -> Self:
        """Learn one batch as one time step; with ``batch_size``, as many time steps as the buffer fills."""
        return self._learn(X, y, None, sample_weight)

    def test_then_train(self, X: TableLike, y: TargetLike, sample_weight: TargetLike | None = None) -> FloatArray:
        """Predict the batch, then learn it as one time step; return the predictions, 0 for the first batch."""
        return self._observe(X, y, None, sample_weight).labels

    def observe(self, X: TableLike, y: TargetLike, sample_weight: TargetLike | None = None) -> Observation:
        """Predict the batch, then learn it; return predictions and decisions."""
        return self._observe(X, y, None, sample_weight)
