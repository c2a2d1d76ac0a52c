"""The fitted part of an estimator: its session, its parameters and the encoding of tables, made by the first batch."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from driftsurf import registry
from driftsurf.core.contracts import Learner, Strategy
from driftsurf.core.drifts import DRIFT_RISK, SMALLEST_RISE
from driftsurf.core.forks import ChangeLock
from driftsurf.core.typing import LearnerLike, RandomState, TableLike
from driftsurf.errors import CapabilityError, StateError
from driftsurf.estimators._parameters import copied, option_of, seed_of
from driftsurf.estimators._sklearn import BaseEstimator, check_is_fitted, clone
from driftsurf.session.drift_monitor import DriftMonitor
from driftsurf.session.session import Session

if TYPE_CHECKING:
    from driftsurf.data.frame_encoder import FrameEncoder

__all__ = ["Fitted", "FittedEstimator"]

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


class FittedEstimator(BaseEstimator):
    """Estimator with a session of its own, which the first batch makes."""

    learner: Any
    batch_size: int | None
    guard: float | None
    random_state: RandomState

    if TYPE_CHECKING:

        def __init__(self, learner: LearnerLike | None = None, **options: Any) -> None: ...

    _strategy_class: ClassVar[Callable[..., Strategy]]
    _default_task: ClassVar[str]
    """The task whose default learner is used when none is given."""
    _fitted: Fitted | None = None
    """None until the first batch has been learned."""
    _drift_options: Mapping[str, float] | None = MappingProxyType({})
    """Options of the monitor for drifts that differ from the defaults; None for no monitor."""

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
        from driftsurf.data.frame_encoder import FrameEncoder
        from driftsurf.data.frames import is_table

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
