"""Random problems for the loops of logistic regression, as the native ones and as their twins take them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import reference
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from row_arrays import csr_view, frozen

from driftsurf.core.contracts import DenseRows, FloatArray, IntArray


@dataclass(frozen=True)
class Problem:
    """Rows, a model in the middle of its training, and the steps that it takes next."""

    X: DenseRows
    y: FloatArray
    weight: FloatArray
    order: IntArray
    w: FloatArray
    table: dict[int, float]
    eta: float
    mu: float
    factor: FloatArray
    """Factor of each column, the constant one last; the gains are the squares."""
    centre: FloatArray | None = None

    @property
    def rows(self) -> reference.LabelledRows:
        """Rows for the twins, which have no frame: centred, scaled, and with the constant column."""
        X = np.column_stack([self.X, np.ones(len(self.X))]).astype(float)
        return (X - self.frame[1]) * self.factor, self.y, self.weight

    @property
    def start(self) -> FloatArray:
        """Weights of the scaled columns."""
        return np.divide(self.w, self.factor, out=np.zeros_like(self.w), where=self.factor > 0)

    @property
    def frame(self) -> tuple[FloatArray, FloatArray, IntArray]:
        """Gain, centre and centred columns for the native loops."""
        centre = np.zeros_like(self.factor) if self.centre is None else self.centre
        return frozen(np.square(self.factor)), frozen(centre), frozen(np.flatnonzero(centre))

    @property
    def native_rows(self) -> tuple[tuple[Any, Any, Any], tuple[Any, Any, Any]]:
        """Rows, targets and weights, dense and CSR."""
        y, weight = frozen(self.y), frozen(self.weight)
        return (frozen(self.X), y, weight), (csr_view(self.X), y, weight)

    @property
    def model(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Weights, gradient sum and table for the native loops."""
        table = np.full(len(self.X), math.nan)
        for i, alpha in self.table.items():
            table[i] = alpha
        return self.w.copy(), self.factor * reference.gradient_sum(self.rows[0], self.table), table


@st.composite
def problems(draw: st.DrawFn, max_steps: int = 40) -> Problem:
    """Draw a problem whose steps do not amplify rounding errors."""
    n, d = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    dtype = draw(st.sampled_from([np.float64, np.float32]))
    values = st.sampled_from([0.0, 0.0, 1.0, -1.0]) | st.floats(-8.0, 8.0, width=32)
    X = draw(arrays(np.float64, (n, d), elements=values)).astype(dtype)
    y = draw(arrays(np.float64, n, elements=st.sampled_from([0.0, 1.0])))
    weight = draw(arrays(np.float64, n, elements=st.sampled_from([1.0, 0.0, 0.3, 4.0])))
    order = draw(st.lists(st.integers(0, n - 1), max_size=max_steps))
    w = draw(arrays(np.float64, d + 1, elements=st.floats(-5.0, 5.0)))
    table = draw(st.dictionaries(st.integers(0, n - 1), st.floats(-4.0, 4.0)))
    factor = draw(arrays(np.float64, d + 1, elements=st.sampled_from([1.0, 1.0, 0.5, 3.0])))
    factor[-1] = draw(st.sampled_from([1.0, 0.0]))
    w[-1] *= factor[-1]
    centre = draw(arrays(np.float64, d + 1, elements=st.sampled_from([0.0, 0.0, 3.0, -1.5]))) * factor[-1]
    centre[-1] = 0.0
    # With step sizes beyond 1 / L the steps are chaotic, and rounding errors grow; mu covers its whole range.
    curvature = 0.25 + float((np.square((X.astype(float) - centre[:-1]) * factor[:-1]).sum(axis=1) * weight).max()) / 4
    eta = draw(st.floats(1e-3, 0.3)) / curvature
    mu = draw(st.sampled_from([0.0, 1e-4, 0.5, 0.99, 1 - 1e-9])) / eta
    return Problem(X, y, weight, np.array(order, np.int64), w, table, eta, mu, factor, centre)


def close(left: FloatArray, right: FloatArray) -> None:
    """Assert that two arrays agree to nine digits."""
    np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-9)
