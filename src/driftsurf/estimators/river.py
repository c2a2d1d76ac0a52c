"""Estimators and detectors for river: rows are dictionaries, one at a time or as a frame.

>>> from river import datasets, evaluate, metrics
>>> from driftsurf.estimators.river import OnlineClassifier
>>> evaluate.progressive_val_score(datasets.Phishing(), OnlineClassifier(seed=0), metrics.Accuracy(), delay=20)
Accuracy: 8...%
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import numpy as np

from driftsurf.core.contracts import Detector, FloatArray
from driftsurf.core.journal import Journal
from driftsurf.core.options import whole
from driftsurf.data.vocabulary import Vocabulary
from driftsurf.detectors import MDDM
from driftsurf.errors import MissingExtraError
from driftsurf.estimators._made import DriftSurfClassifier, DriftSurfRegressor
from driftsurf.estimators.base import AdaptiveClassifier, AdaptiveEstimator, AdaptiveRegressor
from driftsurf.estimators.online import OnlineEstimator
from driftsurf.learners import LogisticRegression, SoftmaxRegression

try:
    import pandas as pd
    from river import base
except ImportError as _error:  # pragma: no cover  # the tests run with both
    raise MissingExtraError("driftsurf.estimators.river needs river: pip install 'driftsurf[river]'") from _error

if TYPE_CHECKING:  # river has no type annotations

    class _Estimator:
        """Base class of river's models and detectors."""

        def clone(self, new_params: dict[str, Any] | None = None, include_attributes: bool = False) -> Self:
            """Return an untrained model with the same parameters."""
            ...

        @classmethod
        def _unit_test_params(cls) -> Iterator[dict[str, Any]]: ...

    class _Classifier:
        """Base class of river's classifiers that learn mini-batches."""

    class _Regressor:
        """Base class of river's regressors that learn mini-batches."""

    class _Detector(_Estimator):
        """Base class of river's drift detectors with a warning zone."""

        _drift_detected: bool
        _warning_detected: bool

        @property
        def drift_detected(self) -> bool:
            """Whether the last value gave a signal."""
            ...

        @property
        def warning_detected(self) -> bool:
            """Whether the last value gave a warning."""
            ...

        def _reset(self) -> None: ...
else:
    _Estimator, _Classifier, _Regressor = base.Estimator, base.MiniBatchClassifier, base.MiniBatchRegressor
    _Detector = base.DriftAndWarningDetector


M = TypeVar("M", bound=AdaptiveEstimator)


