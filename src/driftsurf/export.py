"""The model that predicts now, taken out of its strategy: plain arrays, and ONNX."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from driftsurf._options import choice
from driftsurf.base import FloatArray
from driftsurf.errors import CapabilityError, MissingExtraError

__all__ = ["LinearModel", "linear_model"]


@dataclass(frozen=True)
class LinearModel:
    """A linear model as it stands, for rows as they come: centre and scale are folded into its weights.

    Needs nothing but numpy to predict, and knows nothing of drift.
    """

    coef: FloatArray
    """(outputs, columns); one output for margins and values."""
    intercept: FloatArray
    """(outputs,)"""
    classes: npt.NDArray[Any] | None
    """In order; with one output, a margin above 0 speaks for the second. None for values."""
    probabilities: bool = False
    """Whether outputs are log-odds, or logarithms of unnormalised probabilities."""
    columns: tuple[str, ...] | None = None
    """Their names, if they have any."""

    def outputs(self, X: npt.ArrayLike) -> FloatArray:
        """(n, outputs): what everything else is read from."""
        return np.asarray(X, np.float64) @ self.coef.T + self.intercept

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Labels, or values."""
        outputs = self.outputs(X)
        if self.classes is None:
            return outputs[:, 0]
        codes = outputs.argmax(axis=1) if outputs.shape[1] > 1 else (outputs[:, 0] > 0.0).astype(np.int64)
        labels: npt.NDArray[Any] = self.classes[codes]
        return labels

    def predict_proba(self, X: npt.ArrayLike) -> FloatArray:
        """Probabilities, one column for each of ``classes``."""
        if not self.probabilities:
            raise CapabilityError("this model has not the capability 'probabilities'")
        logs = self._logs(self.outputs(X))
        return np.asarray(np.exp(logs - np.logaddexp.reduce(logs, axis=1, keepdims=True)))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All of it by name, as ``numpy.savez`` takes it."""
        found: dict[str, npt.NDArray[Any]] = {"coef": self.coef, "intercept": self.intercept}
        if self.classes is not None:
            found["classes"] = self.classes
        if self.columns is not None:
            found["columns"] = np.array(self.columns)
        return found

    @staticmethod
    def _logs(outputs: FloatArray) -> FloatArray:
        """One column for each class: a margin is the second class against 0 for the first."""
        return np.column_stack([np.zeros(len(outputs)), outputs]) if outputs.shape[1] == 1 else outputs

    def to_onnx(self, dtype: Literal["float64", "float32"] = "float64") -> bytes:
        """The model in ONNX: an input ``X``; outputs ``label`` and ``probabilities`` or ``scores``, or ``value``.

        Needs the extra ``onnx``. With "float32", which some runtimes ask for, predictions are rounded to it.
        """
        choice("dtype", dtype, ("float64", "float32"))
        if find_spec("onnx") is None:
            raise MissingExtraError("to_onnx needs onnx: pip install 'driftsurf[onnx]'")
        from driftsurf._onnx import graph_of

        pair = self.classes is not None and len(self.coef) == 1
        weights = np.vstack([np.zeros_like(self.coef), self.coef]) if pair else self.coef
        intercept = np.append(0.0, self.intercept) if pair else self.intercept
        return graph_of(weights.T.astype(dtype), intercept.astype(dtype), self.classes, self.probabilities)


def linear_model(learner: Any, labels: npt.NDArray[Any] | None, columns: tuple[str, ...] | None = None) -> LinearModel:
    """The weights of a learner in training; ``labels`` are by code, None for values. CapabilityError if it has none."""
    if learner is None or not all(hasattr(learner, name) for name in ("coef", "intercept")):
        what = "several models vote" if learner is None else f"{type(learner).__name__} is no linear model"
        raise CapabilityError(
            f"{what}: there are no plain arrays to export; save the whole model with save() or pickle"
        )
    coef, intercept = np.atleast_2d(learner.coef), np.atleast_1d(np.asarray(learner.intercept, np.float64))
    if labels is None:
        return LinearModel(coef, intercept, None, columns=columns)
    if len(labels) < 2:
        raise CapabilityError("the model was taught one class so far: there is nothing to tell apart yet")
    order = np.argsort(labels)
    if len(coef) == 1:
        sign = -1.0 if order[0] == 1 else 1.0
        coef, intercept = sign * coef, sign * intercept
    else:
        coef, intercept = coef[order], intercept[order]
    return LinearModel(coef, intercept, labels[order], learner.capabilities.probabilities, columns)
