"""A model as an MLflow pyfunc: saved exactly, loaded by ``mlflow.pyfunc.load_model``, served like any other.

What is stored is the saved state of the model (``to_bytes``), no pickle: a loaded model predicts as the saved one did,
and ``native_model`` gives the estimator back, ready to learn on.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from driftsurf import baselines, estimators, learners
from driftsurf._face import Adaptive
from driftsurf._options import choice
from driftsurf.errors import CapabilityError, MissingExtraError, StateError
from driftsurf.runtime import files
from driftsurf.state import from_bytes, read_header

__all__ = ["AdaptiveModel", "log_model", "save_model"]

METHODS = "predict", "predict_proba", "decision_function"


class AdaptiveModel:
    """What MLflow loads: ``predict`` of a frame or an array."""

    def __init__(self, model: Adaptive) -> None:
        self.native_model = model

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> npt.NDArray[Any]:
        """Labels, or values; with ``params={"method": "predict_proba"}`` probabilities, or "decision_function"."""
        method = (params or {}).get("method", "predict")
        choice("method", method, METHODS)  # a request may come from anywhere
        found: npt.NDArray[Any] = getattr(self.native_model, method)(model_input)
        return found


def save_model(model: Adaptive, path: str | Path, **options: Any) -> None:
    """Save a model in MLflow's format; ``options`` are those of ``mlflow.pyfunc.save_model``."""
    with tempfile.TemporaryDirectory() as folder:
        _mlflow().save_model(path=str(path), **_how(model, folder), **options)


def log_model(model: Adaptive, name: str = "model", **options: Any) -> Any:
    """Log a model to the run that is active; ``options`` are those of ``mlflow.pyfunc.log_model``."""
    with tempfile.TemporaryDirectory() as folder:
        return _mlflow().log_model(name=name, **_how(model, folder), **options)


def _how(model: Adaptive, folder: str) -> dict[str, Any]:
    check_is_fitted(model)
    learner = model._session.strategy.learner
    if getattr(learners, type(learner).__name__, None) is not type(learner):
        raise CapabilityError(
            f"the learner of this model is {learner!r}, which has to be given again when it is loaded, and MLflow has "
            "no way to; it keeps models around one of driftsurf.learners"
        )
    file = Path(folder) / "model.driftsurf"
    model.save(file)
    return {"loader_module": "driftsurf.mlflow", "data_path": str(file), "pip_requirements": ["driftsurf"]}


def _load_pyfunc(data_path: str) -> AdaptiveModel:
    """What MLflow calls by this name."""
    data = files.read_kept(Path(data_path), good=read_header)
    name = str(from_bytes(data).get("estimator"))
    for home in (estimators, baselines):
        kind: Any = getattr(home, name) if name in home.__all__ else None
        if hasattr(kind, "from_bytes"):
            return AdaptiveModel(kind.from_bytes(data))
    raise StateError(f"{data_path} holds a {name!r}, which is no estimator of driftsurf")


def _mlflow() -> Any:
    try:
        from mlflow import pyfunc
    except ImportError as error:
        raise MissingExtraError("this needs MLflow: pip install 'driftsurf[mlflow]'") from error
    return pyfunc
