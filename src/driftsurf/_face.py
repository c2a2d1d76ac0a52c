"""What the scikit-learn faces share: parameters and conventions around a session."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, column_or_1d

from driftsurf import detectors, learners
from driftsurf._described import described, plain
from driftsurf.adapters import BoostedTrees, as_learner
from driftsurf.base import FloatArray, Learner, Strategy
from driftsurf.errors import CapabilityError, OptionError, ShapeError, StateError
from driftsurf.export import LinearModel, linear_model
from driftsurf.journal import Journal
from driftsurf.labels import Classes
from driftsurf.learners import LinearRegression, LogisticRegression
from driftsurf.runtime import files
from driftsurf.runtime.session import Observation, Session
from driftsurf.state import from_bytes, nest, pick, read_header, to_bytes

FIT_BATCH_ROWS = 1000
"""``fit`` cuts its rows into time steps of this many when there is no ``batch_size``."""

_Made = tuple[Session, dict[str, Any]]


class Adaptive(BaseEstimator):  # type: ignore[misc]
    """All that the faces share; a subclass has the parameters and makes the strategy."""

    learner: Any
    batch_size: int | None
    guard: float | None
    random_state: Any
    _default: ClassVar[type]
    """The learner where none is given."""
    _values: ClassVar[bool]
    """Whether it predicts values."""
    _session: Session
    _params: dict[str, Any]
    """The parameters that the session was made with."""

    if TYPE_CHECKING:  # a subclass has its own; that of a dressed one is made of the options of its strategy

        def __init__(self, learner: Any = None, **options: Any) -> None: ...

    def _strategy(self, learner: Learner, seed: int) -> Strategy:
        raise NotImplementedError

    def _option(self, name: str) -> Any:
        """An option as the strategy takes it."""
        return _own(getattr(self, name))

    # -------------------------------------------------------------------- learning

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Forget everything, then learn the rows in their order, in equal steps of ``batch_size`` (or 1,000) rows."""
        if sample_weight is not None and not np.any(np.asarray(sample_weight)):
            raise ShapeError("sample_weight is zero for every row: there is nothing to learn.")
        session, params = self._new_session()
        size = FIT_BATCH_ROWS if session.batch_size is None else session.batch_size
        session.learn_in_steps(X, _column(y), size, weight=sample_weight)
        self._publish(session, params)
        return self

    def flush(self) -> Self:
        """Make a time step of the rows that wait in the buffer (``batch_size``), if any."""
        if hasattr(self, "_session"):
            self._session.flush()
        return self

    def _learn(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> Self:
        if not hasattr(self, "_session"):
            with self._beginning() as session:
                session.learn(X, _column(y), classes=classes, weight=sample_weight)
        elif classes is not None or sample_weight is not None or not self._session.put(X, y):
            self._session.learn(X, _column(y), classes=classes, weight=sample_weight)
        return self

    def _observe(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> Observation:
        if hasattr(self, "_session"):
            return self._session.observe(X, _column(y), classes=classes, weight=sample_weight)
        with self._beginning() as session:
            return session.observe(X, _column(y), classes=classes, weight=sample_weight)

    def _template(self) -> Learner:
        """The learner; a model from elsewhere in its adapter."""
        learner: Learner = self._default() if self.learner is None else as_learner(self.learner)
        if learner.capabilities.values != self._values:
            wanted = "'regression'" if self._values else "'binary' or 'multiclass'"
            raise CapabilityError(
                f"learner is {learner!r}, whose tasks are {', '.join(sorted(learner.capabilities.tasks))}; "
                f"{type(self).__name__} needs {wanted}"
            )
        return learner

    def _new_session(self) -> _Made:
        """A session with the parameters of this moment; they, too, stay what they are while it lives."""
        params = {name: _own(value) for name, value in self.get_params(deep=False).items() if name != "learner"}
        params["random_state"] = _seed(self.random_state)
        session = Session(
            self._strategy(clone(self._template()), params["random_state"]),
            classes=params.get("classes"),
            batch_size=self.batch_size,
            guard=self.guard,
            owner=type(self).__name__,
        )
        return session, params

    @contextlib.contextmanager
    def _beginning(self) -> Iterator[Session]:
        """The session that is there from now on. Whole time steps that it took before an error stay."""
        session, params = self._new_session()
        try:
            yield session
        finally:
            if session.schema is not None:
                self._publish(session, params)

    def _publish(self, session: Session, params: dict[str, Any]) -> None:
        schema = session.schema
        assert schema is not None
        self._session, self._params = session, params
        self.n_features_in_ = schema.n_features
        if schema.names is not None:
            self.feature_names_in_ = np.array(schema.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    # -------------------------------------------------------------------- predicting

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Labels, or values, by the model that predicts now."""
        check_is_fitted(self)
        return self._session.predict(X)

    @property
    def journal_(self) -> Journal:
        """What was seen and decided at every step: the last 10,000 steps and transitions."""
        check_is_fitted(self)
        return self._session.journal

    @property
    def nbytes_(self) -> int:
        """Bytes held for rows and models."""
        check_is_fitted(self)
        return self._session.strategy.nbytes

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_session")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        with contextlib.suppress(OptionError, CapabilityError):  # a learner that cannot be used is refused later
            tags.input_tags.sparse = self._template().capabilities.sparse
        return tags

    def export(self) -> LinearModel:
        """The model that predicts now as plain arrays, which predict with numpy alone; ``export().to_onnx()`` for ONNX.

        Refused by name unless one linear model predicts (CapabilityError).
        """
        check_is_fitted(self)
        session = self._session
        labels = None if self._values else np.array(session.targets.labels[: session.taught])
        predicting = getattr(session.strategy, "predicting", None)
        return linear_model(predicting, labels, None if session.schema is None else session.schema.names)

    # -------------------------------------------------------------------- state

    def to_bytes(self, *, trust_pickle: bool = False) -> bytes:
        """The whole model, exactly: ``from_bytes`` continues as if there had been no break.

        A learner from elsewhere that only pickle can save is refused by name, unless ``trust_pickle`` is true; whoever
        loads it then has to say so, too. The journal is a record beside the model and not saved; keep it with
        ``journal_.to_jsonl()``, or give it a sink: ``model.journal_.sink = write_line``.
        """
        check_is_fitted(self)
        learner = self._session.strategy.learner
        can = learner.capabilities
        if not can.exact_state and can.state_kind != "pickle":
            raise CapabilityError(f"{type(learner).__name__} has no exact state to save (capability 'exact_state')")
        head = {
            "estimator": type(self).__name__,
            "params": json.dumps(self._params, sort_keys=True, default=plain),
            "learner": type(learner).__name__,
            "learner_params": described(learner),
        }
        return to_bytes(head | nest("session", self._session.state()), trust_pickle=trust_pickle)

    def save(self, path: str | Path, *, trust_pickle: bool = False) -> None:
        """Write ``to_bytes()`` to a file, whole or not at all; the one it replaces is kept as ``path.previous``."""
        files.keep_previous(Path(path), self.to_bytes(trust_pickle=trust_pickle), good=read_header)

    @classmethod
    def load(cls, path: str | Path, learner: Any = None, *, trust_pickle: bool = False) -> Self:
        """The model in a file, as ``from_bytes``. StateWarning if it is damaged and ``path.previous`` was used."""
        return cls.from_bytes(files.read_kept(Path(path), good=read_header), learner, trust_pickle=trust_pickle)

    @classmethod
    def from_bytes(cls, data: bytes, learner: Any = None, *, trust_pickle: bool = False) -> Self:
        """The model that gave these bytes; a ``learner`` from elsewhere, or your own, has to be given again.

        Pickles run code: bytes with one in them are refused unless ``trust_pickle`` is true.
        """
        state = from_bytes(data, trust_pickle=trust_pickle)
        if state.get("estimator") != cls.__name__:
            raise StateError(f"these bytes hold a {state.get('estimator')!r}, not a {cls.__name__}")
        try:
            params = json.loads(str(state["params"]), object_hook=_revived)
            template = _same_learner(learner, str(state["learner"]), str(state["learner_params"]))
            model = cls(template, **params)
            session, params = model._new_session()
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, StateError):
                raise
            raise StateError(f"the parameters in these bytes cannot be read: {error}") from error
        session.restore(pick("session", state))
        if session.schema is None:
            raise StateError("these bytes hold a model that has seen no batch")
        model._publish(session, params)
        return model


class AdaptiveClassifier(ClassifierMixin, Adaptive):  # type: ignore[misc]
    """Learns and predicts classes."""

    _default = LogisticRegression
    _values = False

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn one batch: one time step (with ``batch_size``: as many as become full).

        ``classes`` in the first call makes the set of labels a closed one.
        """
        return self._learn(X, y, classes, sample_weight)

    def test_then_train(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> npt.NDArray[Any]:
        """Predict the batch, then learn it: one time step. Returns the predictions.

        Before the first batch the fresh model predicts, as the paper scores step 0; of the labels of
        that batch only their names are used.
        """
        return self._observe(X, y, classes, sample_weight).labels

    def observe(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Observation:
        """``test_then_train`` with everything there is to know: scores, codes, decisions."""
        return self._observe(X, y, classes, sample_weight)

    def decision_function(self, X: Any) -> FloatArray:
        """Two classes: margins (n,), above 0 means ``classes_[1]``. More: (n, K) in the order of ``classes_``."""
        check_is_fitted(self)
        scores = self._session.scores(X)
        order = np.argsort(self._known)
        if scores.ndim == 1:
            return -scores if len(order) == 2 and order[0] == 1 else scores
        if len(order) > 2:
            return scores[:, order]
        return scores[:, order[1]] - scores[:, order[0]] if len(order) == 2 else scores[:, 0]

    def _has_probabilities(self) -> bool:
        learner = self._session.strategy.learner if hasattr(self, "_session") else self._template()
        if not learner.capabilities.probabilities:
            raise AttributeError(f"{learner!r} has not the capability 'probabilities'")
        return True

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> FloatArray:
        """Probabilities, one column for each of ``classes_``."""
        check_is_fitted(self)
        return self._shares(self._session.scores(X))

    def _shares(self, scores: FloatArray) -> FloatArray:
        """Probabilities of rows that have these scores."""
        known = self._known
        if scores.ndim == 2:
            return np.exp(scores[:, np.argsort(known)])
        if len(known) == 1 or (self._session.steps and self._session.taught == 1):  # one class so far: it is certain
            return np.tile((np.sort(known) == known[0]).astype(np.float64), (len(scores), 1))
        shares = np.exp(-np.logaddexp(0.0, np.column_stack([scores, -scores])))
        return shares[:, np.argsort(known)]

    @property
    def _known(self) -> npt.NDArray[Any]:
        """The known labels by code."""
        targets = self._session.targets
        assert isinstance(targets, Classes)
        return targets.array

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The known labels, sorted."""
        check_is_fitted(self)
        return np.sort(self._known)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        with contextlib.suppress(OptionError, CapabilityError):
            tags.classifier_tags.multi_class = "multiclass" in self._template().capabilities.tasks
        return tags


class AdaptiveRegressor(RegressorMixin, Adaptive):  # type: ignore[misc]
    """Learns and predicts values."""

    _default = LinearRegression
    _values = True

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn one batch: one time step (with ``batch_size``: as many as become full)."""
        return self._learn(X, y, None, sample_weight)

    def test_then_train(self, X: Any, y: Any, sample_weight: Any = None) -> FloatArray:
        """Predict the batch, then learn it: one time step. Returns the predictions, 0 before the first batch."""
        return self._observe(X, y, None, sample_weight).labels

    def observe(self, X: Any, y: Any, sample_weight: Any = None) -> Observation:
        """``test_then_train`` with everything there is to know: values, decisions."""
        return self._observe(X, y, None, sample_weight)


def _same_learner(given: Any, name: str, params: str) -> Learner:
    """The learner of saved bytes: one of ours by name, or the user's own if it is the same."""
    if given is None:
        kind = BoostedTrees if name == BoostedTrees.__name__ else getattr(learners, name, None)
        if not isinstance(kind, type):
            raise StateError(
                f"the learner of these bytes is a {name}: give one like it, as load(path, learner=...) or "
                "from_bytes(data, learner=...)"
            )
        made: Learner = kind(**json.loads(params))
        return made
    theirs = as_learner(given)
    if (type(theirs).__name__, described(theirs)) != (name, params):
        raise StateError(f"the learner of these bytes is {name}({params}), not {given!r}")
    return theirs


def _seed(random_state: Any) -> int:
    """An integer as it is; anything else that scikit-learn takes gives one."""
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        if random_state < 0:
            raise OptionError(f"random_state is {random_state}; give an integer of at least 0, or None")
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def _column(y: Any) -> Any:
    if getattr(y, "ndim", 1) == 2:
        return column_or_1d(y, warn=True)
    return y


def _own(value: Any) -> Any:
    """A part with parameters of its own as a copy, so that they stay what they are while a session lives."""
    return clone(value, safe=False) if hasattr(value, "get_params") else value


def _revived(entry: dict[str, Any]) -> Any:
    """The detector that ``plain`` wrote."""
    if entry.keys() != {"detector", "options"}:
        return entry
    if entry["detector"] not in detectors.__all__:
        raise StateError(f"these bytes name the detector {entry['detector']!r}, which is none of driftsurf.detectors")
    return getattr(detectors, entry["detector"])(**entry["options"])
