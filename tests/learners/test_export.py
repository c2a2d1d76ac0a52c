"""Exports as plain arrays, ONNX and MLflow predict like the model they were made from."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.exceptions import NotFittedError
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from driftsurf import DriftSurfClassifier, DriftSurfRegressor
from driftsurf.core.samples import Samples
from driftsurf.core.state import from_bytes, to_bytes
from driftsurf.errors import CapabilityError, MissingExtraError, OptionError, StateError
from driftsurf.estimators import AUEClassifier, PairedLearnersClassifier, SlidingWindowRegressor, mlflow
from driftsurf.learners import LinearRegression, LinearSVM, LogisticRegression, SoftmaxRegression, export
from driftsurf.learners.export import LinearModel, linear_model

LABELS: dict[str, list[Any]] = {
    "text": ["no", "yes"],
    "text, the other way round": ["yes", "no"],
    "numbers": [-1, 1],
    "truth": [True, False],
    "floats": [2.0, 1.0],
}


def n_classes_learned(model: Any, labels: list[Any] | None, columns: int = 3, steps: int = 5) -> Any:
    """Return columns with very different centres and sizes; with labels, the first row has the first of them."""
    random = np.random.default_rng(0)
    places, sizes = np.array([300.0, -2.0, 0.0]), np.array([5.0, 0.01, 100.0])
    for _ in range(steps):
        Z = random.normal(size=(200, columns))
        X = places + sizes * Z
        if labels is None:
            y: Any = 1e3 + Z @ [1.0, -2.0, 0.5]
        else:
            codes = Z[:, : len(labels)].argmax(axis=1)
            codes[: len(labels)] = range(len(labels))
            y = np.array(labels)[codes]
        model.partial_fit(X, y)
    return model, X


MODELS: dict[str, Any] = {
    "logistic": (lambda: DriftSurfClassifier(LogisticRegression(), random_state=0), LABELS["text"]),
    "svm": (lambda: DriftSurfClassifier(LinearSVM(), random_state=0), LABELS["text, the other way round"]),
    "softmax, two": (lambda: DriftSurfClassifier(SoftmaxRegression(), random_state=0), LABELS["numbers"]),
    "softmax": (lambda: DriftSurfClassifier(SoftmaxRegression(), random_state=0), ["c", "a", "b"]),
    "paired": (lambda: PairedLearnersClassifier(random_state=0), LABELS["truth"]),
    "floats": (lambda: DriftSurfClassifier(random_state=0), LABELS["floats"]),
    "values": (lambda: DriftSurfRegressor(random_state=0), None),
    "huber": (lambda: SlidingWindowRegressor(LinearRegression(loss="huber"), random_state=0), None),
}


@pytest.mark.parametrize("name", list(MODELS))
def test_plain_arrays_predict_like_the_model(name: str) -> None:
    make, labels = MODELS[name]
    model, X = n_classes_learned(make(), labels)
    exported = model.export()
    if labels is None:
        assert np.allclose(exported.predict(X), model.predict(X), rtol=1e-12, atol=0.0)
    else:
        assert (exported.predict(X) == model.predict(X)).all()
        assert exported.classes.tolist() == model.classes_.tolist()
    if exported.probabilities:
        assert np.abs(exported.predict_proba(X) - model.predict_proba(X)).max() < 1e-12
    else:
        with pytest.raises(CapabilityError, match="probabilities"):
            exported.predict_proba(X)


def test_the_arrays_are_sufficient_to_predict() -> None:
    model, X = n_classes_learned(DriftSurfClassifier(random_state=0), LABELS["text"])
    arrays = model.export().arrays()
    assert set(arrays) == {"coef", "intercept", "classes", "ranges"}
    again = LinearModel(**arrays, probabilities=True)
    assert (again.predict(X) == model.predict(X)).all()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    named = DriftSurfRegressor(random_state=0).partial_fit(frame, X[:, 0])
    assert named.export().arrays()["columns"].tolist() == ["a", "b", "c"]


def test_ranges_of_learner_and_session_that_do_not_meet_are_applied_in_turn() -> None:
    samples, learner = Samples(3), LinearRegression().fresh(0, 3, 0)
    X = np.random.default_rng(0).uniform(10.0, 20.0, size=(300, 3))
    learner.update(samples, samples.append(X, X[:, 0]), 600)
    low, high = np.array([-1.0, 50.0, 12.0]), np.array([1.0, 60.0, 80.0])
    rows = np.array([[-99.0, -99.0, -99.0], [15.0, 15.0, 15.0], [99.0, 99.0, 99.0]])
    exported = linear_model(learner, None, ranges=(low, high))
    assert np.allclose(exported.predict(rows), learner.scores(np.clip(rows, low, high)), rtol=1e-12)


def test_models_of_sparse_rows_can_be_exported() -> None:
    X = np.random.default_rng(0).normal(size=(100, 3)) * (np.random.default_rng(1).random((100, 3)) < 0.5)
    model = DriftSurfClassifier(random_state=0).partial_fit(csr_matrix(X), np.where(X[:, 0] > 0, 1, 0))
    assert (model.export().predict(X) == model.predict(csr_matrix(X))).all()


def test_a_model_that_is_not_linear_cannot_be_exported() -> None:
    with pytest.raises(NotFittedError):
        DriftSurfClassifier().export()
    for model, why in (
        (AUEClassifier(random_state=0), "several models vote"),
        (DriftSurfClassifier(GaussianNB(), classes=["no", "yes"], random_state=0), "SklearnLearner"),
    ):
        with pytest.raises(CapabilityError, match=why):
            n_classes_learned(model, LABELS["text"])[0].export()
    with pytest.raises(CapabilityError, match="1 class"):
        DriftSurfClassifier(random_state=0).partial_fit([[0.0], [1.0]], ["a", "a"]).export()


# ---------------------------------------------------------------------------- ONNX


@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_onnx_predicts_like_the_model(name: str, dtype: Any) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="needs onnx and onnxruntime")
    make, labels = MODELS[name]
    model, X = n_classes_learned(make(), labels)
    service = runtime.InferenceSession(model.export().to_onnx(dtype), providers=["CPUExecutionProvider"])
    names = [output.name for output in service.get_outputs()]
    found = dict(zip(names, service.run(None, {"X": X.astype(dtype)}), strict=True))
    exact = dtype == "float64"
    if labels is None:
        assert np.allclose(found["value"][:, 0], model.predict(X), rtol=1e-12 if exact else 1e-4)
        return
    same = found["label"] == model.predict(X)
    assert same.all() if exact else same.mean() > 0.97
    if model.export().probabilities:
        worst = np.abs(found["probabilities"] - model.predict_proba(X)).max()
        assert worst < (1e-12 if exact else 1e-2)
    else:
        assert found["scores"].shape == (200, 2)


def test_without_onnx_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    exported = LinearModel(np.ones((1, 2)), np.zeros(1), None)
    with pytest.raises(OptionError, match="dtype"):
        exported.to_onnx("float16")  # type: ignore[arg-type]
    monkeypatch.setattr(export, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"driftsurf\[export\]"):
        exported.to_onnx()


# ---------------------------------------------------------------------------- MLflow


@pytest.mark.filterwarnings("ignore")  # warnings of MLflow and its imports
def test_mlflow_saves_loads_and_predicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyfunc = pytest.importorskip("mlflow.pyfunc", reason="needs mlflow-skinny")
    model, X = n_classes_learned(DriftSurfClassifier(random_state=0), LABELS["text"])
    mlflow.save_model(model, tmp_path / "model")
    loaded = pyfunc.load_model(str(tmp_path / "model"))
    assert (loaded.predict(X) == model.predict(X)).all()
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    tracking = pytest.importorskip("mlflow")
    tracking.set_tracking_uri((tmp_path / "runs").as_uri())
    with tracking.start_run():
        logged = mlflow.log_model(model)
    assert (pyfunc.load_model(logged.model_uri).predict(X) == model.predict(X)).all()


@pytest.mark.filterwarnings("ignore")  # warnings of MLflow and its imports
def test_mlflow_passes_the_method_whatever_the_signature(tmp_path: Path) -> None:
    models = pytest.importorskip("mlflow.models", reason="needs mlflow-skinny")
    pyfunc = pytest.importorskip("mlflow.pyfunc", reason="needs mlflow-skinny")
    model, X = n_classes_learned(DriftSurfClassifier(random_state=0), LABELS["text"])
    options: list[dict[str, Any]] = [
        {},
        {"input_example": X[:3]},
        {"input_example": (X[:3], {"method": "predict"})},
        {"signature": models.infer_signature(X, model.predict(X))},
        {"signature": models.infer_signature(X, model.predict(X), {"method": "predict"})},
    ]
    for place, given in enumerate(options):
        mlflow.save_model(model, tmp_path / str(place), **given)
        loaded = pyfunc.load_model(str(tmp_path / str(place)))
        assert np.array_equal(loaded.predict(X), model.predict(X))
        shares = loaded.predict(X, params={"method": "predict_proba"})
        assert np.array_equal(shares, model.predict_proba(X)), given
        assert (loaded.metadata.signature.inputs is not None) == bool(given)


def test_mlflow_loads_the_exact_model(tmp_path: Path) -> None:
    model, X = n_classes_learned(AUEClassifier(experts=3, random_state=0), LABELS["text"])
    loaded = mlflow._load_pyfunc(mlflow._saved(model, str(tmp_path))["data_path"])
    assert loaded.native_model.to_bytes() == model.to_bytes()
    assert (loaded.predict(X) == model.predict(X)).all()
    shares = loaded.predict(X, {"method": "predict_proba"})
    assert np.array_equal(shares, model.predict_proba(X))
    other = from_bytes(model.to_bytes()) | {"estimator": "Oak"}
    (tmp_path / "other").write_bytes(to_bytes(other))
    with pytest.raises(StateError, match="'Oak'"):
        mlflow._load_pyfunc(str(tmp_path / "other"))


@pytest.mark.parametrize("method", ["__init__", "partial_fit", "set_params", "save", "", None, 3])
def test_only_prediction_methods_can_be_requested(method: Any) -> None:
    model, X = n_classes_learned(DriftSurfClassifier(random_state=0), LABELS["text"], steps=2)
    before = model.to_bytes()
    with pytest.raises(OptionError, match="'predict', 'predict_proba', 'decision_function'"):
        mlflow.AdaptiveModel(model).predict(X, {"method": method})
    assert model.to_bytes() == before
    assert np.array_equal(
        mlflow.AdaptiveModel(model).predict(X, {"method": "decision_function"}), model.decision_function(X)
    )


def test_a_learner_that_mlflow_cannot_restore_is_refused_on_saving(tmp_path: Path) -> None:
    model, _ = n_classes_learned(DriftSurfClassifier(DecisionTreeClassifier(), random_state=0), LABELS["text"], steps=2)
    with pytest.raises(CapabilityError, match=r"SklearnLearner.*driftsurf\.learners"):
        mlflow._saved(model, str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_without_mlflow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = n_classes_learned(DriftSurfClassifier(random_state=0), LABELS["text"], steps=1)
    monkeypatch.setitem(sys.modules, "mlflow", None)
    for call in (lambda: mlflow.save_model(model, tmp_path / "model"), lambda: mlflow.log_model(model)):
        with pytest.raises(MissingExtraError, match=r"driftsurf\[export\]"):
            call()
