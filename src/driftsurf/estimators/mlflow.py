"""A model as an MLflow pyfunc: saved exactly, loaded by ``mlflow.pyfunc.load_model``, served like any other.

MLflow stores the saved state of the model (``to_bytes``), not a pickle. A loaded model predicts as the saved one did,
and ``native_model`` is the estimator itself, which can learn on.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy.typing as npt

from driftsurf import registry
from driftsurf.core import files
from driftsurf.core.frames import MatrixLike
from driftsurf.core.options import choice
from driftsurf.core.state import from_bytes, read_header
from driftsurf.errors import CapabilityError, MissingExtraError, StateError
from driftsurf.estimators.base import AdaptiveEstimator
from driftsurf.estimators.classes import find_estimator

METHODS = "predict", "predict_proba", "decision_function"


class AdaptiveModel:
    """The object that MLflow loads."""

    def __init__(self, model: AdaptiveEstimator) -> None:
        self.native_model = model

    def predict(self, model_input: MatrixLike, params: dict[str, Any] | None = None) -> npt.NDArray[Any]:
        """Predict labels or numbers; ``params={"method": "predict_proba"}`` or "decision_function" returns scores."""
        method = (params or {}).get("method", "predict")
        choice("method", method, METHODS)  # a request may name any method
        found: npt.NDArray[Any] = getattr(self.native_model, method)(model_input)
        return found


def save_model(model: AdaptiveEstimator, path: str | Path, **options: Any) -> None:
    """Save a model in MLflow's format; ``options`` are those of ``mlflow.pyfunc.save_model``."""
    with tempfile.TemporaryDirectory() as folder:
        _mlflow().save_model(path=str(path), **_saved(model, folder), **_with_method(model, options))


def log_model(model: AdaptiveEstimator, name: str = "model", **options: Any) -> Any:
    """Log a model to the active run; ``options`` are those of ``mlflow.pyfunc.log_model``."""
    with tempfile.TemporaryDirectory() as folder:
        return _mlflow().log_model(name=name, **_saved(model, folder), **_with_method(model, options))


def _saved(model: AdaptiveEstimator, folder: str) -> dict[str, Any]:
    """Save the model to a folder, and return the arguments with which MLflow stores it."""
    learner = model._session.strategy.learner
    if registry.find("learner", type(learner)) is None:
        raise CapabilityError(
            f"the learner of this model is {learner!r}, which has to be passed to load the model, and MLflow cannot "
            "pass it; use a registered learner, such as one of driftsurf.learners"
        )
    file = Path(folder) / "model.driftsurf"
    model.save(file)
    return {"loader_module": "driftsurf.estimators.mlflow", "data_path": str(file), "pip_requirements": ["driftsurf"]}


def _with_method(model: AdaptiveEstimator, options: dict[str, Any]) -> dict[str, Any]:
    """Return options with a signature that has ``method``: MLflow passes no parameters that a signature lacks."""
    from mlflow.models import ModelSignature, infer_signature
    from mlflow.types.schema import ParamSchema, ParamSpec

    signature, rows = options.get("signature"), options.get("input_example")
    if signature is None and rows is not None:
        rows = rows[0] if isinstance(rows, tuple) else rows  # the other entry has parameters
        signature = infer_signature(rows, model.predict(rows))
    if signature is not None and signature.params is not None:
        return options
    params = ParamSchema([ParamSpec("method", "string", METHODS[0])])
    inputs, outputs = (None, None) if signature is None else (signature.inputs, signature.outputs)
    return {**options, "signature": ModelSignature(inputs, outputs, params)}


def _load_pyfunc(data_path: str) -> AdaptiveModel:
    """Load a model; MLflow calls this function by name."""
    data = files.read_with_backup(Path(data_path), good=read_header)
    name = str(from_bytes(data).get("estimator"))
    kind = find_estimator(name)
    if kind is None:
        raise StateError(f"{data_path} holds a {name!r}, which is not an estimator of a registered strategy")
    return AdaptiveModel(kind.from_bytes(data))


def _mlflow() -> Any:
    try:
        from mlflow import pyfunc
    except ImportError as error:
        raise MissingExtraError("MLflow is not installed: pip install 'driftsurf[export]'") from error
    return pyfunc
