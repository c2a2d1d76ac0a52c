"""Export of a trained linear model as plain arrays or ONNX."""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from driftsurf.core.abilities import LinearPredictor
from driftsurf.core.contracts import FloatArray, Learner
from driftsurf.core.options import choice
from driftsurf.errors import CapabilityError, MissingExtraError
from driftsurf.registry import name_of


@dataclass(frozen=True)
class LinearModel:
    """A trained linear model for unscaled rows: centre and scale are folded into its weights.

    Extreme values are limited as the session limits them. It predicts with numpy alone and does not learn.
    """

    coef: FloatArray
    """Weights (outputs, columns); one output for margins and regression."""
    intercept: FloatArray
    """Intercepts (outputs,)."""
    classes: npt.NDArray[Any] | None
    """Sorted class labels; with one output, a margin above 0 means the second. None for regression."""
    probabilities: bool = False
    """Whether outputs are log-odds or unnormalised log-probabilities."""
    columns: tuple[str, ...] | None = None
    """Names of the columns, if known."""
    ranges: FloatArray | None = None
    """Smallest and largest value (2, columns) to which values of the columns are limited; None for no limits."""
    span: tuple[float, float] = (-math.inf, math.inf)
    """Smallest and largest number that a regression predicts."""

    def outputs(self, X: npt.ArrayLike) -> FloatArray:
        """Return the outputs (n, outputs), from which predictions are made."""
        rows = np.asarray(X, np.float64)
        if self.ranges is not None:
            rows = np.clip(rows, *self.ranges)
        return np.clip(rows @ self.coef.T + self.intercept, *self.span)

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the predicted labels, or numbers for regression."""
        outputs = self.outputs(X)
        if self.classes is None:
            return outputs[:, 0]
        codes = outputs.argmax(axis=1) if outputs.shape[1] > 1 else (outputs[:, 0] > 0.0).astype(np.int64)
        labels: npt.NDArray[Any] = self.classes[codes]
        return labels

    def predict_proba(self, X: npt.ArrayLike) -> FloatArray:
        """Return probabilities, one column for each of ``classes``."""
        if not self.probabilities:
            raise CapabilityError("this model lacks the capability 'probabilities'; use outputs()")
        logs = self._logs(self.outputs(X))
        return np.asarray(np.exp(logs - np.logaddexp.reduce(logs, axis=1, keepdims=True)))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all arrays by name, for ``numpy.savez``."""
        found: dict[str, npt.NDArray[Any]] = {"coef": self.coef, "intercept": self.intercept}
        if self.classes is not None:
            found["classes"] = self.classes
        if self.columns is not None:
            found["columns"] = np.array(self.columns)
        if self.ranges is not None:
            found["ranges"] = self.ranges
        if self.classes is None:
            found["span"] = np.array(self.span)
        return found

    @staticmethod
    def _logs(outputs: FloatArray) -> FloatArray:
        """Return one column per class; a margin becomes 0 for the first class and the margin for the second."""
        return np.column_stack([np.zeros(len(outputs)), outputs]) if outputs.shape[1] == 1 else outputs

    def to_onnx(self, dtype: Literal["float64", "float32"] = "float64") -> bytes:
        """Return the model in ONNX: input ``X``; outputs ``label`` and ``probabilities`` or ``scores``, or ``value``.

        It needs the extra ``onnx``. Some runtimes require "float32", which rounds the predictions.
        """
        choice("dtype", dtype, ("float64", "float32"))
        if find_spec("onnx") is None:
            raise MissingExtraError("to_onnx needs onnx: pip install 'driftsurf[export]'")
        from driftsurf.learners.onnx import graph_of

        pair = self.classes is not None and len(self.coef) == 1
        weights = np.vstack([np.zeros_like(self.coef), self.coef]) if pair else self.coef
        intercept = np.append(0.0, self.intercept) if pair else self.intercept
        limits = None if self.ranges is None else self.ranges.astype(dtype)
        span = np.array(self.span, dtype) if self.classes is None else None
        return graph_of(
            weights.T.astype(dtype), intercept.astype(dtype), self.classes, self.probabilities, limits, span
        )


def linear_model(
    learner: Learner | None,
    labels: npt.NDArray[Any] | None,
    columns: tuple[str, ...] | None = None,
    ranges: tuple[FloatArray, FloatArray] | None = None,
    span: tuple[float, float] = (-math.inf, math.inf),
) -> LinearModel:
    """Return the weights of a learner as a linear model; CapabilityError if it is not linear.

    ``labels`` are the class labels by code, None for regression. ``ranges`` limit the values of the columns, and
    ``span`` the predictions of a regression.
    """
    linear: object = learner
    if learner is None or not isinstance(linear, LinearPredictor):
        what = "several models vote" if learner is None else f"the learner {name_of('learner', learner)} is not linear"
        raise CapabilityError(
            f"{what}, so there are no plain arrays to export; save the whole model with save() or pickle"
        )
    own = linear.ranges
    if own is not None:  # the learner limits what the session has limited
        ranges = own if ranges is None else (np.clip(ranges[0], *own), np.clip(ranges[1], *own))
    limits = None if ranges is None else np.array(ranges)
    coef, intercept = np.atleast_2d(linear.coef), np.atleast_1d(np.asarray(linear.intercept, np.float64))
    if labels is None:
        return LinearModel(coef, intercept, None, False, columns, limits, span)
    if len(labels) < 2:
        raise CapabilityError(f"the model has seen {len(labels)} class so far; it needs two to predict")
    order = np.argsort(labels)
    if len(coef) == 1:
        sign = -1.0 if order[0] == 1 else 1.0
        coef, intercept = sign * coef, sign * intercept
    else:
        coef, intercept = coef[order], intercept[order]
    return LinearModel(coef, intercept, labels[order], learner.capabilities.probabilities, columns, limits)
