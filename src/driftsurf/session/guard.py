"""Range guard: extreme values are limited, and rows that are far larger than the usual ones get a small weight.

The limits of a :class:`~driftsurf.native.guard.RangeGuard` bound what one extreme row can do to a linear model, a
gradient average or a risk.

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
hundred rows, has a new scale; it is then measured again.

A guard is a value: ``admit`` returns the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from driftsurf.core.contracts import State
from driftsurf.core.fields import Array, FieldEntry, FieldRule, Fields, Real
from driftsurf.core.options import number
from driftsurf.native.guard import MEMORY, RangeGuard

LARGEST = 1e100
"""The factor is below this, so that its square does not overflow."""


def new_guard(factor: float, *, clips: bool = False) -> RangeGuard:
    """Return the guard before the first row; OptionError for a factor that no guard can have.

    >>> X = np.ones((100, 1)); X[3] = 1e6
    >>> rows, weights, guard = new_guard(2.0, clips=True).admit(X)
    >>> weights[:5].round(9)
    array([1., 1., 1., 0., 1.])
    >>> guard.limited(np.array([[-2.0], [50.0]])).round(1)
    array([[-2. ],
           [ 6.1]])
    """
    number("guard", factor, at_least=1.0, below=LARGEST, otherwise=", or None for no guard")
    return RangeGuard(factor, clips)


def guard_state(guard: RangeGuard) -> State:
    """Return the state of a guard as flat entries."""
    sums = {"total": guard.total, "mass": guard.mass, "excess": guard.excess}
    state: State = {"factor": guard.factor, "recent": guard.recent}
    return state | {name: values for name, values in sums.items() if values is not None}


def guard_from_state(state: Mapping[str, Any], n_features: int | None, *, clips: bool = False) -> RangeGuard:
    """Return the guard with this state, for rows of ``n_features`` columns (None: no row yet)."""
    known = (UNUSED if n_features is None else CLIPPING if clips else FIELDS).read(state, n_features=n_features)
    sums = (known.get(name) for name in ("total", "mass", "excess"))
    return RangeGuard(known["factor"], clips, known["recent"], *sums)


_EITHER: dict[str, FieldEntry] = {
    "factor": Real(1.0, LARGEST),
    "recent": Array(np.float64, ("rows",), least=0.0, missing=True),  # infinite if a square overflowed
}
_FEW = FieldRule("recent", f"must have at most {MEMORY} values", lambda known: known["rows"] <= MEMORY)
_SUMS: dict[str, FieldEntry] = dict.fromkeys(("total", "mass", "excess"), Array(np.float64, ("n_features",), least=0.0))
UNUSED = Fields(_EITHER, rules=[_FEW])
FIELDS = Fields(_EITHER | {name: _SUMS[name] for name in ("total", "mass")}, rules=[_FEW])
CLIPPING = Fields(_EITHER | _SUMS, rules=[_FEW])
"""Saved entries of a guard: before the first row, without limits of values, and with them."""
