"""Adapter of scikit-learn classifiers and regressors, and of others with the same interface."""

from __future__ import annotations

import copy
import functools
import hashlib
import inspect
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from sklearn import config_context
from sklearn.base import BaseEstimator, clone, is_regressor
from sklearn.utils import get_tags

from driftsurf.core.changes import replace
from driftsurf.core.contracts import CSR, Batch, Capabilities, FloatArray, Rows, SampleStore, Segment, State
from driftsurf.core.fields import Fields, Text, misfit
from driftsurf.core.options import choice, number, whole
from driftsurf.core.state import nest, pick
from driftsurf.errors import StateWarning
from driftsurf.learners.foreign._base import (
    COUNTED,
    FittedModel,
    ForeignLearner,
    Risk,
    declared,
    refuse,
    tasks_of,
    visits,
)
from driftsurf.learners.foreign._refitted import Fit

ATOMIC = frozenset({type(None), bool, int, float, str})
"""Types of immutable values, which a copy shares."""
COPYING = frozenset(
    {"__new__", "__slots__", "__getstate__", "__setstate__", "__reduce__", "__reduce_ex__", "__deepcopy__"}
    | {"__getnewargs__", "__getnewargs_ex__", "__getattr__", "__getattribute__", "__setattr__"}
)
"""Methods by which a class can customise how it is copied."""


