"""The scikit-learn faces: parameters and conventions around a session."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d

from driftsurf import learners
from driftsurf.base import FloatArray, Learner, Strategy
from driftsurf.errors import CapabilityError, OptionError, ShapeError, StateError
from driftsurf.journal import Journal
from driftsurf.learners import LogisticRegression, paper_learner
from driftsurf.runtime import files
from driftsurf.runtime.session import Observation, Session
from driftsurf.state import from_bytes, nest, pick, read_header, to_bytes
from driftsurf.strategies import DEFAULT_MAX_ROWS, Aware, BudgetRule, DriftSurf, Variant

__all__ = ["AwareClassifier", "DriftSurfClassifier", "paper"]

FIT_BATCH_ROWS = 1000
"""``fit`` cuts its rows into time steps of this many when there is no ``batch_size``."""


_Made = tuple[Session, dict[str, Any]]


class _AdaptiveClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """All that the faces share; a subclass has the parameters and makes the strategy."""

    learner: Learner | None
    batch_size: int | None
    guard: float | None
    classes: Collection[Any] | None
    random_state: Any
    _session: Session
    _params: dict[str, Any]
    """The parameters that the session was made with."""

    def _strategy(self, learner: Learner, seed: int) -> Strategy:
        raise NotImplementedError

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

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn one batch: one time step (with ``batch_size``: as many as become full).

        ``classes`` in the first call makes the set of labels a closed one.
        """
        with self._taking() as session:
            session.learn(X, _column(y), classes=classes, weight=sample_weight)
        return self

    def test_then_train(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> npt.NDArray[Any]:
        """Predict the batch, then learn it: one time step. Returns the predictions.

        Before the first batch the fresh model predicts, as the paper scores step 0; of the labels of
        that batch only their names are used.
        """
        return self.observe(X, y, classes, sample_weight).labels

    def observe(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Observation:
        """``test_then_train`` with everything there is to know: scores, codes, decisions."""
        with self._taking() as session:
            return session.observe(X, _column(y), classes=classes, weight=sample_weight)

    def flush(self) -> Self:
        """Make a time step of the rows that wait in the buffer (``batch_size``), if any."""
        if hasattr(self, "_session"):
            self._session.flush()
        return self

    def _new_session(self) -> _Made:
        """A session with the parameters of this moment; they, too, stay what they are while it lives."""
        params = self.get_params(deep=False)
        learner = params.pop("learner")
        learner = LogisticRegression() if learner is None else learner
        if isinstance(learner, type) or not all(hasattr(learner, name) for name in ("capabilities", "fresh", "budget")):
            raise OptionError(
                f"learner is {learner!r}, which does not meet driftsurf.base.Learner; use a learner of "
                "driftsurf.learners, or None for LogisticRegression()"
            )
        params["random_state"] = _seed(self.random_state)
        session = Session(
            self._strategy(clone(learner), params["random_state"]),
            classes=self.classes,
            batch_size=self.batch_size,
            guard=self.guard,
            owner=type(self).__name__,
        )
        return session, params

    @contextlib.contextmanager
    def _taking(self) -> Iterator[Session]:
        """The session to learn with. Whole time steps that it took before an error stay."""
        session, params = (self._session, self._params) if hasattr(self, "_session") else self._new_session()
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
        """Labels by the model that predicts now."""
        check_is_fitted(self)
        return self._session.predict(X)

    def decision_function(self, X: Any) -> FloatArray:
        """Margins; above 0 means ``classes_[1]``."""
        check_is_fitted(self)
        scores = self._session.scores(X)
        return -scores if self._reversed else scores

    def predict_proba(self, X: Any) -> FloatArray:
        """Probabilities, one column for each of ``classes_``."""
        check_is_fitted(self)
        scores = self.decision_function(X)
        known = self._session.classes.array
        if len(known) == 1 or (self._session.steps and self._session.taught == 1):  # one class so far: it is certain
            return np.tile((np.sort(known) == known[0]).astype(np.float64), (len(scores), 1))
        positive = np.exp(-np.logaddexp(0.0, -scores))
        return np.column_stack([1.0 - positive, positive])

    @property
    def _reversed(self) -> bool:
        """Whether the codes, which go by appearance, run against the sorted ``classes_``."""
        labels = self._session.classes.array
        return len(labels) == 2 and bool(labels[0] > labels[1])

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The known labels, sorted."""
        check_is_fitted(self)
        return np.sort(self._session.classes.array)

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
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags

    # -------------------------------------------------------------------- state

    def to_bytes(self) -> bytes:
        """The whole model, exactly: ``from_bytes`` continues as if there had been no break.

        The journal is a record beside the model and not saved; keep it with ``journal_.to_jsonl()``, or
        give it a sink: ``model.journal_.sink = write_line``.
        """
        check_is_fitted(self)
        learner = self._session.strategy.learner
        if not learner.capabilities.exact_state:
            raise CapabilityError(f"{type(learner).__name__} has no exact state to save")
        head = {
            "estimator": type(self).__name__,
            "params": json.dumps(self._params, sort_keys=True, default=_plain),
            "learner": type(learner).__name__,
            "learner_params": json.dumps(learner.get_params(), sort_keys=True, default=_plain),
        }
        return to_bytes(head | nest("session", self._session.state()))

    def save(self, path: str | Path) -> None:
        """Write ``to_bytes()`` to a file, whole or not at all; the one it replaces is kept as ``path.previous``."""
        files.keep_previous(Path(path), self.to_bytes(), good=read_header)

    @classmethod
    def load(cls, path: str | Path, learner: Learner | None = None) -> Self:
        """The model in a file, as ``from_bytes``. StateWarning if it is damaged and ``path.previous`` was used."""
        return cls.from_bytes(files.read_kept(Path(path), good=read_header), learner)

    @classmethod
    def from_bytes(cls, data: bytes, learner: Learner | None = None) -> Self:
        """The model that gave these bytes; a ``learner`` of your own has to be given again."""
        state = from_bytes(data)
        if state.get("estimator") != cls.__name__:
            raise StateError(f"these bytes hold a {state.get('estimator')!r}, not a {cls.__name__}")
        try:
            params, learner_params = (json.loads(str(state[key])) for key in ("params", "learner_params"))
            model = cls(_same_learner(learner, str(state["learner"]), learner_params), **params)
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


class DriftSurfClassifier(_AdaptiveClassifier):
    """A classifier for two classes that stays right while the world changes: DriftSurf around a learner.

    Each ``partial_fit`` or ``test_then_train`` is one time step. In its stable state the model
    watches for a rise of its risk; in its reactive state a fresh model competes with the old one
    until the evidence decides. ``journal_`` says what was decided and why. Named columns may come in
    any order. ``sample_weight`` scales the gradient and the loss of a row. ``predict`` uses the model as
    the last whole time step left it: rows that wait in the buffer do not show yet.

    Parameters
    ----------
    learner
        The template of its models; None means ``LogisticRegression(step_size="auto")``.
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
        learner: Learner | None = None,
        *,
        threshold: float = 0.1,
        stable_threshold: float | None = None,
        reactive_length: int = 4,
        greedy: bool = True,
        variant: Variant = "algorithm-1",
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
            budget=self.budget,
            max_rows=self.max_rows,
            dtype=self.dtype,
            seed=seed,
        )


class AwareClassifier(_AdaptiveClassifier):
    """The oracle to measure against: begins anew at the steps it is told.

    Parameters
    ----------
    learner
        The template of its models; None means ``LogisticRegression(step_size="auto")``.
    drift_steps
        The steps (from 0) whose batch a fresh model predicts and learns.
    batch_size, max_rows, dtype, guard, classes, random_state
        As for :class:`DriftSurfClassifier`.

    Examples
    --------
    >>> from driftsurf.streams import SEA
    >>> stream = SEA(n_rows=20_000)
    >>> model = AwareClassifier(drift_steps=stream.drift_steps(500), random_state=0)
    >>> errors = [(model.test_then_train(X, y) != y).mean() for X, y in stream.batches(500)]
    >>> [transition.step for transition in model.journal_.transitions]
    [10, 20, 30]
    """

    def __init__(
        self,
        learner: Learner | None = None,
        *,
        drift_steps: Collection[int] = (),
        batch_size: int | None = None,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        guard: float | None = 2.0,
        classes: Collection[Any] | None = None,
        random_state: Any = None,
    ) -> None:
        self.learner = learner
        self.drift_steps = drift_steps
        self.batch_size = batch_size
        self.max_rows = max_rows
        self.dtype = dtype
        self.guard = guard
        self.classes = classes
        self.random_state = random_state

    def _strategy(self, learner: Learner, seed: int) -> Strategy:
        return Aware(learner, self.drift_steps, max_rows=self.max_rows, dtype=self.dtype, seed=seed)


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


def _same_learner(given: Learner | None, name: str, params: dict[str, Any]) -> Learner:
    """The learner of saved bytes: one of ours by name, or the user's own if it is the same."""
    if given is None:
        if not isinstance(getattr(learners, name, None), type):
            raise StateError(f"the learner of these bytes is a {name}: give one as from_bytes(data, learner=...)")
        made: Learner = getattr(learners, name)(**params)
        return made
    theirs = type(given).__name__, json.loads(json.dumps(given.get_params(), default=_plain))
    if theirs != (name, params):
        raise StateError(f"the learner of these bytes is {name}({params}), not {given!r}")
    return given


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


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, set | frozenset | range):
        return sorted(value)
    raise StateError(f"a parameter is {value!r}, which cannot be saved; use numbers, text or lists")
