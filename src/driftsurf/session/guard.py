"""Range guard: extreme values are limited, and rows that are far larger than the usual ones get a small weight."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from driftsurf.core.column_sizes import CAP, clipped, limited, measure, squared_norms, usual_sizes
from driftsurf.core.contracts import CSR, FloatArray, Rows, State
from driftsurf.core.fields import Array, Entry, Fields, Real, Rule
from driftsurf.core.options import number
from driftsurf.core.values import lazy, replace
from driftsurf.kernels.columns import add_excess, column_limits, column_sizes, join_and_count

__all__ = ["RangeGuard"]

MEMORY = 1024
"""Number of last rows whose norms are kept."""
QUANTILE = 0.9
LARGEST = 1e100
"""The factor is below this, so that its square does not overflow."""
COLUMN_MEMORY = 10_000
"""Number of rows over which the sizes of columns are averaged."""
LIMIT = 6.0
"""Values are limited to this multiple of the usual size of their column: five standard deviations of normal values."""
GROWN = 5.0 / 3.0
"""Mean size of values, in units of the usual size and each up to ``CAP``, above which a column may have a new scale.
The mean is 1 as long as nothing changes, and 5/3 when a third of the values are at the cap."""
LOOP = 128
"""Least number of values that are checked in one loop: the rows of narrow tables are checked several at once."""
EVIDENCE = 100.0
"""A column has a new scale when the sizes of its values exceed ``GROWN`` by this much in total."""


@dataclass(frozen=True)
class RangeGuard:
    """Limits that bound what one extreme row can do to a linear model, a gradient average or a risk.

    Each column is measured in units of its usual size (a robust mean of its absolute non-zero values), so that a value
    may be extreme in one column and ordinary in another. Rows whose norm in these units is up to ``factor`` times the
    usual norm (the 0.9 quantile over the last 1,024 non-zero rows) have weight 1. A row beyond that has the weight
    (factor * usual / norm)^2: the curvature of its loss is then that of a row at the limit, so a step size that suits
    ordinary rows suits it too, and its loss and gradient fall off as 1 / norm. (For a quadratic loss a session squares
    the weight once more.) A value of 1e6 among ordinary ones counts almost nothing, one whose square overflows nothing.
    A lasting change of scale is followed after about a hundred rows.

    Rows with extreme values may be too frequent for that: in a heavy-tailed column, one value in five may be a thousand
    times the others. With ``clips``, values are limited to six times the usual size of their column, for learning and
    for predicting. A column in which more than a third of the values are three times as large as usual, for about a
    hundred rows, has a new scale; it is then measured anew.

    A guard is a value: ``admit`` returns the next one.

    Examples
    --------
    >>> X = np.ones((100, 1)); X[3] = 1e6
    >>> rows, weights, guard = RangeGuard(factor=2.0, clips=True).admit(X)
    >>> weights[:5].round(9)
    array([1., 1., 1., 0., 1.])
    >>> guard.limited(np.array([[-2.0], [50.0]])).round(1)
    array([[-2. ],
           [ 6.1]])
    """

    factor: float = 2.0
    recent: FloatArray = field(default_factory=lambda: np.zeros(0))
    """Squared norms of the last rows, oldest first."""
    total: FloatArray | None = None
    mass: FloatArray | None = None
    """Sums over the rows for each column: ``total`` of absolute values, ``mass`` of the weights of its non-zeros."""
    clips: bool = False
    excess: FloatArray | None = None
    """Evidence for a new scale of each column; None unless ``clips``."""

    def __post_init__(self) -> None:
        number("guard", self.factor, at_least=1.0, below=LARGEST, otherwise=", or None for no guard")

    def admit(self, X: Rows) -> tuple[Rows, FloatArray | None, RangeGuard]:
        """Return the rows with limited values, their weights (None: all 1), and the guard after them."""
        n_features = X.n_features if isinstance(X, CSR) else X.shape[1]
        columns, without, fade = self._columns(n_features)
        norms, largest, zeros, extremes = measure(X, columns, LIMIT)
        excess = changed = None
        if self.clips:
            excess = np.zeros(n_features)
            if self.total is not None and self.mass is not None:
                known = np.zeros(n_features) if self.excess is None else self.excess
                if add_excess(self.total, self.mass, fade, columns, known, GROWN, excess) > EVIDENCE:
                    changed = excess > EVIDENCE
                    excess[changed] = 0.0
        if changed is not None or (without and n_features - np.count_nonzero(columns[3]) < without):
            columns, *_ = self._columns(n_features)  # new columns are sized by these rows
            new = columns[3] == 0.0 if changed is None else changed | (columns[3] == 0.0)
            finite = np.isfinite(squared_norms(X, np.ones(n_features + 1), np.zeros(n_features + 1)))
            sizes = usual_sizes(X, finite.astype(np.float64))[new]
            columns[0, new] = np.divide(1.0, sizes, out=np.ones_like(sizes), where=sizes > 0.0)
            columns[1, new], columns[2:, new] = CAP * sizes, 0.0
            norms, largest, zeros, extremes = measure(X, columns, LIMIT)
        recent, weights = self._weights(norms, norms[norms > 0.0] if zeros else norms, largest)
        _, caps, total, mass = columns
        rows = X
        if self.clips and extremes:
            rows = clipped(X, LIMIT / CAP * caps)
        after = replace(self, recent=recent[-MEMORY:], total=total, mass=mass, excess=excess)
        vars(after).pop("limits", None)  # computed for the guard before, and copied with the other entries
        return rows, weights, after

    def limited(self, X: Rows) -> Rows:
        """Return rows to be predicted, with limited values; the same object if nothing is beyond the limits."""
        return X if self.limits is None else limited(X, self.limits)

    @lazy
    def limits(self) -> FloatArray | None:
        """Largest absolute value of each column in predictions, all repeated up to a usual length; None: no limits."""
        if not self.clips or self.total is None or self.mass is None:
            return None
        width = len(self.total)
        limits = np.empty(width * math.ceil(LOOP / width))
        column_limits(self.total, self.mass, LIMIT, limits)
        return limits

    def _columns(self, n_features: int) -> tuple[FloatArray, int, float]:
        """Return the arguments of ``measure`` for the columns, the number of columns never seen, and their decay.

        Sums decay with a memory of 10,000 rows.
        """
        columns = np.empty((4, n_features))
        if self.total is None or self.mass is None:
            columns[0], columns[1:] = 1.0, 0.0
            return columns, n_features, 1.0
        return columns, *column_sizes(self.total, self.mass, COLUMN_MEMORY, CAP, columns)

    def _weights(self, norms: FloatArray, positive: FloatArray, largest: float) -> tuple[FloatArray, FloatArray | None]:
        """Return the last positive norms, with those of the new rows, and the weights of the new rows (None: all 1)."""
        recent = np.empty(len(self.recent) + len(positive))
        # Fast path. The quantile reaches this value if at most ``place`` values are below it, and then no row is beyond
        # the limit. 1e-12 is more than rounding can change.
        enough = largest / self.factor**2 * (1.0 + 1e-12)
        below = join_and_count(self.recent, positive, enough, recent)
        place = math.floor(QUANTILE * (len(recent) - 1))
        if len(recent) == 0 or (math.isfinite(enough) and below <= place):
            return recent, None
        weights = np.ones(len(norms))
        limit = self.factor**2 * float(np.partition(recent, place)[place])
        if math.isfinite(limit):
            large = norms > limit
            weights[large] = limit / norms[large]
        else:
            weights[~np.isfinite(norms)] = 0.0
        return recent, weights

    def state(self) -> State:
        """Return the state as flat entries."""
        arrays = {"total": self.total, "mass": self.mass, "excess": self.excess}
        state: State = {"factor": float(self.factor), "recent": self.recent}
        return state | {name: values for name, values in arrays.items() if values is not None}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], n_features: int | None, *, clips: bool = False) -> RangeGuard:
        """Return the guard that ``state()`` was called on, for rows of ``n_features`` columns (None: no row yet)."""
        known = (UNUSED if n_features is None else CLIPPING if clips else FIELDS).read(state, n_features=n_features)
        arrays = {name: known.get(name) for name in ("total", "mass", "excess")}
        return cls(known["factor"], known["recent"], clips=clips, **arrays)


_EITHER: dict[str, Entry] = {
    "factor": Real(1.0, LARGEST),
    "recent": Array(np.float64, ("rows",), least=0.0, missing=True),  # infinite if a square overflowed
}
_FEW = Rule("recent", f"must have at most {MEMORY} values", lambda known: known["rows"] <= MEMORY)
_SUMS: dict[str, Entry] = dict.fromkeys(("total", "mass", "excess"), Array(np.float64, ("n_features",), least=0.0))
UNUSED = Fields(_EITHER, rules=[_FEW])
FIELDS = Fields(_EITHER | {name: _SUMS[name] for name in ("total", "mass")}, rules=[_FEW])
CLIPPING = Fields(_EITHER | _SUMS, rules=[_FEW])
"""Saved entries of a guard: before the first row, without limits of values, and with them."""