class SklearnEstimator(Protocol):
    """The members of a scikit-learn classifier or regressor that the adapter uses."""

    def fit(self, X: Any, y: Any) -> Any:
        """Fit the model to rows and targets."""
        ...

    def predict(self, X: Any) -> Any:
        """Predict the target of each row."""
        ...

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments by name."""
        ...


class SklearnLearner(ForeignLearner):
    """A model with ``fit`` and ``predict`` as a base learner: scikit-learn, pipelines, LightGBM, XGBoost.

    A model with ``partial_fit`` learns each batch on arrival and stores no rows. Any other is refitted on its own
    sample set: the last ``rows`` of the rows since it was made. Its random state is set from the strategy's
    seed. An update works on a copy or a new clone, so that it can be undone and a prediction in another thread never
    sees a half-trained model. A refitted model is saved as the rows of its last fit, and refitted when it is loaded;
    one with ``partial_fit`` can only be saved as a pickle.

    Scores are the logarithms of ``predict_proba``, clipped at 1e-15. A model without it predicts only the class, and
    its risk is the share of wrong rows.

    Parameters
    ----------
    estimator
        Template, never fitted itself.
    mode
        "partial_fit", "refit", or "auto": the first if the estimator has it.
    passes
        Budget in visits of rows, as a multiple of the new rows. ``partial_fit`` makes so many passes over the batch
        (None: one). A refit costs one visit for each of its rows, and waits until the budget for them has been saved up
        (None: it never waits).
    rows
        Largest sample set of a refit.
    risk
        What models are compared by. "auto" is log loss with probabilities of at least 0.01, zero-one without
        probabilities, squared error for regression. Also "log", "zero-one", "squared", "absolute", or a function of the
        true codes or numbers and the predicted probabilities or numbers that returns a number for each row.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from driftsurf import DriftSurfClassifier
    >>> from driftsurf.streams import Mixed
    >>> model = DriftSurfClassifier(SklearnLearner(DecisionTreeClassifier(max_depth=6), rows=5_000), random_state=0)
    >>> errors = [(model.test_then_train(X, y) != y).mean() for X, y in Mixed(n_rows=20_000).batches(200)]
    >>> print(f"{np.mean(errors):.2f}")
    0.22
    """

    def __init__(
        self,
        estimator: Any,
        *,
        mode: Literal["auto", "partial_fit", "refit"] = "auto",
        passes: float | None = None,
        rows: int = 10_000,
        risk: Risk = "auto",
    ) -> None:
        self.estimator = estimator
        self.mode = mode
        self.passes = passes
        self.rows = rows
        self.risk: Risk = risk

    # -------------------------------------------------------------------- capabilities

    def _capabilities(self) -> Capabilities:
        regression = is_regressor(self.estimator)
        return Capabilities(
            tasks=tasks_of(regression),
            sparse=bool(get_tags(self.estimator).input_tags.sparse),
            weights=self._weight_name is not None,
            can_memorise=True,
            exact_state=self._keeps_rows,
            state_kind="rows" if self._keeps_rows else "pickle",
            probabilities=not regression and self._offers("predict_proba"),
            grows_classes=self._keeps_rows,
            gradients=False,
        )

    def _offers(self, method: str) -> bool:
        """Return whether the estimator has a method, which can depend on its parameters: a protocol cannot say it."""
        return callable(getattr(self.estimator, method, None))

    @property
    def _keeps_rows(self) -> bool:
        return self.mode == "refit" or (self.mode == "auto" and not self._offers("partial_fit"))

    @property
    def _weight_name(self) -> str | None:
        """Name of the argument ``sample_weight``, with the steps of a pipeline; None if there is none."""
        last, prefix = self.estimator, ""
        while getattr(last, "named_steps", None) is not None:  # a Pipeline, whose module is heavy to import
            name, last = last.steps[-1]
            prefix += f"{name}__"
        known = inspect.signature(last.fit if self._keeps_rows else last.partial_fit).parameters
        return f"{prefix}sample_weight" if "sample_weight" in known else None

    def _check(self) -> None:
        choice("mode", self.mode, ("auto", "partial_fit", "refit"))
        whole("rows", self.rows, at_least=1)
        if self.passes is not None:
            number("passes", self.passes, above=0.0, otherwise=", or None")
        if isinstance(self.estimator, type) or not self._offers("fit"):
            raise refuse(self.estimator, "is not an estimator; pass an object with fit and predict")
        if self.mode == "partial_fit" and not self._offers("partial_fit"):
            raise refuse(self.estimator, "has no partial_fit; use mode='refit' or 'auto'")

    def budget(self, new: Segment) -> int:
        """Return ``passes`` visits for each new row; by default as many as a fit can take."""
        if self.passes is None:
            return self.rows if self._keeps_rows else len(new)
        return visits(self.passes, new)

    # -------------------------------------------------------------------- learning

    def _learn(self, known: FittedModel, samples: SampleStore, new: Segment, steps: int) -> FittedModel:
        if self._keeps_rows:
            return self._refitted(replace(known, lo=max(known.lo, known.hi - self.rows)), samples, steps)
        return self._continued(known, samples.view(new), steps)

    def _continued(self, known: FittedModel, batch: Batch, steps: int) -> FittedModel:
        """Return the model after ``partial_fit`` on a batch. A copy learns, because the undo needs the old model."""
        if steps == 0 or len(batch.y) == 0:
            return known
        model = self._new(known) if known.model is None else copied(known.model)
        first = {} if known.model is not None or known.n_classes == 0 else {"classes": np.arange(known.n_classes)}
        # The rows have been checked already, and the parameters by the first call.
        with config_context(assume_finite=True, skip_parameter_validation=known.model is not None):
            for X, y, weight in _passes(batch, steps):
                X, y, weights = self._counted(X, y, weight)
                if len(y):
                    model.partial_fit(X, y if known.n_classes == 0 else y.astype(np.int64), **first, **weights)
                    first = {}
        return replace(known, model=model, present=np.arange(known.n_classes), gradients=known.gradients + steps)

    def _refitted(self, known: FittedModel, samples: SampleStore, steps: int) -> FittedModel:
        """Refit on the whole sample set if the saved budget covers it; otherwise save the budget."""
        cost, saved = known.hi - known.lo, known.saved + steps
        if cost == 0 or (known.present is not None and saved < cost):
            return replace(known, saved=saved)
        spent = replace(known, saved=min(max(0, saved - cost), self.rows), gradients=known.gradients + cost)
        return self._fitted_on(spent, samples.view(Segment(known.lo, known.hi)))

    def _fitted_on(self, known: FittedModel, batch: Batch) -> FittedModel:
        """Return a new model fitted on these rows; with a single class among them, that class alone is predicted."""
        X, y, weights = self._counted(batch.X, batch.y, batch.weight)
        if len(y) == 0:
            return known
        known = replace(known, fit=Fit.on(batch, known.n_classes))
        if known.n_classes == 0:
            return replace(known, model=self._fit(known, X, y, weights), present=np.zeros(0, np.int64))
        present, codes = np.unique(y.astype(np.int64), return_inverse=True)
        # Many classifiers refuse rows of a single class.
        model = self._fit(known, X, codes, weights) if len(present) > 1 else None
        return replace(known, model=model, present=present)

    def _fit(self, known: FittedModel, X: Any, y: npt.NDArray[Any], weights: Mapping[str, FloatArray]) -> Any:
        """Return a new foreign model, fitted on these rows."""
        return self._new(known).fit(X, y, **weights)

    def _new(self, known: FittedModel) -> Any:
        model = clone(self.estimator)
        names = [name for name in model.get_params() if name.rpartition("__")[2] == "random_state"]
        return model.set_params(**dict.fromkeys(names, known.seed % 2**31)) if names else model

    def _counted(self, X: Rows, y: FloatArray, weight: FloatArray) -> tuple[Any, FloatArray, dict[str, FloatArray]]:
        """Return rows, targets and weights in the form of the model; a copy if it may keep them."""
        matrix = self._matrix(X)
        if (weight == 1.0).all():
            return (matrix.copy() if self._keeps_rows else matrix), y, {}
        name = self._weight_name
        kept = weight > 0.0 if name is not None else weight >= COUNTED
        return matrix[kept], y[kept], {} if name is None else {name: weight[kept]}

    @staticmethod
    def _matrix(X: Rows) -> Any:
        """Return rows in the form that scikit-learn accepts."""
        return csr_array(_slices(X), shape=(len(X.indptr) - 1, X.n_features)) if isinstance(X, CSR) else X

    # -------------------------------------------------------------------- predicting

    def _outputs(self, fitted: FittedModel, X: Rows) -> npt.NDArray[Any]:
        matrix = self._matrix(X)
        with config_context(assume_finite=True):
            if fitted.capabilities.probabilities:
                return np.asarray(fitted.model.predict_proba(matrix))
            predicted = np.asarray(fitted.model.predict(matrix))
        if not fitted.n_classes:
            return predicted
        assert fitted.present is not None
        return np.asarray(predicted[:, None] == np.arange(len(fitted.present)))

    # -------------------------------------------------------------------- state

    def _model_state(self, fitted: FittedModel) -> State:
        if not self._keeps_rows:
            return super()._model_state(fitted)
        if fitted.fit is None:
            return {}
        return nest("fit", fitted.fit.state()) | {"probe_digest": self._probe_digest(fitted)}

    def _model_from(self, fitted: FittedModel, state: Mapping[str, Any]) -> FittedModel:
        if not self._keeps_rows:
            return super()._model_from(fitted, state)
        fit = pick("fit", state)
        if bool(fit) != ("probe_digest" in state):
            raise misfit(state, "probe_digest", "must be there exactly if there is a fit")
        self._expected = state["probe_digest"] if fit else ""
        return replace(fitted, fit=Fit.from_state(fit, fitted.n_classes)) if fit else fitted

    def _fields(self) -> Fields:
        return declared({"probe_digest": Text()}, ["fit"]) if self._keeps_rows else super()._fields()

    def refit(self, samples: SampleStore) -> None:
        """Fit a model that ``from_state`` made on the rows it had; StateWarning if it predicts differently."""
        if self._fitted.fit is None:
            return
        known, fit = self._fitted, self._fitted.fit
        fitted = self._fitted_on(replace(known, n_classes=fit.n_classes), fit.batch(samples))
        assert fitted.fit is not None
        self._fitted = replace(fitted, n_classes=known.n_classes, fit=replace(fitted.fit, rows=fit.rows))
        if self._probe_digest(self._fitted) != self._expected:
            warnings.warn(
                f"{self!r} was refitted on its saved rows and predicts differently: its library has another version, "
                "or its random_state does not fix the model",
                StateWarning,
                stacklevel=2,
            )

    def _probe_digest(self, fitted: FittedModel) -> str:
        """Return a digest of the scores of some rows."""
        assert fitted.fit is not None
        assert fitted.fit.probe is not None
        scores = ForeignLearner._scored(self, fitted, fitted.fit.probe)  # by the library itself, as ever
        return hashlib.sha256(scores.tobytes()).hexdigest()


def copied(model: Any) -> Any:
    """Return a deep copy of a model, three times as fast as ``copy.deepcopy`` if its class does not customise copying.

    Most attributes of a model are plain numbers and text, for each of which deepcopy goes through all its cases.
    """
    if not _is_plain(type(model)):  # type: ignore[arg-type]  # a class is hashable
        return copy.deepcopy(model)
    new = object.__new__(type(model))
    memo = {id(model): new}
    for name, value in vars(model).items():
        new.__dict__[name] = value if type(value) in ATOMIC else copy.deepcopy(value, memo)
    return new


@functools.cache
def _is_plain(kind: type) -> bool:
    """Return whether objects of a class are fully described by their attributes, so that only those need copying."""
    own = [base for base in kind.__mro__ if base not in (BaseEstimator, object)]
    return issubclass(kind, BaseEstimator) and all(COPYING.isdisjoint(vars(base)) for base in own)


def _slices(X: CSR) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    a, b = int(X.indptr[0]), int(X.indptr[-1])
    # Trees and others accept no wider indices.
    width = np.int32 if b - a < 2**31 else np.int64
    return X.data[a:b], X.indices[a:b], (X.indptr - a).astype(width)


def _passes(batch: Batch, steps: int) -> Iterator[tuple[Rows, FloatArray, FloatArray]]:
    """Yield the batch repeatedly until ``steps`` rows were visited; the last time only its last rows."""
    count = len(batch.y)
    while steps > 0:
        first = max(0, count - steps)
        steps -= count - first
        X = batch.X._replace(indptr=batch.X.indptr[first:]) if isinstance(batch.X, CSR) else batch.X[first:]
        yield X, batch.y[first:], batch.weight[first:]