class _OnlineModel(_Estimator, Generic[M]):
    """Base class of the classifier and the regressor."""

    _live: OnlineEstimator | None = None

    def __init__(
        self,
        model: M | None = None,
        *,
        batch_size: int = 100,
        max_features: int = 1024,
        n_hashes: int = 256,
        seed: int | None = None,
    ) -> None:
        self.model = model
        self.batch_size = batch_size
        self.max_features = max_features
        self.n_hashes = n_hashes
        self.seed = seed

    def _default(self) -> M:
        """Return the estimator to use when none is given."""
        raise NotImplementedError

    def _ready(self) -> OnlineEstimator:
        if self._live is None:
            vocabulary = Vocabulary(self.max_features, self.n_hashes)
            model = self._default() if self.model is None else self.model
            batch_size = whole("batch_size", self.batch_size, at_least=1)
            self._live = OnlineEstimator(model, batch_size, vocabulary, self.seed)
        return self._live

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Buffer a row of weight ``w``; every ``batch_size`` rows are learned as one time step."""
        self._ready().learn(x, y, w)

    def learn_many(self, X: pd.DataFrame, y: pd.Series[Any]) -> None:
        """Buffer the rows of a frame one after the other. NaN is a missing value."""
        self._ready().learn_table(_Frame(X), y.tolist())

    def flush(self) -> None:
        """Learn the buffered rows as one time step, if there are any."""
        self._ready().step()

    def predict_one(self, x: Mapping[Any, Any]) -> Any:
        """Predict the label, or the number, of a row."""
        live = self._ready()
        return live.predict(live.row(x))[0]

    def predict_many(self, X: pd.DataFrame) -> pd.Series[Any]:
        """Predict the labels, or the numbers, of the rows of a frame."""
        live = self._ready()
        return pd.Series(live.predict(live.table(_Frame(X))), index=X.index)

    @property
    def journal(self) -> Journal:
        """Decisions of every time step, with their reasons."""
        found: Journal = self._ready().estimator.journal_
        return found


class OnlineClassifier(_OnlineModel[AdaptiveClassifier], _Classifier):
    """Classifier for river: any strategy around any learner.

    Rows are buffered until they make a time step; before the first one it predicts by the frequencies of the labels.
    Names get columns as they appear (see :class:`driftsurf.data.vocabulary.Vocabulary`), text is one-hot, and missing
    values are 0.

    Parameters
    ----------
    model
        An estimator of :mod:`driftsurf` or :mod:`driftsurf.estimators`; None means DriftSurf around
        ``SoftmaxRegression()``, for any number of classes.
    batch_size
        Number of rows in a time step.
    max_features, n_hashes
        How many names get a column of their own, and how many columns all further names share.
    seed
        Seed of every random number.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from driftsurf.estimators import AUEClassifier
    >>> model = OnlineClassifier(AUEClassifier(experts=5), batch_size=50, seed=0)
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    Accuracy: 8...%
    """

    def _default(self) -> AdaptiveClassifier:
        return DriftSurfClassifier(SoftmaxRegression())

    @property
    def _multiclass(self) -> bool:
        return "multiclass" in self._ready().capabilities.tasks

    def predict_proba_one(self, x: Mapping[Any, Any]) -> dict[Any, float]:
        """Return the probability of every label so far."""
        live = self._with_probabilities()
        return live.probabilities(live.row(x))[0]

    def predict_proba_many(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return the probability of every label so far for the rows of a frame, with a column for each label."""
        live = self._with_probabilities()
        return pd.DataFrame(live.probabilities(live.table(_Frame(X))), index=X.index)

    def _with_probabilities(self) -> OnlineEstimator:
        live = self._ready()
        if not live.capabilities.probabilities:
            raise NotImplementedError(
                f"{live.estimator._template()!r} has no probabilities (capability 'probabilities')"
            )
        return live

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"batch_size": 10, "max_features": 4}
        yield {"model": DriftSurfClassifier(LogisticRegression())}


class OnlineRegressor(_OnlineModel[AdaptiveRegressor], _Regressor):
    """Regressor for river: any strategy around any learner.

    Parameters
    ----------
    model
        An estimator of :mod:`driftsurf` or :mod:`driftsurf.estimators`; None means ``DriftSurfRegressor()``.
    batch_size, max_features, n_hashes, seed
        As for :class:`OnlineClassifier`.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> model = OnlineRegressor(batch_size=50, seed=0)
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    MAE: 0...
    """

    def _default(self) -> AdaptiveRegressor:
        return DriftSurfRegressor()


class OnlineDetector(_Detector):
    """A drift detector of driftsurf for river, fed one error at a time: 1 for a wrong prediction.

    Parameters
    ----------
    detector
        One of :mod:`driftsurf.detectors`; None means ``MDDM()``.

    Examples
    --------
    >>> from river import datasets, drift, evaluate, metrics, naive_bayes
    >>> from driftsurf.detectors import DDM
    >>> model = drift.DriftRetrainingClassifier(naive_bayes.GaussianNB(), OnlineDetector(DDM()))
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    Accuracy: 8...%
    """

    _live: Detector | None = None

    def __init__(self, detector: Detector | None = None) -> None:
        super().__init__()
        self.detector = detector

    def update(self, x: float) -> None:
        """Take one error."""
        if self._live is None:
            self._live = (MDDM() if self.detector is None else self.detector).fresh()
        self._live.update([x])
        self._drift_detected, self._warning_detected = self._live.drift, self._live.warning

    def _reset(self) -> None:
        super()._reset()
        if self._live is not None:
            self._live.reset()

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}


class _Frame:
    """A pandas frame as rows with named columns."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self.frame = frame
        self.names = list(frame.columns)

    def __len__(self) -> int:
        return len(self.frame)

    def rows(self) -> Iterator[dict[Any, Any]]:
        columns = (self.frame[name].tolist() for name in self.names)
        return (dict(zip(self.names, row, strict=True)) for row in zip(*columns, strict=True))

    def numbers(self) -> FloatArray | None:
        if not all(isinstance(kind, np.dtype) and kind.kind in "biuf" for kind in self.frame.dtypes):
            return None
        values = self.frame.to_numpy(np.float64)
        return values if np.isfinite(values).all() else None
