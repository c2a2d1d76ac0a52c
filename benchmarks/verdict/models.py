"""The models whose verdicts are judged, by short names."""

from __future__ import annotations

from typing import Any

from driftsurf import DriftSurfClassifier, DriftSurfRegressor, recommended
from driftsurf.estimators import AUEClassifier, AUERegressor
from driftsurf.learners import SoftmaxRegression

__all__ = ["MODELS", "build", "optional"]

MODELS = "default", "light", "wrapped", "ensemble"
COLLECTED = 100
"""Rows of a time step of the linear models, if the rows come one by one: docs/choosing.md."""


def build(name: str, classes: int, batch: int, *, dense: bool) -> Any:
    """Return a new estimator for a number of classes, 0 for a regression; "recommended" is the whole portfolio.

    "light" and "wrapped" learn a single row as a time step; "default" and "ensemble" collect a hundred. "wrapped" is
    DriftSurf around a model of another library: LightGBM in batches of 1,000 rows and for a regression, a linear model
    for rows that are not ``dense``, otherwise naive Bayes.
    """
    options: dict[str, Any] = {"random_state": 0}
    if name in ("light", "recommended"):
        variant: Any = "light" if name == "light" else "portfolio"
        return recommended(variant, task="classification" if classes else "regression", **options)
    if name == "wrapped":
        inner = _inner(classes, batch, dense=dense)
        return DriftSurfClassifier(inner, **options) if classes else DriftSurfRegressor(inner, **options)
    options["batch_size"] = COLLECTED if batch == 1 else None
    learner = SoftmaxRegression() if classes > 2 else None
    if name == "ensemble":
        return AUEClassifier(learner, **options) if classes else AUERegressor(**options)
    return DriftSurfClassifier(learner, **options) if classes else DriftSurfRegressor(**options)


def _inner(classes: int, batch: int, *, dense: bool) -> Any:
    """Return the model of another library."""
    if not dense:
        from sklearn.linear_model import SGDClassifier

        return SGDClassifier(loss="log_loss", random_state=0)
    if not classes or (batch >= 1_000 and classes < 10):
        import lightgbm

        kind = lightgbm.LGBMClassifier if classes else lightgbm.LGBMRegressor
        return kind(n_estimators=20, verbose=-1, n_jobs=1, random_state=0)
    from sklearn.naive_bayes import GaussianNB

    return GaussianNB()


def optional(name: str) -> str | None:
    """Return the package that a model needs and that is not installed; None if nothing is missing."""
    if name == "wrapped":
        for package in ("lightgbm", "sklearn"):
            try:
                __import__(package)
            except ImportError:
                return package
    return None
