"""Our models and detectors for river: rows are dictionaries, one at a time or as a frame.

>>> from river import datasets, evaluate, metrics
>>> from driftsurf.river import OnlineClassifier
>>> evaluate.progressive_val_score(datasets.Phishing(), OnlineClassifier(seed=0), metrics.Accuracy(), delay=20)
Accuracy: 8...%
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from driftsurf._face import Adaptive
from driftsurf._online import Online
from driftsurf._options import whole
from driftsurf.base import FloatArray
from driftsurf.detectors import MDDM
from driftsurf.errors import MissingExtraError
from driftsurf.estimators import DriftSurfClassifier, DriftSurfRegressor
from driftsurf.journal import Journal
from driftsurf.learners import LogisticRegression, SoftmaxRegression
from driftsurf.vocabulary import Vocabulary

try:
    import pandas as pd
    from river import base
except ImportError as error:  # pragma: no cover  # both are there where this is tested
    raise MissingExtraError("driftsurf.river needs river: pip install 'driftsurf[river]'") from error

__all__ = ["OnlineClassifier", "OnlineDetector", "OnlineRegressor"]


class _OnlineModel(base.Estimator):  # type: ignore[misc]
    """What the classifier and the regressor share."""

    _live: Online

    def __init__(
        self,
        model: Adaptive | None = None,
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

    def _made(self) -> Adaptive:
        """The face in use where none is given."""
        raise NotImplementedError

    def _ready(self) -> Online:
        if not hasattr(self, "_live"):
            words = Vocabulary(self.max_features, self.n_hashes)
            model = self._made() if self.model is None else self.model
            self._live = Online(model, whole("batch_size", self.batch_size, at_least=1), words, self.seed)
        return self._live

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Take a row of weight ``w``; every ``batch_size`` of them are learnt as one time step."""
        self._ready().learn(x, y, w)

    def learn_many(self, X: pd.DataFrame, y: pd.Series[Any]) -> None:
        """The same with a frame: its rows one after the other. NaN is a value that is missing."""
        self._ready().learn_table(_Frame(X), y.tolist())

    def flush(self) -> None:
        """Make a time step of the rows that wait, if any."""
        self._ready().step()

    def predict_one(self, x: Mapping[Any, Any]) -> Any:
        """The label, or the value."""
        live = self._ready()
        return live.predicted(live.row(x))[0]

    def predict_many(self, X: pd.DataFrame) -> pd.Series[Any]:
        """Labels, or values."""
        live = self._ready()
        return pd.Series(live.predicted(live.table(_Frame(X))), index=X.index)

    @property
    def journal(self) -> Journal:
        """What was decided at every time step, and why."""
        found: Journal = self._ready().face.journal_
        return found


class OnlineClassifier(_OnlineModel, base.MiniBatchClassifier):  # type: ignore[misc]
    """Any strategy around any learner as a river classifier.

    Rows wait in a buffer until they make a time step; until the first one the labels met so far predict. Names
    get columns as they appear (see :class:`driftsurf.vocabulary.Vocabulary`), text is one-hot, what is missing is 0.

    Parameters
    ----------
    model
        An estimator of :mod:`driftsurf` or :mod:`driftsurf.baselines`; None means DriftSurf around
        ``SoftmaxRegression()``, for any number of classes.
    batch_size
        Rows of a time step.
    max_features, n_hashes
        How many names get a column of their own, and how many columns all others share.
    seed
        Fixes every draw.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from driftsurf.baselines import AUEClassifier
    >>> model = OnlineClassifier(AUEClassifier(experts=5), batch_size=50, seed=0)
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    Accuracy: 8...%
    """

    def _made(self) -> Adaptive:
        return DriftSurfClassifier(SoftmaxRegression())

    @property
    def _multiclass(self) -> bool:
        return "multiclass" in self._ready().capabilities.tasks

    def predict_proba_one(self, x: Mapping[Any, Any]) -> dict[Any, float]:
        """The probability of every label met so far."""
        live = self._able()
        return live.shares(live.row(x))[0]

    def predict_proba_many(self, X: pd.DataFrame) -> pd.DataFrame:
        """The same for a frame: a column for each label."""
        live = self._able()
        return pd.DataFrame(live.shares(live.table(_Frame(X))), index=X.index)

    def _able(self) -> Online:
        live = self._ready()
        if not live.capabilities.probabilities:
            raise NotImplementedError(f"{live.face._template()!r} has not the capability 'probabilities'")
        return live

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"batch_size": 10, "max_features": 4}
        yield {"model": DriftSurfClassifier(LogisticRegression())}


class OnlineRegressor(_OnlineModel, base.MiniBatchRegressor):  # type: ignore[misc]
    """Any strategy around any learner of values as a river regressor.

    Parameters
    ----------
    model
        An estimator of :mod:`driftsurf` or :mod:`driftsurf.baselines`; None means ``DriftSurfRegressor()``.
    batch_size, max_features, n_hashes, seed
        As for :class:`OnlineClassifier`.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> model = OnlineRegressor(batch_size=50, seed=0)
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    MAE: 0...
    """

    def _made(self) -> Adaptive:
        return DriftSurfRegressor()


class OnlineDetector(base.DriftAndWarningDetector):  # type: ignore[misc]
    """One of our drift detectors for river: fed one error at a time, 1 for a wrong prediction.

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

    def __init__(self, detector: Any = None) -> None:
        super().__init__()
        self.detector = detector

    def update(self, x: float) -> None:
        """Take one error."""
        if not hasattr(self, "_live"):
            self._live = (MDDM() if self.detector is None else self.detector).fresh()
        self._live.update([x])
        self._drift_detected, self._warning_detected = self._live.drift, self._live.warning

    def _reset(self) -> None:
        super()._reset()
        if hasattr(self, "_live"):
            self._live.reset()

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}


class _Frame:
    """A frame as a table of rows."""

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
