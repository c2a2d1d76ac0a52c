"""The rows of a cell, dense or CSR: what compiled code reads of them, and how they are stored, moved and saved.

numba does not notice changes to this file: remove the ``__pycache__`` folders (``make clean``) after changing it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types
from numba.extending import overload

from driftsurf.core.contracts import CSR, AppendOnlyArray, FloatArray, IncrementalState, Rows, n_rows
from driftsurf.kernels.compile import UNCOUNTED
from driftsurf.strategies.compiled.layout import Cell

LEAST_PLACES = 64
RESERVED = 8
"""Number of times by which dense rows can grow in place, once they take ``LARGE`` bytes. The system provides memory
when it is first written: room that is not used costs nothing, while copying rows to new memory costs as much as
learning them."""
LARGE = 2**18

# ---------------------------------------------------------------------------- in compiled code

# They return tuples: a function that counts no references cannot return a single new array. A function that counts them
# must not call these, as it would count down what was never counted up.


def parts_between(cell: Any, a: Any, b: Any) -> Any:
    """Return rows, targets and weights at the places a to b, the rows as kernels take them."""
    X = cell.X
    rows = (X.data, X.indices, X.indptr[a : b + 1]) if isinstance(X, CSR) else X[a:b]
    return rows, cell.y[a:b], cell.weight[a:b]


@overload(parts_between, jit_options=UNCOUNTED, strict=False)  # type: ignore[untyped-decorator]
def _parts_between(cell: Any, a: Any, b: Any) -> Any:
    if isinstance(cell.types[0], types.BaseTuple):
        return lambda cell, a, b: (
            (cell.X.data, cell.X.indices, cell.X.indptr[a : b + 1]),
            cell.y[a:b],
            cell.weight[a:b],
        )
    return lambda cell, a, b: (cell.X[a:b], cell.y[a:b], cell.weight[a:b])


def labelled_between(cell: Any, a: Any, b: Any) -> Any:
    """Return the rows at the places a to b with their targets and weights, as one argument of kernels."""
    rows, y, weight = parts_between(cell, a, b)
    return (*rows, y, weight) if isinstance(rows, tuple) else (rows, y, weight)


@overload(labelled_between, jit_options=UNCOUNTED, strict=False)  # type: ignore[untyped-decorator]
def _labelled_between(cell: Any, a: Any, b: Any) -> Any:
    if isinstance(cell.types[0], types.BaseTuple):
        return lambda cell, a, b: (
            cell.X.data,
            cell.X.indices,
            cell.X.indptr[a : b + 1],
            cell.y[a:b],
            cell.weight[a:b],
        )
    return lambda cell, a, b: (cell.X[a:b], cell.y[a:b], cell.weight[a:b])


def by_output(weights: Any, entries: Any, outputs: Any, X: Any) -> Any:
    """Return weights and entries of rows (scores or gradients) as matrices, as kernels for several outputs take them.

    These take weights by columns of sparse rows, and by outputs of dense rows.
    """
    shape = (-1, outputs) if isinstance(X, tuple) else (outputs, -1)
    return weights.reshape(shape), entries.reshape(-1, outputs)


@overload(by_output, jit_options=UNCOUNTED, strict=False)  # type: ignore[untyped-decorator]
def _by_output(weights: Any, entries: Any, outputs: Any, X: Any) -> Any:
    if isinstance(X, types.BaseTuple):
        return lambda weights, entries, outputs, X: (
            weights.reshape(weights.shape[0] // outputs, outputs),
            entries.reshape(entries.shape[0] // outputs, outputs),
        )
    return lambda weights, entries, outputs, X: (
        weights.reshape(outputs, weights.shape[0] // outputs),
        entries.reshape(entries.shape[0] // outputs, outputs),
    )


def is_sparse(X: Any) -> bool:
    """Return whether these are CSR rows."""
    return isinstance(X, tuple)


@overload(is_sparse, jit_options=UNCOUNTED, strict=False)  # type: ignore[untyped-decorator]
def _is_sparse(X: Any) -> Any:
    if isinstance(X, types.BaseTuple):
        return lambda X: True
    return lambda X: False


# ---------------------------------------------------------------------------- in Python


def copied(X: Rows) -> Rows:
    """Return a copy of rows, whose boundaries count from 0 if they are sparse."""
    if not isinstance(X, CSR):
        return X.copy()
    a, b = X.indptr[[0, -1]].tolist()
    return CSR(X.data[a:b].copy(), X.indices[a:b].copy(), X.indptr - a, X.n_features)


def write(X: Rows, place: int, new: Rows) -> None:
    """Write rows to the places from ``place`` on, for which there is room."""
    if not isinstance(X, CSR):
        X[place : place + len(new)] = new
        return
    assert isinstance(new, CSR)
    a, b = new.indptr[[0, -1]].tolist()
    at = X.indptr[place].item()
    X.data[at : at + b - a], X.indices[at : at + b - a] = new.data[a:b], new.indices[a:b]
    np.add(new.indptr[1:], at - a, out=X.indptr[place + 1 : place + len(new.indptr)])


def stored_between(X: Rows, a: int, b: int) -> Rows:
    """Return the rows at the places a to b, as views."""
    return X._replace(indptr=X.indptr[a : b + 1]) if isinstance(X, CSR) else X[a:b]


def allocated_bytes(X: Rows) -> int:
    """Return the bytes allocated for rows and for more to come."""
    return sum(part.nbytes for part in X[:3]) if isinstance(X, CSR) else X.nbytes


def used_bytes(X: Rows) -> int:
    """Return the bytes of rows alone."""
    if not isinstance(X, CSR):
        return X.nbytes
    values: int = (X.indptr[-1] - X.indptr[0]).item()
    return values * (X.data.itemsize + X.indices.itemsize) + X.indptr.nbytes


def outputs_of(cell: Cell) -> int:
    """Return the number of outputs of the models of a cell."""
    weights, columns = cell.w.shape[1], cell.factor.shape[1]
    count: int = weights // columns
    return count


def entries_of(cell: Cell) -> FloatArray:
    """Return the gradient tables of a cell (sides, places, outputs), as a view."""
    return cell.tables.reshape(len(cell.tables), len(cell.y), outputs_of(cell))


def with_room(cell: Cell, new: Rows, max_rows: int) -> Cell:
    """Return a cell with room for these rows: the same one, if need be with its rows moved to the front, or another.

    Rows that move also stay as they are in their old places, so that a step can be undone. The cell will hold
    ``max_rows`` rows and a batch at most.
    """
    X, counts, count = cell.X, cell.counts, n_rows(new)
    base, first, stop = (counts[name].item() for name in ("base", "first", "next"))
    start, live = first - base, stop - first
    low = high = more = room = 0  # places of the live values of sparse rows, number of new ones, and places for all
    if isinstance(X, CSR):
        assert isinstance(new, CSR)
        low, high = X.indptr[[start, start + live]].tolist()
        more, room = (new.indptr[-1] - new.indptr[0]).item(), len(X.data)
    if start + live + count <= len(cell.y) and high + more <= room:
        return cell
    needed, values, target = live + count, high - low + more, cell
    if not (2 * needed <= len(cell.y) and needed < start and values <= low):
        if (grown := _lengthened(cell, start + needed, needed)) is not None:
            return grown
        length = max(LEAST_PLACES, 2 * needed)
        # Sparse rows have some more room, so that the next ones fit even if they are a little longer.
        larger = _empty_like(X, max(length, _reserved(X, needed, max_rows + count)), 2 * values + values // 16)
        places = n_rows(larger)
        tables = np.empty((len(cell.tables), length * outputs_of(cell)))
        y, weight = np.empty(places)[:length], np.empty(places)[:length]
        target = cell._replace(X=stored_between(larger, 0, length), y=y, weight=weight, tables=tables)
    moved: Any = target.X
    if isinstance(X, CSR):
        moved.data[: high - low], moved.indices[: high - low] = X.data[low:high], X.indices[low:high]
        np.subtract(X.indptr[start : start + live + 1], low, out=moved.indptr[: live + 1])
    elif live:
        moved[:live] = X[start : start + live]
    if live:
        lives = slice(start, start + live)
        target.y[:live], target.weight[:live] = cell.y[lives], cell.weight[lives]
        entries_of(target)[:, :live] = entries_of(cell)[:, lives]
    counts["values"] += low
    counts["base"] = first
    return target


def _reserved(X: Rows, needed: int, most: int) -> int:
    """Return for how many rows to reserve memory, given how many need it now, and how many there will be at most."""
    if isinstance(X, CSR) or needed * X.itemsize * X.shape[1] < LARGE:
        return max(LEAST_PLACES, 2 * needed)
    most = 2 * max(needed, most)
    return most if 2 * RESERVED * needed > most else RESERVED * needed


def _lengthened(cell: Cell, places: int, more: int) -> Cell | None:
    """Return the cell with room for more dense rows in the same memory, where they stay; None if that is full.

    The gradient tables are copied: their entries stand side by side.
    """
    reserved = 0 if isinstance(cell.X, CSR) or cell.X.base is None else len(cell.X.base)
    if reserved < places + more // 4:
        return None
    length = min(places + more, reserved)
    longer: dict[str, Any] = {name: getattr(cell, name).base[:length] for name in ("X", "y", "weight")}
    made = cell._replace(tables=np.empty((len(cell.tables), length * outputs_of(cell))), **longer)
    entries_of(made)[:, : len(cell.y)] = entries_of(cell)
    return made


def _empty_like(X: Rows, places: int, values: int) -> Rows:
    """Return memory for this many rows, and this many values if they are sparse."""
    if not isinstance(X, CSR):
        return np.empty((places, X.shape[1]), X.dtype)
    indptr = np.empty(places + 1, np.int64)
    return CSR(np.empty(values, X.data.dtype), np.empty(values, np.int32), indptr, X.n_features)


def entry_names(X: Rows) -> tuple[str, ...]:
    """Return the names of the saved arrays of rows."""
    return ("y", "weight", *(CSR._fields[:3] if isinstance(X, CSR) else ("X",)))


def saved_rows(cell_now: Callable[[], Cell], owners: Mapping[str, object]) -> IncrementalState:
    """Return the rows of a cell as ``Samples`` saves them; they are read when a checkpoint asks for them.

    ``cell_now`` returns the cell at that time. ``owners`` has an object for each saved array.
    """
    cell = cell_now()
    X, counts = cell.X, cell.counts
    first, stop, base = (counts[name].item() for name in ("first", "next", "base"))
    sparse = isinstance(X, CSR)
    n_features, dtype = (X.n_features, X.data.dtype) if isinstance(X, CSR) else (X.shape[1], X.dtype)
    state: IncrementalState = {
        "n_features": n_features,
        "sparse": sparse,
        "dtype": dtype.name,
        "first_row": first,
    }
    for name, owner in owners.items():
        a, b = first, stop
        if name in ("data", "indices"):
            assert isinstance(X, CSR)
            a, b = (X.indptr[[first - base, stop - base]] + counts["values"]).tolist()
        read = functools.partial(_saved, cell_now, name)
        state[name] = AppendOnlyArray(owner, a, b, read, ends=name == "indptr")
    return state


def _saved(cell_now: Callable[[], Cell], name: str, lo: int, hi: int) -> npt.NDArray[Any]:
    """Return the entries of a saved array from number ``lo`` to ``hi``."""
    cell = cell_now()
    X: Any = cell.X
    at = cell.counts["values" if name in ("data", "indices") else "base"].item()
    if name == "indptr":  # saved as lengths
        return np.diff(X.indptr[lo - at : hi - at + 1])
    values: npt.NDArray[Any] = getattr(X if isinstance(X, CSR) and name in X._fields else cell, name)
    return values[lo - at : hi - at]
