"""The range guard in compiled code: sizes of columns, norms of rows in these units, and the weights of extreme rows.

``session/guard.py`` says what they are for. A session, a compiled time step and a fleet all call the one kernel
``admit``, by its address where they are compiled themselves: its norms may be summed in any order, so the same source,
compiled into another loop, might give other last bits.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types
from numba.extending import overload

from driftsurf.kernels.compile import F8, FASTMATH, I8, UNWRAPPED, _in, _out, _rows, _sparse, inline, kernel, renamed
from driftsurf.kernels.frames import FLAG, _select

__all__ = ["ADMITTED", "UNSIZED", "Admission", "admission_type", "admit_csr", "admit_dense", "admit_type"]

FloatArray = npt.NDArray[np.float64]

MEMORY = 1024
"""Number of last rows whose norms are kept."""
QUANTILE = 0.9
COLUMN_MEMORY = 10_000
"""Number of rows over which the sizes of columns are averaged."""
CAP = 3.0
"""A value counts as at most this multiple of the typical size of its column."""
LIMIT = 6.0
"""Values are limited to this multiple of the usual size of their column: five standard deviations of normal values."""
GROWN = 5.0 / 3.0
"""Mean size of values, in units of the usual size and each up to ``CAP``, above which a column may have a new scale.
The mean is 1 as long as nothing changes, and 5/3 when a third of the values are at the cap."""
EVIDENCE = 100.0
"""A column has a new scale when the sizes of its values exceed ``GROWN`` by this much in total."""

ADMITTED, UNSIZED = 0, 1
"""Results of ``admit``."""
FACTOR, COLUMN_CAP, TOTAL, MASS, EXCESS, ROWS_OF_GUARD = range(6)
"""Rows of the array of a guard, which has a column for each column of the data, and their number."""


@inline
def column_sizes(total: Any, mass: Any, memory: Any, most: Any, out: Any) -> Any:
    """Write factor, cap, total and mass of each column to the rows of ``out``.

    The size of a column is total / mass. Both are halved once a column has more mass than ``memory``, so that old rows
    fade. A column without mass has factor 1 and cap 0; any other has factor 1 / size and a cap of ``most`` sizes.
    Returns the number of columns without mass, and the factor by which total and mass have faded.
    """
    fade = 1.0
    for c in range(total.shape[0]):
        if mass[c] > memory:
            fade = 0.5
    without = 0
    for c in range(total.shape[0]):
        out[2, c] = fade * total[c]
        out[3, c] = fade * mass[c]
        size = 0.0
        if out[3, c] == 0.0:
            without += 1
        else:
            size = out[2, c] / out[3, c]
        out[0, c] = 1.0 / size if size > 0.0 else 1.0
        out[1, c] = most * size
    return without, fade


@inline
def add_excess(total: Any, mass: Any, fade: Any, after: Any, excess: Any, usual: Any, out: Any) -> Any:
    """Write the excess of each column after rows that took its total and mass, times ``fade``, to those of ``after``.

    ``after`` is (factor, cap, total, mass, ...) as ``measure`` leaves it. Each non-zero value adds its size, in units
    of the size of its column before and up to the cap, minus ``usual``. The excess does not fall below 0, and is 0 for
    a column without mass before. Returns the largest excess.
    """
    largest = 0.0
    for c in range(out.shape[0]):
        grown = after[0, c] * (after[2, c] - fade * total[c]) - usual * (after[3, c] - fade * mass[c])
        out[c] = max(0.0, excess[c] + grown) if fade * mass[c] > 0.0 else 0.0
        largest = max(largest, out[c])
    return largest


def measure_dense(X: Any, columns: Any, most: Any, out: Any) -> Any:
    """Squared norms out[i] = sum of (factor * x_i)^2, and the sizes of columns.

    ``columns`` is (factor, cap, total, mass, ...). Each column's sum of min(|x|, cap) is added to its total, and the
    number of its non-zeros to its mass. Rows whose squares overflow do not contribute to the sizes. Everything is done
    in one pass, so that the second loop over a row finds it in the cache. Returns the largest norm, the number of norms
    that are 0, and the number of values whose product with the factor is above ``most``.
    """
    factor, cap, total, mass = columns[0], columns[1], columns[2], columns[3]
    d = X.shape[1]
    largest = 0.0
    zeros = 0
    extremes = 0
    for i in range(X.shape[0]):
        plain = 0.0
        scaled = 0.0
        for c in range(d):
            value = np.float64(X[i, c])
            plain += value * value
            value *= factor[c]
            scaled += value * value
            extremes += 1 if abs(value) > most else 0
        out[i] = scaled
        largest = scaled if scaled > largest else largest
        zeros += 1 if scaled == 0.0 else 0
        if plain < math.inf:  # not isfinite: numba compiles it to x - x == 0, which fastmath may turn into true
            for c in range(d):
                size = abs(np.float64(X[i, c]))
                total[c] += min(size, cap[c])
                mass[c] += 1.0 if size != 0.0 else 0.0
    return largest, zeros, extremes


def measure_csr(rows: Any, columns: Any, most: Any, out: Any) -> Any:
    """Squared norms of sparse rows, and the sizes of columns, as ``measure_dense`` computes them."""
    factor, cap, total, mass = columns[0], columns[1], columns[2], columns[3]
    data, indices, indptr = rows
    largest = 0.0
    zeros = 0
    extremes = 0
    for i in range(out.shape[0]):
        plain = 0.0
        scaled = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            q = np.uintp(p)
            value = np.float64(data[q])
            plain += value * value
            value *= factor[np.uintp(indices[q])]
            scaled += value * value
            extremes += 1 if abs(value) > most else 0
        out[i] = scaled
        largest = scaled if scaled > largest else largest
        zeros += 1 if scaled == 0.0 else 0
        if plain < math.inf:  # not isfinite: numba compiles it to x - x == 0, which fastmath may turn into true
            for p in range(indptr[i], indptr[i + 1]):
                q = np.uintp(p)
                size = abs(np.float64(data[q]))
                if size != 0.0:
                    c = np.uintp(indices[q])
                    total[c] += min(size, cap[c])
                    mass[c] += 1.0
    return largest, zeros, extremes


def measure(X: Any, columns: Any, most: Any, out: Any) -> Any:
    """Measure dense or sparse rows."""
    return measure_csr(X, columns, most, out) if isinstance(X, tuple) else measure_dense(X, columns, most, out)


# The rest of ``admit`` keeps the order of arithmetic. Here it is free, so that the loop over a row is vectorised.
@overload(measure, jit_options={"fastmath": FASTMATH, **UNWRAPPED}, strict=False)  # type: ignore[untyped-decorator]
def _measure(X: Any, columns: Any, most: Any, out: Any) -> Any:
    return measure_csr if isinstance(X, types.BaseTuple) else measure_dense


@inline
def _resize(before: Any, fade: Any, sizes: Any, after: Any) -> Any:
    """Restart the sums of columns that had no mass before, or whose values have a new scale, and clear their excess.

    Without ``sizes`` nothing is changed. Returns whether there are such columns with values in these rows.
    """
    known = sizes.shape[0] > 0
    found = False
    for c in range(after.shape[1]):
        unknown = fade * before[MASS, c] == 0.0
        changed = after[EXCESS, c] > EVIDENCE
        found = found or changed or (unknown and after[MASS, c] != 0.0)
        if known and (unknown or changed):
            after[FACTOR, c] = 1.0 / sizes[c] if sizes[c] > 0.0 else 1.0
            after[COLUMN_CAP, c] = CAP * sizes[c]
            after[TOTAL, c] = 0.0
            after[MASS, c] = 0.0
            after[EXCESS, c] = 0.0
    return found


@inline
def _weigh(recent: Any, norms: Any, zeros: Any, largest: Any, squared: Any, values: Any) -> Any:
    """Replace the norms of rows by their weights; return whether any of them is not 1, otherwise the norms remain.

    The limit is a quantile of the recent norms and those of the new rows, times ``squared``.
    """
    n = recent.shape[0] + norms.shape[0] - zeros
    place = math.floor(QUANTILE * (n - 1))
    # Fast path. The quantile reaches this value if at most ``place`` values are below it, and then no row is beyond
    # the limit. 1e-12 is more than rounding can change.
    enough = largest / squared * (1.0 + 1e-12)
    below = 0
    for k in range(recent.shape[0]):
        below += 1 if recent[k] < enough else 0
    for k in range(norms.shape[0]):
        below += 1 if norms[k] < enough and norms[k] > 0.0 else 0
    if n == 0 or (enough < math.inf and below <= place):
        return False
    count = 0
    for k in range(recent.shape[0]):  # NaN, which a saved state may have, would be the largest values
        if recent[k] == recent[k]:
            values[count] = recent[k]
            count += 1
    for k in range(norms.shape[0]):
        if norms[k] > 0.0:
            values[count] = norms[k]
            count += 1
    limit = squared * _select(values[:count], place) if place < count else math.nan
    for k in range(norms.shape[0]):
        if limit < math.inf:
            norms[k] = limit / norms[k] if norms[k] > limit else 1.0
        else:
            norms[k] = 1.0 if norms[k] < math.inf else 0.0
    return True


@inline
def _keep(recent: Any, norms: Any, zeros: Any, out: Any) -> Any:
    """Write the last positive norms to ``out``, oldest first; return their number."""
    n = recent.shape[0] + norms.shape[0] - zeros
    kept = min(n, MEMORY)
    skipped = n - kept
    at = 0
    for k in range(min(skipped, recent.shape[0]), recent.shape[0]):
        out[at] = recent[k]
        at += 1
    skipped = max(0, skipped - recent.shape[0])
    for k in range(norms.shape[0]):
        if norms[k] != 0.0:
            if skipped > 0:
                skipped -= 1
            else:
                out[at] = norms[k]
                at += 1
    return at


def _admit(
    X: Any,
    before: Any,
    recent: Any,
    sizes: Any,
    squared: Any,
    clips: Any,
    after: Any,
    later: Any,
    norms: Any,
    values: Any,
) -> Any:
    """Admit rows to a guard, whose numbers are ``before`` and ``recent``, and write those after them.

    Parameters
    ----------
    before, after
        The numbers of each column (``ROWS_OF_GUARD``, columns). Before the first rows they are 0. The cap of a column
        afterwards is ``CAP`` times the size in whose unit these rows were measured.
    recent, later
        Squared norms of the last rows, oldest first; ``later`` has room for ``MEMORY``, or for all of them.
    sizes
        Typical size of each column of these rows, or nothing: it is used only if the result is UNSIZED without.
    squared
        Square of the factor of the guard.
    norms
        Written: the weight of each row if any of them is not 1, otherwise its squared norm.
    values
        Scratch space for as many numbers as ``recent`` and ``norms`` have.

    Returns
    -------
    ADMITTED, or UNSIZED if a column has to be sized by these rows, and nothing else is valid; the number of values
    beyond the limits of their columns; the number of norms in ``later``; and whether any weight is not 1.
    """
    _, fade = column_sizes(before[TOTAL], before[MASS], COLUMN_MEMORY, CAP, after)
    largest, zeros, extremes = measure(X, after, LIMIT, norms)
    for c in range(after.shape[1]):
        after[EXCESS, c] = 0.0
    if clips:
        add_excess(before[TOTAL], before[MASS], fade, after, before[EXCESS], GROWN, after[EXCESS])
    if _resize(before, fade, sizes, after):
        if sizes.shape[0] == 0:
            return UNSIZED, 0, 0, False
        for c in range(after.shape[1]):  # the first pass has added these rows to the others
            if after[MASS, c] != 0.0:
                after[TOTAL, c] = fade * before[TOTAL, c]
                after[MASS, c] = fade * before[MASS, c]
        largest, zeros, extremes = measure(X, after, LIMIT, norms)
    kept = _keep(recent, norms, zeros, later)
    weighted = _weigh(recent, norms, zeros, largest, squared, values)
    return ADMITTED, extremes, kept, weighted


def _arguments(rows: Any) -> tuple[Any, ...]:
    matrix, numbers = _out(F8, 2), _out(F8)
    return rows, _in(F8, 2), _in(F8), _in(F8), F8, FLAG, matrix, numbers, numbers, numbers


class Admission(NamedTuple):
    """The arrays of one admission, as ``admit`` takes them; without columns there is no guard."""

    before: FloatArray
    recent: FloatArray
    squared: float
    clips: bool
    after: FloatArray
    later: FloatArray
    work: FloatArray
    """``values`` of ``admit``."""


def admission_type() -> Any:
    """Return the numba type of an ``Admission``."""
    matrix, numbers = _out(F8, 2), _out(F8)
    return types.NamedTuple([matrix, numbers, F8, FLAG, matrix, numbers, numbers], Admission)


def admit_type(f: Any) -> Any:
    """Return the signature of the kernel for rows of this type, by which compiled loops call it."""
    return types.Tuple((I8, I8, I8, FLAG))(*_arguments(_rows(f)))


admit_dense: Any = kernel(lambda f: _arguments(_in(f, 2)), exact=True)(renamed(_admit, "admit_dense"))
admit_csr: Any = kernel(lambda f: _arguments(_sparse(f)), exact=True)(renamed(_admit, "admit_csr"))
